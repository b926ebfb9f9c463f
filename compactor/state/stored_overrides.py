"""Settings of single tables that are kept in our own state, not in the table's properties."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import OVERRIDES, lock_state

_O = OVERRIDES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One setting of one table. ``at`` is the database's time in epoch ms, set when it is stored."""

    database: str
    table: str
    key: str
    value: str
    by: str
    at: int = 0


class StoredOverrides:
    """Reads and writes COMPACTOR_OVERRIDES."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_table(self, metastore: str, database: str, table: str) -> list[Override]:
        """Returns the settings kept for one table, by key."""
        return self._where(_O.METASTORE == metastore, _O.DB_NAME == database, _O.TABLE_NAME == table)

    def everything(self, metastore: str) -> dict[tuple[str, str], dict[str, str]]:
        """Returns the values kept for each table, by key."""
        values: dict[tuple[str, str], dict[str, str]] = {}
        for override in self._where(_O.METASTORE == metastore):
            values.setdefault((override.database, override.table), {})[override.key] = override.value
        return values

    def of_key(self, metastore: str, key: str) -> list[Override]:
        """Returns the tables for which this setting is kept."""
        return self._where(_O.METASTORE == metastore, _O.NAME == key)

    def _where(self, *conditions: object) -> list[Override]:
        query = select(OVERRIDES).where(*conditions).order_by(_O.DB_NAME, _O.TABLE_NAME, _O.NAME)  # type: ignore[arg-type]
        with self._database.read() as conn:
            return [
                Override(
                    database=row["DB_NAME"],
                    table=row["TABLE_NAME"],
                    key=row["NAME"],
                    value=row["VALUE"],
                    by=row["SAID_BY"],
                    at=row["SAID_AT"],
                )
                for row in conn.execute(query).mappings()
            ]

    @retried
    def keep(self, metastore: str, override: Override) -> None:
        """Stores an override; it replaces an earlier one of the same setting and table."""
        row = {"METASTORE": metastore, "DB_NAME": override.database, "TABLE_NAME": override.table, "NAME": override.key}
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(delete(OVERRIDES).filter_by(**row))
            entered = {"VALUE": override.value, "SAID_BY": override.by[:256], "SAID_AT": now_ms(conn)}
            conn.execute(insert(OVERRIDES).values(**row, **entered))

    @retried
    def forget(self, metastore: str, database: str, table: str, key: str) -> bool:
        """Removes an override; returns false if there was none."""
        where = (_O.METASTORE == metastore, _O.DB_NAME == database, _O.TABLE_NAME == table, _O.NAME == key)
        with self._database.write() as conn:
            return conn.execute(delete(OVERRIDES).where(*where)).rowcount > 0
