"""A copy of the database from every step of every kind of work, put back later: no role loses a row (PROTOCOL 11).

What the copy does not know was committed, cleaned, or written over meanwhile. Then hours pass, and every role runs three
times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.orc as pa_orc
import pytest
from sqlalchemy import update

from compactor.acid.names import parse_directory
from compactor.base import steps
from compactor.base.errors import Disagreement
from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.requests.accept_database import agree
from compactor.requests.advance import advance, measure_gap
from compactor.requests.request import request_compaction
from compactor.requests.resolve import Ruling
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Settings
from compactor.site.lost_workers import repair
from compactor.site.mark_files import MarkFiles
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from tests.support import roles
from tests.support.backups import Backup, ServerBackup
from tests.support.forked import die
from tests.support.passes import ROLES, clean_all, every_role
from tests.support.tables import delete, insert, make_table, rows_of, with_settings

COMMITTED, CLEANED, WRITTEN = "after the commit", "after the cleaning", "after further writes"
#: Steps that nothing reaches here: nothing is remembered outside of the database, or kept in quarantine.
_UNREACHED = (Step.MARKED, Step.QUARANTINED, Step.QUARANTINE_RECORDED, Step.QUARANTINE_GIVEN_UP)
_EVERY = [step for step in Step if step not in _UNREACHED]
_WORKER = [step for step in _EVERY if step.name not in ("ENQUEUED", "REPAIR_ABORTED", "REPAIR_HIDDEN")]
_CLEANER = [Step.CLEANING, Step.HIDDEN, Step.REMOVED, Step.CLEANED]
_REPAIR = [Step.REPAIR_ABORTED, Step.REPAIR_HIDDEN]
#: Of each kind of work, the steps that it reaches.
REACHED = {
    "minor": _EVERY,
    "major": _EVERY,
    "rebalance": [*_WORKER, *_REPAIR],
    "abort clean-up": _CLEANER[:3],
    "cleaning": [Step.ENQUEUED, *_CLEANER],
}
CASES = [
    (kind, step, when)
    for kind, reached in REACHED.items()
    for step in reached
    for when in (COMMITTED, CLEANED, WRITTEN)
    if not (when == COMMITTED and (step in _CLEANER or kind in ("abort clean-up", "cleaning")))
]


def sampled(cases: Sequence[tuple[str, Step, str]], *, one_in: int) -> list[Any]:
    """Returns the cases as parameters, of which `make test` runs a few, and `make test-all` all."""
    return [
        case if number % one_in == 0 else pytest.param(*case, marks=pytest.mark.whole)
        for number, case in enumerate(cases)
    ]


@pytest.fixture
def site(metastore: Metastore, state: OwnState) -> Site:
    bare = Site.here("default", metastore, state, LocalStorage(), Settings.of())
    metastore.claim_token.get_or_create()  # as an earlier compaction of any table has made it
    return with_settings(
        bare,
        hive_txn_opentxn_timeout="1ms",
        hive_compactor_delta_num_threshold="1",
        hive_compactor_abortedtxn_threshold="0",
    )


@pytest.fixture
def table(site: Site, tmp_path: Path) -> Table:
    table = make_table(site, tmp_path)
    insert(site, table, range(2000, 2010))
    request_compaction(site, table=str(table), type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [3, 14, 2003])
    insert(site, table, range(500, 510), commits=False)
    return table


@pytest.fixture
def remembered(site: Site, tmp_path: Path) -> Site:
    memory = MarkFiles(site.storage, f"{tmp_path}/metastore.db.memory", site.name, str(tmp_path))
    return replace(site, memory=memory)


@pytest.fixture
def backup(url: str, tmp_path: Path) -> Backup | ServerBackup:
    return Backup(tmp_path / "metastore.db") if url.startswith("sqlite") else ServerBackup(url)


class TakenAt:
    """Takes the copy when a step is reached for the first time, in the moment in which a crash test would kill."""

    def __init__(self, step: Step, take: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
        self.is_taken = False
        self._take = take
        patch.setenv("COMPACTOR_DIE_AT", step.name)
        patch.setattr(steps, "_reached", {})
        patch.setattr(steps, "_send", self._taken)

    def _taken(self, _signal: object) -> None:
        self._take()
        self.is_taken = True


def work(site: Site, table: Table, url: str, kind: str, step: Step) -> None:
    """Does one kind of work up to its commit; a step of repair follows a worker that dies once its output is named."""
    if kind in ("abort clean-up", "cleaning") or step is Step.ENQUEUED:
        initiate(site)
    else:
        request_compaction(site, table=str(table), type=kind)
    if step in _REPAIR:
        die(roles.worker, url, Step.NAMED)
        hours_pass(site)
        repair(site)
    run_entries(site, list_claimable_ids(site), InProcessRunner())


def copied_during(
    site: Site,
    table: Table,
    url: str,
    backup: Backup | ServerBackup,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, Step, str],
) -> None:
    """Does the work of a case, up to its cleaning if that belongs to it, while the copy is taken at its step."""
    kind, step, when = case
    with monkeypatch.context() as patch:
        taken = TakenAt(step, backup.take, patch)
        work(site, table, url, kind, step)
        if when != COMMITTED:
            clean_all(site)
            clean(site)
    assert taken.is_taken, f"a {kind} does not reach {step.name}"


def hours_pass(site: Site) -> None:
    """Nobody who had anything under way in the copy is alive."""
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
        conn.execute(update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_STATE == "w").values(CQ_START=0))


def rows_in_files(table: Table) -> set[tuple[Any, ...]]:
    """Returns every row in a file that has its name, deleted or not, whatever any snapshot sees."""
    found: set[tuple[Any, ...]] = set()
    for directory in Path(table.location).iterdir():
        if not directory.name.startswith(("base_", "delta_")) or parse_directory(directory.name) is None:
            continue
        for file in directory.glob("bucket_*"):
            for row in pa_orc.ORCFile(file).read().to_pylist():
                found.add((row["originalTransaction"], row["bucket"], row["rowId"], *row["row"].values()))
    return found


@pytest.mark.usefixtures("two_stores")
@pytest.mark.parametrize(
    ("kind", "step", "when"),
    sampled(CASES, one_in=25),
    ids=lambda part: getattr(part, "name", part),
)
def test_no_row_is_lost(
    site: Site,
    table: Table,
    url: str,
    backup: Backup | ServerBackup,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    step: Step,
    when: str,
) -> None:
    """PROTOCOL 11: and once a person has kept what is in doubt, everybody reads what was read before."""
    copied_during(site, table, url, backup, monkeypatch, (kind, step, when))
    if when == WRITTEN:
        insert(site, table, range(900, 910))
        delete(site, table, [905])
    wanted = rows_of(site, table)
    backup.restore()
    hours_pass(site)
    every_role(site)
    assert set(wanted) <= rows_in_files(table)
    advance(site, {(str(table), one.path): Ruling.KEEP for one in measure_gap(site).directories})
    # A rebalance that is hidden, since all that it read is there, gives back the former ROW__IDs.
    first = 3 if (kind, when) == ("rebalance", COMMITTED) else 0
    assert sorted(row[first:] for row in rows_of(site, table)) == sorted(row[first:] for row in wanted)


_UNDER_WAY = [case for case in CASES if case[1] not in _CLEANER and case[2] != COMMITTED]


@pytest.mark.usefixtures("two_stores")
@pytest.mark.parametrize(
    ("kind", "step", "when"),
    sampled(_UNDER_WAY, one_in=25),
    ids=lambda part: getattr(part, "name", part),
)
def test_every_role_stops_where_the_metastore_is_remembered(
    remembered: Site,
    table: Table,
    url: str,
    backup: Backup | ServerBackup,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    step: Step,
    when: str,
) -> None:
    """PROTOCOL 11.2: a compaction that the copy knows as under way was cleaned, so some pass has come by."""
    site = remembered
    copied_during(site, table, url, backup, monkeypatch, (kind, step, when))
    if when == WRITTEN:
        insert(site, table, range(900, 910))
    before = sorted(Path(table.location).rglob("*"))
    backup.restore()
    hours_pass(site)
    for _ in range(3):
        for role in ROLES:
            with pytest.raises(Disagreement, match="the database is older than what"):
                role(site)
    assert sorted(Path(table.location).rglob("*")) == before
    advance(site, {(str(table), one.path): Ruling.KEEP for one in measure_gap(site).directories})
    agree(site, "ann")
    every_role(site)
