"""An entry's way through its phases: each keeps what the earlier ones found out, and says what must be undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.names import parse_staging
from compactor.batches.assembly import list_claimable_ids
from compactor.compaction.states import State
from compactor.metastore.catalog.read import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.plan import Plan, Remainder
from compactor.rewrite.publish.stage import Staged
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import leftovers
from compactor.site.site import Site
from compactor.worker import compaction_group, worker
from compactor.worker.compaction_phases import Claimed, Committed, MustBeMajor, Opened, Planned, StagedEntry
from compactor.worker.ending import abandon, put_back
from compactor.worker.publication import publish
from compactor.worker.under_way import Options
from tests.support.tables import insert, make_table
from tests.support.watching import names_in


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(10))
    insert(deployment, table, range(10, 20))
    return table


@pytest.fixture
def staged(deployment: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> StagedEntry:
    """An entry as it is just before it is named; the group that staged it leaves it there."""
    found: list[StagedEntry] = []

    def keep(group: Any, entries: list[StagedEntry], heart: object, threads: object) -> list[MustBeMajor]:
        found.extend(entries)
        for one in entries:
            group.leave(one)
        return []

    monkeypatch.setattr(compaction_group, "publish", keep)
    request_compaction(deployment, table="t", type="major")
    worker.work_together(deployment, list_claimable_ids(deployment), InProcessRunner(), Options(), lambda outcome: None)
    monkeypatch.setattr(compaction_group, "publish", publish)
    (one,) = found
    return one


def earlier(one: StagedEntry) -> tuple[Claimed, Opened, Planned]:
    """The same entry in earlier phases."""
    claimed = Claimed(site=one.site, entry=one.entry, worker_id=one.worker_id, started=one.started)
    opened = claimed.located(one.target).admitted(one.file_format).opened(one.txn)
    return claimed, opened, opened.viewed(one.scope).planned(one.plan)


def test_each_phase_keeps_what_the_earlier_ones_found_out(staged: StagedEntry) -> None:
    claimed, opened, planned = earlier(staged)
    again = planned.staged_as(staged.staged)
    for phase in (claimed, opened, planned, again):
        assert (phase.entry, phase.worker_id, phase.started) == (staged.entry, staged.worker_id, staged.started)
    assert (again.target, again.txn, again.plan, again.staged) == (
        staged.target,
        staged.txn,
        staged.plan,
        staged.staged,
    )
    assert (again.is_alone, again.alone().is_alone, again.note) == (False, True, "")
    committed = again.alone().committed()
    assert isinstance(committed, Committed)
    assert (committed.is_alone, committed.staged) == (True, staged.staged)


def test_what_is_planned_again_is_no_longer_staged(staged: StagedEntry) -> None:
    major = staged.as_major("half of a pair")
    assert (major.reason, major.staged) == ("half of a pair", staged.staged)
    plan: Plan = replace(staged.plan, left=Remainder(because="x"))
    again = major.planned(plan, note="minor became major")
    assert type(again) is Planned
    assert (again.plan, again.note) == (plan, "minor became major")
    output: Staged = staged.staged
    assert again.staged_as(output).note == "minor became major"
    assert again.replanned(staged.plan).note == "minor became major"


@pytest.mark.parametrize("phase", ["claimed", "opened", "planned", "staged"])
def test_each_phase_is_undone_as_far_as_it_went(
    phase: str, staged: StagedEntry, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 6: only a staged entry can have named something, so only its names are hidden; without a transaction
    there is nothing to undo."""
    claimed, opened, planned = earlier(staged)
    one = {"claimed": claimed, "opened": opened, "planned": planned, "staged": staged.alone()}[phase]
    hidden: list[tuple[bool, bool]] = []
    hiding = leftovers.hider

    def seen(site: Site, target: Any, *, is_alone: bool = False) -> Any:
        hidden.append((target is not None, is_alone))
        return hiding(site, target, is_alone=is_alone)

    monkeypatch.setattr(leftovers, "hider", seen)
    site, staging = staged.site, Path(staged.plan.staging).name
    assert parse_staging(staging) == staged.txn
    assert staging in names_in(Path(table.location))
    abandon(one)
    is_undone = phase != "claimed"
    assert hidden == {"claimed": [], "staged": [(True, True)]}.get(phase, [(False, False)])
    assert site.metastore.transactions.state(staged.txn) == ("a" if is_undone else "o")
    assert (staging in names_in(Path(table.location))) is (phase in ("claimed", "opened"))  # nothing was staged by then


def test_what_is_put_back_waits_again(staged: StagedEntry, table: Table) -> None:
    put_back(staged)
    entry = staged.site.metastore.entries.get(staged.entry.id)
    assert (entry.state, entry.worker_id) == (State.INITIATED, None)
    assert not [name for name in names_in(Path(table.location)) if name.startswith(("base", ".compactor"))]
