"""Event-driven scheduling: an asset that gets an event whenever a Hive table has new commits.

DAG parsing imports this module, so the trigger imports the reading of a metastore only when it runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from compactor.airflow.assets import committed
from compactor.airflow.configuration import check_seconds, seconds
from compactor.base.errors import CompactorError

log = logging.getLogger(__name__)
#: Seconds before the next look at a table that could not be read.
TROUBLE_PAUSE = 30.0
_KEY = "seen"  #: of the asset's state


def watched(table: str, *, metastore: str = "default", poll_seconds: float | None = None) -> Asset:
    """Returns the asset of commits to ``table`` (``DATABASE.TABLE``), watched every ``poll_seconds``.

    Raises:
        ValueError: ``table`` is not of this form.
        BadSetting: ``poll_seconds`` is not above 0.
    """
    poll = seconds("poll_seconds") if poll_seconds is None else check_seconds("poll_seconds", poll_seconds)
    trigger = CommitTrigger(table=table, metastore=metastore, poll_seconds=poll)
    asset = committed(table, metastore)
    return Asset(name=asset.name, uri=asset.uri, watchers=[AssetWatcher(name="commits", trigger=trigger)])


class CommitTrigger(BaseEventTrigger):
    """Fires whenever writers have committed to a table since the last look.

    The first look only remembers the table.

    An event has ``table``, ``commits`` (their number), ``first_write_id``, ``last_write_id`` and ``partitions``. Airflow
    stores the last look with the asset, so the next triggerer reports commits from a time without one. Compactions do not
    count as commits.
    """

    def __init__(self, *, table: str, metastore: str = "default", poll_seconds: float = 5.0) -> None:
        super().__init__()
        self.table = table
        self.metastore = metastore
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{__name__}.{type(self).__name__}",
            {"table": self.table, "metastore": self.metastore, "poll_seconds": self.poll_seconds},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        seen = await self._recall()
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                now, commits = await asyncio.to_thread(_look, self.metastore, self.table, seen)
            except CompactorError as trouble:
                log.warning(
                    "cannot look for commits to %s; trying again in %s s: %s", self.table, TROUBLE_PAUSE, trouble
                )
                await asyncio.sleep(TROUBLE_PAUSE)
                continue
            if commits is not None:
                yield TriggerEvent(commits)
            if now != seen:  # after the event: reporting one twice is better than losing it
                seen = now
                await self._remember(now)

    async def _recall(self) -> Any:
        return None if self.asset_state_store is None else await self.asset_state_store.aget(_KEY)

    async def _remember(self, seen: Any) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(_KEY, seen)


def _look(metastore: str, table: str, seen: Any) -> tuple[dict[str, object], dict[str, object] | None]:
    from compactor.airflow import tasks

    return tasks.read_commits(metastore, table, seen)
