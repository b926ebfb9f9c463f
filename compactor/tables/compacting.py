"""Compactions that a program requests, runs in its own process, or waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compactor.base.errors import CompactionFailed
from compactor.batches.driver import run_entries
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction, wait_for
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.run_as import entries_of_other_users, must_be_ours
from compactor.site.site import Site

_DONE = (State.SUCCEEDED, State.READY_FOR_CLEANING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A compaction that was requested."""

    id: int  #: CQ_ID
    partition: str | None
    state: str  #: as ``compactor show compactions`` calls it


def compact(
    site: Site, table: Table, kind: str, *, partition: str | None, timeout_s: float | None, here: bool, wait: bool
) -> tuple[Compaction, ...]:
    """Requests compactions; see ``Table.compact``."""
    requests = request_compaction(site, table=str(table), partition=partition, type=kind)
    ids = [request.entry_id for request in requests if request.entry_id is not None]
    if here:
        _work(site, ids)
    if wait:
        longest = site.settings.milliseconds("hive.compactor.wait.timeout") / 1000
        _must_be_done(wait_for(site, ids, longest if timeout_s is None else timeout_s))
    entries = [site.metastore.entries.get(id) for id in ids]
    return tuple(
        Compaction(id=entry.id, partition=entry.entity.partition, state=entry.state.label) for entry in entries
    )


def _work(site: Site, ids: Sequence[int]) -> None:
    must_be_ours(site)
    others = entries_of_other_users(site, ids)
    run_entries(site, [id for id in ids if id not in others], InProcessRunner())


def _must_be_done(entries: Sequence[Entry]) -> None:
    """Checks that every compaction succeeded, or had nothing to compact.

    Raises:
        CompactionFailed: a compaction ended in another state.
    """
    failed = [entry for entry in entries if entry.state not in _DONE]
    if failed:
        raise CompactionFailed("; ".join(map(_describe_failure, failed)))


def _describe_failure(entry: Entry) -> str:
    return f"{entry.entity}: compaction {entry.id} {entry.state.label}: {entry.error or 'no reason was recorded'}"
