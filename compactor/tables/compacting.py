"""Compactions that a program asks for: requested, worked on here if it wants, and followed until they have ended."""

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
    asked = request_compaction(site, table=str(table), partition=partition, type=kind)
    ids = [one.entry_id for one in asked if one.entry_id is not None]
    if here:
        _work(site, ids)
    if wait:
        longest = site.settings.milliseconds("hive.compactor.wait.timeout") / 1000
        _must_be_done(wait_for(site, ids, longest if timeout_s is None else timeout_s))
    entries = [site.metastore.entries.get(id) for id in ids]
    return tuple(Compaction(id=one.id, partition=one.entity.partition, state=one.state.label) for one in entries)


def _work(site: Site, ids: Sequence[int]) -> None:
    must_be_ours(site)
    others = entries_of_other_users(site, ids)
    run_entries(site, [id for id in ids if id not in others], InProcessRunner())


def _must_be_done(entries: Sequence[Entry]) -> None:
    """Checks that all of them have compacted something, or found nothing to compact.

    Raises:
        CompactionFailed: one has ended otherwise.
    """
    bad = [one for one in entries if one.state not in _DONE]
    if bad:
        raise CompactionFailed("; ".join(map(_sentence, bad)))


def _sentence(entry: Entry) -> str:
    return f"{entry.entity}: compaction {entry.id} {entry.state.label}: {entry.error or 'no reason is kept'}"
