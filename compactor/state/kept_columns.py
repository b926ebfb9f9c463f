"""Values for which a metastore's own queue has no columns, by the id of the row that they belong to."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.state.state_tables import ENTRIES, alone

_E = ENTRIES.c
_AT_ONCE = 1000  #: ids in one statement


class KeptColumns:
    """COMPACTOR_ENTRIES of one metastore: Hive 3.1's queue knows neither a compaction's transaction nor its pool.

    Correctness does not depend on this and the metastore's row being committed together: values needed later are written
    first, and those of a row that never came, or went another way, decide nothing.
    """

    def __init__(self, database: Database, metastore: str) -> None:
        self._database = database
        self._metastore = metastore

    def get(self, ids: Collection[int]) -> dict[int, dict[str, Any]]:
        """Returns what is kept for these rows, by column name without prefix; rows without kept values are left out."""
        with self._database.read() as conn:
            return self._get(conn, ids)

    @retried
    def put(self, rows: Mapping[int, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Keeps these values beside those known for the rows; ``replace`` first forgets what was known for these ids."""
        if not rows:
            return
        with self._database.write() as conn:
            alone(conn)
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
        """Drops what is kept for rows that have left the history."""
        with self._database.write() as conn:
            alone(conn)
            self._forget(conn, ids)

    def ids(self) -> set[int]:
        """Returns the ids of rows for which something is kept."""
        with self._database.read() as conn:
            return set(conn.execute(select(_E.ENTRY_ID).where(_E.METASTORE == self._metastore)).scalars())

    def _get(self, conn: Connection, ids: Collection[int]) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for some in _chunks(ids):
            query = select(_E.ENTRY_ID, _E.KEPT).where(_E.METASTORE == self._metastore, _E.ENTRY_ID.in_(some))
            found |= {row.ENTRY_ID: json.loads(row.KEPT) for row in conn.execute(query)}
        return found

    def _forget(self, conn: Connection, ids: Collection[int]) -> None:
        for some in _chunks(ids):
            conn.execute(delete(ENTRIES).where(_E.METASTORE == self._metastore, _E.ENTRY_ID.in_(some)))


def _chunks(ids: Collection[int]) -> Iterator[Sequence[int]]:
    rest = iter(ids)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
