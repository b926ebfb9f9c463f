"""The list of mirrored tables, with what their last passes did."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, insert, select, update

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import MIRRORS, lock_state

_M = MIRRORS.c
_LONGEST_ERROR = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A mirrored table and its table in a catalog.

    ``token`` is a random text that the Iceberg table and each of its snapshots carry. What a pass does follows from the
    Iceberg table; ``last_snapshot`` only tells a head that another program has put back.
    """

    database: str
    table: str
    table_id: int  #: TBL_ID
    catalog: str
    identifier: str  #: the namespace and name of the Iceberg table, with dots
    token: str
    timestamps: str  #: ``refuse`` or ``us``: timestamps with digits below a microsecond
    location: str  #: of the Iceberg table
    for_pyiceberg: bool = True  #: PyIceberg is one of the readers
    is_under_way: bool = False  #: a pass has begun and not ended: it may have left files
    added_at: int = 0
    last_snapshot: int | None = None
    committed_at: int | None = None
    passed_at: int | None = None  #: when a pass last ended without an error
    error: str | None = None

    @property
    def name(self) -> str:
        """``<database>.<table>``."""
        return f"{self.database}.{self.table}"


class Mirrors:
    """Reads and writes COMPACTOR_MIRRORS. All times are the database's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, metastore: str) -> list[Mirror]:
        """Returns the mirrors of a metastore, by name of the table."""
        query = select(MIRRORS).where(_M.METASTORE == metastore).order_by(_M.DB_NAME, _M.TABLE_NAME)
        with self._database.read() as conn:
            return [_mirror(row) for row in conn.execute(query).mappings()]

    def of_all_metastores(self) -> list[Mirror]:
        """Returns the mirrors of every metastore that shares this state."""
        with self._database.read() as conn:
            return [_mirror(row) for row in conn.execute(select(MIRRORS)).mappings()]

    def find(self, metastore: str, database: str, table: str) -> Mirror | None:
        """Returns the mirror of a table; None if it has none."""
        with self._database.read() as conn:
            row = conn.execute(select(MIRRORS).where(_is_of(metastore, database, table))).mappings().first()
        return None if row is None else _mirror(row)

    @retried
    def add(self, metastore: str, mirror: Mirror) -> bool:
        """Stores a new mirror; returns false if the table has one."""
        with self._database.write() as conn:
            lock_state(conn)
            of_table = _is_of(metastore, mirror.database, mirror.table)
            if conn.execute(select(_M.TOKEN).where(of_table)).first() is not None:
                return False
            self._insert(conn, metastore, mirror)
            return True

    @retried
    def replace(self, metastore: str, old: Mirror, new: Mirror) -> bool:
        """Stores ``new`` in place of ``old``; returns false if the table has another mirror by now."""
        with self._database.write() as conn:
            lock_state(conn)
            if not conn.execute(delete(MIRRORS).where(_is_mirror(metastore, old))).rowcount:
                return False
            self._insert(conn, metastore, new)
            return True

    def _insert(self, conn: Connection, metastore: str, mirror: Mirror) -> None:
        conn.execute(
            insert(MIRRORS).values(
                METASTORE=metastore,
                DB_NAME=mirror.database,
                TABLE_NAME=mirror.table,
                TABLE_ID=mirror.table_id,
                CATALOG=mirror.catalog,
                IDENTIFIER=mirror.identifier,
                TOKEN=mirror.token,
                TIMESTAMPS=mirror.timestamps,
                FOR_PYICEBERG=int(mirror.for_pyiceberg),
                LOCATION=mirror.location,
                ADDED_AT=now_ms(conn),
            )
        )

    @retried
    def begin_pass(self, metastore: str, mirror: Mirror) -> None:
        """Stores that a pass begins, so that a later one knows of its death."""
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(update(MIRRORS).where(_is_mirror(metastore, mirror)).values(UNDER_WAY=1))

    @retried
    def record_commit(self, metastore: str, mirror: Mirror, snapshot: int) -> bool:
        """Stores the commit of a pass; returns false if another commit was stored since ``mirror`` was read.

        Otherwise a slow process would put an older commit in place of a newer one.
        """
        with self._database.write() as conn:
            lock_state(conn)
            values = {"LAST_SNAPSHOT": snapshot, "COMMITTED_AT": now_ms(conn)}
            is_as_read = (
                _M.LAST_SNAPSHOT.is_(None) if mirror.last_snapshot is None else _M.LAST_SNAPSHOT == mirror.last_snapshot
            )
            changed = conn.execute(update(MIRRORS).where(_is_mirror(metastore, mirror), is_as_read).values(values))
            return changed.rowcount > 0

    @retried
    def record_pass(self, metastore: str, mirror: Mirror) -> None:
        """Stores that a pass ended well, with or without a commit."""
        with self._database.write() as conn:
            lock_state(conn)
            values = {"PASSED_AT": now_ms(conn), "ERROR": None, "UNDER_WAY": 0}
            conn.execute(update(MIRRORS).where(_is_mirror(metastore, mirror)).values(values))

    @retried
    def record_error(self, metastore: str, mirror: Mirror, error: str) -> None:
        """Stores the error of a pass."""
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(update(MIRRORS).where(_is_mirror(metastore, mirror)).values(ERROR=error[:_LONGEST_ERROR]))

    @retried
    def forget(self, metastore: str, mirror: Mirror) -> None:
        """Removes a mirror."""
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(delete(MIRRORS).where(_is_mirror(metastore, mirror)))


def _is_of(metastore: str, database: str, table: str) -> ColumnElement[bool]:
    return and_(_M.METASTORE == metastore, _M.DB_NAME == database, _M.TABLE_NAME == table)


def _is_mirror(metastore: str, mirror: Mirror) -> ColumnElement[bool]:
    return and_(_is_of(metastore, mirror.database, mirror.table), _M.TOKEN == mirror.token)


def _mirror(row: RowMapping) -> Mirror:
    return Mirror(
        database=row["DB_NAME"],
        table=row["TABLE_NAME"],
        table_id=row["TABLE_ID"],
        catalog=row["CATALOG"],
        identifier=row["IDENTIFIER"],
        token=row["TOKEN"],
        timestamps=row["TIMESTAMPS"],
        for_pyiceberg=bool(row["FOR_PYICEBERG"]),
        location=row["LOCATION"],
        is_under_way=bool(row["UNDER_WAY"]),
        added_at=row["ADDED_AT"],
        last_snapshot=row["LAST_SNAPSHOT"],
        committed_at=row["COMMITTED_AT"],
        passed_at=row["PASSED_AT"],
        error=row["ERROR"],
    )
