"""The requests that a run of a scheduler waits for, whoever made them: its next try joins them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, insert, select

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import AWAITED, lock_state

_A = AWAITED.c


class AwaitedRequests:
    """Reads and writes which queue entries each run waits for. A run is the digest of its name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def remember(self, metastore: str, run_key: str, entry_ids: Collection[int]) -> None:
        """Records that a run waits for these entries."""
        with self._database.write() as conn:
            lock_state(conn)
            known = select(_A.ENTRY_ID).where(_A.METASTORE == metastore, _A.RUN_KEY == run_key)
            new = set(entry_ids) - set(conn.execute(known).scalars())
            now = now_ms(conn)
            rows = [
                {"METASTORE": metastore, "RUN_KEY": run_key, "ENTRY_ID": entry_id, "SINCE": now}
                for entry_id in sorted(new)
            ]
            if rows:
                conn.execute(insert(AWAITED), rows)

    def list_of_run(self, metastore: str, run_key: str) -> list[int]:
        """Returns the entries that a run waits for or has waited for, oldest first."""
        query = select(_A.ENTRY_ID).where(_A.METASTORE == metastore, _A.RUN_KEY == run_key).order_by(_A.ENTRY_ID)
        with self._database.read() as conn:
            return list(conn.execute(query).scalars())

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Removes what runs waited for longer ago than this; returns the number of rows."""
        with self._database.write() as conn:
            return conn.execute(delete(AWAITED).where(_A.SINCE < now_ms(conn) - older_than_ms)).rowcount
