"""The page's lists of tables, the queue and the history, one page at a time. They read databases only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compactor.answers.explain import waits_for
from compactor.answers.running_compactions import Running, claim_places, reserved_batches, running
from compactor.answers.show_compactions import aftermaths, compaction_row
from compactor.answers.survey import DUE
from compactor.base.identities import is_compactor
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.initiator.candidate_scan import DISAGREEMENT
from compactor.metastore.queue.entries import Ended
from compactor.site.site import Site, paused_tables
from compactor.state.batches import Batch
from compactor.state.runs import Run
from compactor.state.seen_conditions import ConditionFilter, SeenEntity

#: The page's filters, and the outcomes that each selects.
OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "": (),
    "due": DUE,
    "calm": ("notneeded",),
    "skipped": ("skipped",),
    "error": ("error", DISAGREEMENT),
}
_NEVER = Ended()
_UNDER_WAY = (State.INITIATED, State.WORKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows as JSON, and their total number."""

    rows: tuple[Mapping[str, object], ...]
    total: int

    def to_json(self) -> dict[str, object]:
        return {"rows": [dict(row) for row in self.rows], "total": self.total}


def tables_page(site: Site, *, find: str, outcome: str, order: str, descending: bool, limit: int, offset: int) -> Page:
    """Returns the last look at each table and partition, with its row of the queue and its history.

    Raises:
        BadSetting: there is no such order.
    """
    if site.state is None:
        return Page(rows=(), total=0)
    condition_filter = ConditionFilter(find=find, outcomes=OUTCOMES.get(outcome, (outcome,)))
    conditions = site.state.conditions
    seen = conditions.page(site.name, condition_filter, order=order, descending=descending, limit=limit, offset=offset)
    return Page(rows=tuple(table_rows(site, seen)), total=conditions.count(site.name, condition_filter))


def table_rows(site: Site, seen: Sequence[SeenEntity]) -> list[dict[str, object]]:
    """Returns a row of each look, with its current row of the queue and its history."""
    entities = [table.entity for table in seen]
    queued = site.metastore.entries.queue_of(entities)
    tables = {(entity.database, entity.table) for entity in entities}
    undone = {} if site.state is None else site.state.removals.undone(site.name)
    ended = site.metastore.entries.ended(tables, {entity.partition for entity in entities}, undone=undone)
    restored = {of.entity: of.at for of in undone.values()}
    paused_now = paused_tables(site)
    return [
        _table_row(
            table,
            queued.get(table.entity, ()),
            ended[table.entity.database, table.entity.table].get(table.entity.partition, _NEVER),
            is_paused=(table.entity.database, table.entity.table) in paused_now,
            restored_at=restored.get(table.entity, 0),
        )
        for table in seen
    ]


def _table_row(
    seen: SeenEntity, queued: Sequence[Entry], ended: Ended, *, is_paused: bool, restored_at: int
) -> dict[str, object]:
    condition, entry = seen.condition, queued[-1] if queued else None
    committed = max((entry.committed_at or 0 for entry in queued), default=0)
    remembered = (seen.last_compacted if seen.at > restored_at else None) or 0
    figures = None
    if condition is not None:
        figures = {name: getattr(condition, name) for name in condition.__slots__}
        figures |= {"bytes": condition.bytes, "delete_ratio": condition.delete_ratio}
    return {
        "table": f"{seen.entity.database}.{seen.entity.table}",
        "partition": seen.entity.partition,
        "outcome": seen.outcome,
        "because": seen.because,
        "flips": list(seen.flips),
        "figures": figures,
        "last_compacted": max(remembered, ended.committed_at or 0, committed) or None,
        "at": seen.at,
        "changed_at": last if (last := max(ended.at, committed)) > seen.at else None,
        "paused": is_paused,
        "queued": None if entry is None else {"compactionid": entry.id, "state": entry.state.label},
    }


def queue_page(site: Site, *, find: str, state: State | None, limit: int, offset: int) -> Page:
    """Returns rows of the queue, oldest first.

    Each has its progress, what it waits for, and whether it can be cancelled.
    """
    entries_page = site.metastore.entries.queue_page(
        find=find, states=None if state is None else (state,), limit=limit, offset=offset
    )
    reserved, now = reserved_batches(site), site.metastore.now_ms()
    at_work = running(site, entries_page.entries, reserved)
    places = claim_places(site, entries_page.entries)
    shown = {batch.id: batch for entry in entries_page.entries if (batch := reserved.get(entry.id)) is not None}
    batches = {number: _batch_row(site, batch) for number, batch in shown.items()}
    rows = tuple(
        {
            **_queue_row(site, entry, at_work.get(entry.id), now),
            "place": places[entry.id][0] if entry.id in places else None,
            "place_because": places[entry.id][1] if entry.id in places else None,
            "batch": batches[reserved[entry.id].id] if entry.id in reserved else None,
        }
        for entry in entries_page.entries
    )
    return Page(rows=rows, total=entries_page.total)


def _queue_row(site: Site, entry: Entry, at_work: Running | None, now: int) -> dict[str, object]:
    return {
        **compaction_row(entry).to_json(),
        "age_ms": None if entry.enqueue_time is None else max(0, now - entry.enqueue_time),
        "working_ms": max(0, now - entry.start) if entry.state is State.WORKING and entry.start is not None else None,
        "expected_ms": None if at_work is None else at_work.expected_ms,
        "progress": None if at_work is None or at_work.progress is None else at_work.to_json(),
        "left_ms": None if at_work is None else at_work.left_ms,
        "waits_for": waits_for(site, entry, site.settings_of(entry.entity)),
        "can_cancel": _can_cancel(entry),
    }


def _can_cancel(entry: Entry) -> bool:
    if entry.left_to is not None:
        return False
    is_ours = is_compactor(entry.worker_id)
    return entry.state is State.INITIATED or (entry.state is State.WORKING and is_ours)


def _batch_row(site: Site, batch: Batch) -> dict[str, object]:
    unfinished = site.metastore.entries.queue(ids=batch.entry_ids, states=_UNDER_WAY)
    return {
        "batch": batch.id,
        "state": batch.state.value,
        "application": batch.application_id,
        "tracking_url": batch.tracking_url,
        "log_url": batch.log_url,
        "task_url": batch.task_url,
        "queue": batch.queue,
        "entries": len(batch.entry_ids),
        "done": len(batch.entry_ids) - len(unfinished),
    }


def history_page(site: Site, *, find: str, states: Collection[State] | None, limit: int, offset: int) -> Page:
    """Returns ended compactions, newest first, with figures where the run was ours."""
    entries_page = site.metastore.entries.history_page(find=find, states=states, limit=limit, offset=offset)
    runs = {} if site.state is None else site.state.runs.of_entries(site.name, [e.id for e in entries_page.entries])
    later = aftermaths(site, entries_page.entries)
    rows = tuple(
        {
            **compaction_row(entry).to_json(),
            **later[entry.id].to_json(),
            "endtime": entry.end,
            "run": None if entry.id not in runs else _run_row(runs[entry.id]),
            "can_retry": entry.can_be_requested_again,
        }
        for entry in entries_page.entries
    )
    return Page(rows=rows, total=entries_page.total)


def newest_runs(site: Site, limit: int) -> Sequence[Mapping[str, object]]:
    """Returns the figures of our newest runs, oldest first, as the points of a plot."""
    if site.state is None:
        return ()
    return [_run_row(run) for run in reversed(site.state.runs.latest(site.name, limit))]


def _run_row(run: Run) -> dict[str, object]:
    copied = run.bytes_copied
    left_out = ("metastore", "entity", "type", "txn", "worker_id")
    return {
        **{name: getattr(run, name) for name in run.__slots__ if name not in left_out},
        "table": str(run.entity),
        "type": run.type.label,
        "bytes_reencoded": None if copied is None else max(0, run.bytes_after - copied),
        "bytes_moved": max(0, run.bytes_before + run.bytes_after - 2 * (run.bytes_taken_over or 0)),
    }
