"""Values for which a metastore's queue has no columns, by the id of the queue's row."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import ENTRIES, lock_state

_E = ENTRIES.c
_AT_ONCE = 1000  #: ids in one statement


class KeptColumns:
    """COMPACTOR_ENTRIES of one metastore.

    Hive 3.1's queue has no columns for a compaction's transaction and pool.

    These values and the row of the metastore are not committed together, and need not be. Values that are needed later
    are written first. Values without a row, or of a row that took another course, decide nothing.
    """

    def __init__(self, database: Database, metastore: str) -> None:
        self._database = database
        self._metastore = metastore

    def get(self, ids: Collection[int]) -> dict[int, dict[str, Any]]:
        """Returns the kept values of these rows, by column name without prefix.

        Rows without values are left out.
        """
        with self._database.read() as conn:
            return self._get(conn, ids)

    @retried
    def put(self, rows: Mapping[int, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Adds these values to those kept for the rows.

        ``replace`` drops the earlier values of these rows first.
        """
        if not rows:
            return
        with self._database.write() as conn:
            lock_state(conn)
            known = {} if replace else self._get(conn, rows)
            self._forget(conn, rows)
            conn.execute(
                insert(ENTRIES),
                [
                    {
                        "METASTORE": self._metastore,
                        "ENTRY_ID": entry_id,
                        "KEPT": json.dumps(known.get(entry_id, {}) | dict(values), sort_keys=True),
                    }
                    for entry_id, values in rows.items()
                ],
            )

    @retried
    def forget(self, ids: Collection[int]) -> None:
        """Drops the values of rows that have left the history."""
        with self._database.write() as conn:
            lock_state(conn)
            self._forget(conn, ids)

    def ids(self) -> set[int]:
        """Returns the ids of the rows that have kept values."""
        with self._database.read() as conn:
            return set(conn.execute(select(_E.ENTRY_ID).where(_E.METASTORE == self._metastore)).scalars())

    def _get(self, conn: Connection, ids: Collection[int]) -> dict[int, dict[str, Any]]:
        kept: dict[int, dict[str, Any]] = {}
        for batch in in_parts(list(ids), _AT_ONCE):
            query = select(_E.ENTRY_ID, _E.KEPT).where(_E.METASTORE == self._metastore, _E.ENTRY_ID.in_(batch))
            kept |= {row.ENTRY_ID: json.loads(row.KEPT) for row in conn.execute(query)}
        return kept

    def _forget(self, conn: Connection, ids: Collection[int]) -> None:
        for batch in in_parts(list(ids), _AT_ONCE):
            conn.execute(delete(ENTRIES).where(_E.METASTORE == self._metastore, _E.ENTRY_ID.in_(batch)))
