"""The progress of running compactions, and where to watch them, in a few statements for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.site.claim_turns import take_turns
from compactor.site.site import Site
from compactor.state.batches import Batch, BatchState
from compactor.state.runs import Progress

_MOST_PLACES = 5_000  #: waiting requests whose order is computed for one answer
_ENOUGH = 0.05  #: share of the bytes from which on the pace predicts better than the last run


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An entry that is being worked on: its batch and its progress.

    ``progress`` is None if it is unknown, or the work too short to report it. ``expected_ms`` is what the last run there
    took, ``left_ms`` what remains of this one.
    """

    batch: Batch | None = None
    progress: Progress | None = None
    expected_ms: int | None = None
    left_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        progress = self.progress
        return {
            "units": None if progress is None else progress.units,
            "units_done": None if progress is None else progress.units_done,
            "bytes": None if progress is None else progress.bytes,
            "bytes_done": None if progress is None else progress.bytes_done,
            "left_ms": self.left_ms,
            "tracking_url": None if self.batch is None else self.batch.tracking_url,
            "log_url": None if self.batch is None else self.batch.log_url,
            "task_url": None if self.batch is None else self.batch.task_url,
        }


def claim_places(site: Site, entries: Sequence[Entry]) -> dict[int, tuple[int | None, str]]:
    """Returns for each of ``entries`` that waits its place in the order of claims, and the reason, by id.

    Of very many waiting requests only the reasons are known.
    """
    here = [entry for entry in entries if entry.state is State.INITIATED and entry.left_to is None]
    if not here:
        return {}
    count = site.metastore.entries.count_queued().get(State.INITIATED, 0)
    if count > _MOST_PLACES:
        return {turn.entry.id: (None, turn.because) for turn in take_turns(site, here)}
    turns = take_turns(site, site.metastore.entries.waiting())
    places = {turn.entry.id: (number, turn.because) for number, turn in enumerate(turns, 1)}
    return {entry.id: places[entry.id] for entry in here if entry.id in places}


def reserved_batches(site: Site) -> dict[int, Batch]:
    """Returns the batch of each reserved entry."""
    if site.state is None:
        return {}
    active = site.state.batches.find(site.name, states=(BatchState.PLANNED, BatchState.RUNNING))
    return {entry_id: batch for batch in reversed(active) for entry_id in batch.entry_ids}


def running(site: Site, entries: Sequence[Entry], batches: Mapping[int, Batch] | None = None) -> dict[int, Running]:
    """Returns the state of each of ``entries`` that is being worked on.

    Args:
        batches: the reserved batches, if the caller knows them already.
    """
    working = [entry for entry in entries if entry.state is State.WORKING]
    if site.state is None or not working:
        return {entry.id: Running() for entry in working}
    reserved = reserved_batches(site) if batches is None else batches
    reports, now = site.state.runs.progress(site.name, [entry.id for entry in working]), site.metastore.now_ms()
    # the last run there; the work of this one is unknown until it is planned
    last = site.state.runs.newest_of(site.name, [entry.entity for entry in working])
    states = {}
    for entry in working:
        # a report of an earlier worker of the same entry does not count
        progress = report if (report := reports.get(entry.id)) is not None and report.at >= (entry.start or 0) else None
        expected = round(last[entry.entity].seconds * 1000) if entry.entity in last else None
        left = time_left(progress, now=now, began=entry.start, expected_ms=expected)
        states[entry.id] = Running(batch=reserved.get(entry.id), progress=progress, expected_ms=expected, left_ms=left)
    return states


def time_left(progress: Progress | None, *, now: int, began: int | None, expected_ms: int | None) -> int | None:
    """Returns the milliseconds that remain at ``now`` (epoch ms) of a run.

    Returns None if they cannot be estimated.

    Goes by the run's own pace once that says enough, before that by ``expected_ms``. Never negative: a run that takes longer
    than estimated is about to end.
    """
    if progress is not None and progress.bytes_done >= _ENOUGH * progress.bytes > 0:
        pace = progress.spent_ms / progress.bytes_done
        return max(0, round((progress.bytes - progress.bytes_done) * pace) - max(0, now - progress.at))
    if expected_ms is None or began is None:
        return None
    return max(0, expected_ms - max(0, now - began))
