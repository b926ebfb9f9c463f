"""The progress of running compactions, and the places to watch them: a few statements for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.insight.time_left import time_left
from compactor.site.site import Site
from compactor.state.batches import Batch, BatchState
from compactor.state.entry_progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An entry that is being worked on: its batch, how far it is (None: not known, or too short to be told), the
    milliseconds that the run before took there, and those that are left of this one."""

    batch: Batch | None = None
    progress: Progress | None = None
    expected_ms: int | None = None
    left_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        found = self.progress
        return {
            "units": None if found is None else found.units,
            "units_done": None if found is None else found.units_done,
            "bytes": None if found is None else found.bytes,
            "bytes_done": None if found is None else found.bytes_done,
            "left_ms": self.left_ms,
            "tracking_url": None if self.batch is None else self.batch.tracking_url,
            "log_url": None if self.batch is None else self.batch.log_url,
            "task_url": None if self.batch is None else self.batch.task_url,
        }


def reserved_batches(site: Site) -> dict[int, Batch]:
    """Returns the batch of each reserved entry."""
    if site.state is None:
        return {}
    active = site.state.batches.find(site.name, states=(BatchState.PLANNED, BatchState.RUNNING))
    return {entry_id: batch for batch in reversed(active) for entry_id in batch.entry_ids}


def running(site: Site, entries: Sequence[Entry], batches: Mapping[int, Batch] | None = None) -> dict[int, Running]:
    """Returns what is known of those of ``entries`` that are being worked on; ``batches`` are those that are reserved, if
    the caller knows them already."""
    working = [entry for entry in entries if entry.state is State.WORKING]
    if site.state is None or not working:
        return {entry.id: Running() for entry in working}
    reserved = reserved_batches(site) if batches is None else batches
    told, now = site.state.progress.for_entries(site.name, [entry.id for entry in working]), site.metastore.now_ms()
    # the last run there: the work that lies ahead cannot be known before it is planned
    last = site.state.runs.newest_of(site.name, [entry.entity for entry in working])
    found = {}
    for entry in working:
        # what an earlier worker of the same entry left says nothing of this one
        progress = one if (one := told.get(entry.id)) is not None and one.at >= (entry.start or 0) else None
        expected = round(last[entry.entity].seconds * 1000) if entry.entity in last else None
        left = time_left(progress, now=now, began=entry.start, expected_ms=expected)
        found[entry.id] = Running(batch=reserved.get(entry.id), progress=progress, expected_ms=expected, left_ms=left)
    return found
