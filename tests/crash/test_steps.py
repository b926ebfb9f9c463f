"""DESIGN 8.5: killing any process at any step, then running each role again, changes no row and leaves nothing behind.

Each case kills a real process with SIGKILL at one member of ``steps.Step``. Meanwhile a reader who honours visibility
looks at the table again and again; then the next passes repair and finish the job. On Hive 3.1's schema no name bears a
transaction, so that reader takes every directory for what it is called, as Hive 3.1 does.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from compactor.acid.names import CLAIM_PREFIX, METADATA_COMPACTED, METADATA_FILE, Base, Delta, parse_directory
from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from tests.support import insert_only, roles
from tests.support.forked import die
from tests.support.kept_tables import KeptTables
from tests.support.passes import lose_cleaners, rows_without_visibility
from tests.support.patience import until
from tests.support.tables import delete, insert, make_table, rows_of, story, with_settings
from tests.support.watching import names_in

INITIATOR, WORKER, CLEANER, REPAIR, MEMORY = "initiator", "worker", "cleaner", "repair", "memory"
QUARANTINE = "quarantine"  #: reached only where compactor.quarantine is set
#: Whose step it is. A member of ``Step`` that is missing here fails a test below.
ROLE = {
    Step.MARKED: MEMORY,
    Step.ENQUEUED: INITIATOR,
    Step.CLAIMED: WORKER,
    Step.TXN_OPENED: WORKER,
    Step.LOCKED: WORKER,
    Step.RECORDED: WORKER,
    Step.DIRECTORY_CLAIMED: WORKER,
    Step.ATTEMPT_STARTED: WORKER,
    Step.ATTEMPT_WRITTEN: WORKER,
    Step.ACCEPTED: WORKER,
    Step.VERIFIED: WORKER,
    Step.MANIFEST_WRITTEN: WORKER,
    Step.COMMITTING: WORKER,
    Step.NAMED_FIRST: WORKER,
    Step.NAMED: WORKER,
    Step.STATISTICS_WRITTEN: WORKER,
    Step.COMMITTED: WORKER,
    Step.STAGING_REMOVED: WORKER,
    Step.CLEANING: CLEANER,
    Step.HIDDEN: CLEANER,
    Step.REMOVED: CLEANER,
    Step.CLEANED: CLEANER,
    Step.REPAIR_ABORTED: REPAIR,
    Step.REPAIR_HIDDEN: REPAIR,
    Step.QUARANTINED: QUARANTINE,
    Step.QUARANTINE_RECORDED: QUARANTINE,
    Step.QUARANTINE_GIVEN_UP: QUARANTINE,
}


def test_every_step_has_its_crash_test() -> None:
    assert set(ROLE) == set(Step)


#: Those that are reached without compactor.quarantine.
ALWAYS = [step for step in Step if ROLE[step] != QUARANTINE]
#: Around the naming, where Hive 3.1 differs; of the other steps a sample, the same in every run. The initiator's are none
#: of them: it requests the type that is due, not the one of the case.
_NAMING = (Step.RECORDED, Step.COMMITTING, Step.NAMED_FIRST, Step.NAMED, Step.COMMITTED, Step.REPAIR_HIDDEN)
_OTHERS = sorted(
    (step for step in ALWAYS if step not in {*_NAMING, Step.MARKED} and ROLE[step] != INITIATOR),
    key=lambda step: step.name,
)
CASES = [("embedded", kind, step) for kind in ("minor", "major") for step in ALWAYS]
CASES += [("embedded", "rebalance", step) for step in ALWAYS if ROLE[step] not in (INITIATOR, MEMORY)]
CASES += [("hive3", "major", step) for step in (*_NAMING, *random.Random(31).sample(_OTHERS, 5))]
CASES += [("hive3", "minor", step) for step in (*_NAMING, *random.Random(4).sample(_OTHERS, 3))]
#: A minor that Hive 3.1 would show by halves becomes a major.
CASES += [("hive3", "pair", step) for step in (Step.ACCEPTED, Step.NAMED)]


def with_base(site: Site, warehouse: Path) -> Table:
    """Creates a table whose rows from 2000 on are in a base."""
    table = make_table(site, warehouse)
    insert(site, table, range(2000, 2020))
    insert(site, table, range(2020, 2040))
    compact(site, table, "major")
    return table


def with_story(site: Site, warehouse: Path) -> Table:
    """Creates the same with deltas over it, whose delete events a minor keeps for the base: a pair."""
    table = with_base(site, warehouse)
    story(site, table)
    delete(site, table, [2003, 2024])
    return table


@pytest.mark.parametrize(("store", "kind", "step"), CASES, ids=lambda part: getattr(part, "name", part))
def test_a_crash_at_any_step_is_invisible_and_repaired(
    deployment: Site, metastore_url: str, warehouse: Path, kept_tables: KeptTables, step: Step, kind: str, store: str
) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = kept_tables.get(site, warehouse, with_story)
    if (store, kind) == ("hive3", "minor"):
        compact(site, table, "major")
        for start in range(3000, 3030, 10):
            insert(site, table, range(start, start + 10))
    # A rebalance changes ROW__IDs; what it must not change is what they name.
    seen = values_of if kind == "rebalance" else rows_of
    wanted = seen(site, table)
    role = ROLE[step]
    with watched(site, table, wanted, seen):
        if role in (INITIATOR, MEMORY):
            die(roles.initiator, metastore_url, step)
        if role != INITIATOR:
            request_compaction(site, table="default.t", type="minor" if kind == "pair" else kind)
        if role == WORKER:
            die(roles.worker, metastore_url, step)
        elif role == CLEANER:
            run_entries(site, list_claimable_ids(site), InProcessRunner())
            die(roles.cleaner, metastore_url, step)
        elif role == REPAIR:
            die(roles.worker, metastore_url, Step.NAMED)
            age(site)
            die(roles.repair, metastore_url, step)
        finish(site)
    assert seen(site, table) == wanted
    assert len({row[:3] for row in rows_of(site, table)}) == len(wanted)
    assert_settled(site, warehouse / "t")
    if store == "hive3":
        assert_plain(warehouse / "t", kind)


#: Where a group has effects on several of its entries, and at which of them it dies there.
MEMBERS = [
    ("major", step, nth)
    for step, nth in [
        (Step.CLAIMED, 1),
        (Step.TXN_OPENED, 1),
        (Step.RECORDED, 1),
        (Step.ATTEMPT_WRITTEN, 3),  # each has two units
        (Step.ACCEPTED, 2),
        (Step.MANIFEST_WRITTEN, 2),
        (Step.COMMITTING, 1),
        (Step.NAMED_FIRST, 2),  # all are committed at once
        (Step.NAMED, 1),
        (Step.NAMED, 3),
        (Step.COMMITTED, 1),
        (Step.STAGING_REMOVED, 2),
    ]
]
MEMBERS += [("minor", Step.NAMED_FIRST, 2), ("minor", Step.COMMITTED, 2)]


@pytest.mark.parametrize(("kind", "step", "nth"), MEMBERS, ids=lambda part: getattr(part, "name", part))
def test_a_crash_between_the_members_of_a_group(
    deployment: Site, metastore_url: str, warehouse: Path, kind: str, step: Step, nth: int
) -> None:
    """Entries that share their steps: those that are committed stay so, the others are taken back one by one."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    tables = [make_table(site, warehouse, name) for name in ("t", "u", "v")]
    for table in tables:
        insert(site, table, range(2000, 2010))
        insert(site, table, range(2010, 2020))
        if kind == "minor":
            compact(site, table, "major")
            insert(site, table, range(10))
            insert(site, table, range(10, 14))
            delete(site, table, [2003, 2014])  # a pair, which takes the table alone
    wanted = [rows_of(site, table) for table in tables]
    for table in tables:
        request_compaction(site, table=str(table), type=kind)
    with watched(site, tables[1], wanted[1]):
        die(roles.worker, metastore_url, step, nth)
        finish(site)
    assert [rows_of(site, table) for table in tables] == wanted
    for table in tables:
        assert_settled(site, Path(table.location))
    ended = [entry.entity.table for entry in site.metastore.entries.history() if entry.state is State.SUCCEEDED]
    assert set(ended) == {"t", "u", "v"}


#: Steps at which a cleaner dies, and for which of the three entries that it cleans together.
CLEANED_TOGETHER = [
    (Step.CLEANING, 2),
    (Step.HIDDEN, 1),
    (Step.HIDDEN, 4),  # each has two directories to hide
    (Step.REMOVED, 1),
    (Step.REMOVED, 3),
    (Step.CLEANED, 1),  # all have ended at once
]


@pytest.mark.parametrize(("step", "nth"), CLEANED_TOGETHER, ids=lambda part: getattr(part, "name", part))
def test_a_crash_between_the_entries_that_are_cleaned_together(
    deployment: Site, metastore_url: str, warehouse: Path, step: Step, nth: int
) -> None:
    """Entries that share the steps of their cleaning: what is hidden or gone of some changes no row of any."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    tables = [make_table(site, warehouse, name) for name in ("t", "u", "v")]
    for table in tables:
        insert(site, table, range(2000, 2010))
        insert(site, table, range(2010, 2020))
    wanted = [rows_of(site, table) for table in tables]
    for table in tables:
        request_compaction(site, table=str(table), type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    with watched(site, tables[1], wanted[1]):
        die(roles.cleaner, metastore_url, step, nth)
        finish(site)
    assert [rows_of(site, table) for table in tables] == wanted
    for table in tables:
        assert_settled(site, Path(table.location))
    states = [entry.state for entry in site.metastore.entries.history()]
    assert (states, site.metastore.entries.queue()) == ([State.SUCCEEDED] * 3, [])


def values_of(site: Site, table: Table) -> list[Any]:
    """Returns the rows without their ROW__IDs."""
    return sorted(row[3:] for row in rows_of(site, table))


#: How a request is bounded, and the steps at which its worker dies: around what is other than in one minor.
_BOUNDED = {
    "chunks": {"compactor.max.time": "1h", "compactor.chunk.bytes": "4000"},  # all of them at once
    "rest": {"compactor.max.time": "1ms", "compactor.chunk.bytes": "4000"},  # one, and the rest requested again
}


def die_there(site: Site, url: str, step: Step) -> None:
    """Lets the role that reaches ``step`` die there."""
    if ROLE[step] == WORKER:
        die(roles.worker, url, step)
    elif ROLE[step] == CLEANER:
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        die(roles.cleaner, url, step)
    else:
        die(roles.worker, url, Step.NAMED)
        age(site)
        die(roles.repair, url, step)


_OF_CHUNKS = (Step.ATTEMPT_WRITTEN, Step.ACCEPTED, Step.MANIFEST_WRITTEN, *_NAMING, Step.HIDDEN)
_OF_REST = (Step.RECORDED, Step.NAMED, Step.COMMITTED, Step.STAGING_REMOVED, Step.REMOVED)
CHUNKED = [("embedded", "chunks", step) for step in _OF_CHUNKS]
CHUNKED += [("embedded", "rest", step) for step in _OF_REST]
CHUNKED += [("hive3", "chunks", step) for step in (Step.COMMITTING, Step.NAMED_FIRST, Step.NAMED, Step.COMMITTED)]


@pytest.mark.parametrize(("store", "kind", "step"), CHUNKED, ids=lambda part: getattr(part, "name", part))
def test_a_crash_between_the_chunks_of_a_bounded_request(
    deployment: Site, metastore_url: str, warehouse: Path, kept_tables: KeptTables, step: Step, kind: str, store: str
) -> None:
    """PROTOCOL 5: each chunk stands for its own inputs, so those that are named may be without the others."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = (
        kept_tables.get(site, warehouse, with_base)
        if store == "hive3"
        else kept_tables.get(site, warehouse, with_story)
    )
    if store == "hive3":  # what is deleted within a chunk would make it a major there
        for start in range(0, 80, 10):
            insert(site, table, range(start, start + 10))
    wanted = rows_of(site, table)
    with watched(site, table, wanted):
        request_compaction(site, table="default.t", type="minor", properties=_BOUNDED[kind])
        die_there(site, metastore_url, step)
        finish(site)
    assert rows_of(site, table) == wanted
    assert_settled(site, warehouse / "t")


def test_trino_sees_nothing_of_a_crash_between_two_chunks(
    deployment: Site, metastore_url: str, warehouse: Path
) -> None:
    """PROTOCOL 5: a reader that takes a directory as soon as it has its name reads the same rows, whichever chunks have
    theirs.
    """
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse)
    for start in range(0, 80, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [71])  # in a chunk with the rows it aims at, so that it makes no pair
    wanted = rows_of(site, table)
    properties = {**_BOUNDED["chunks"], "compactor.chunk.bytes": "4800"}  # three deltas
    request_compaction(site, table="default.t", type="minor", properties=properties)
    die(roles.worker, metastore_url, Step.NAMED_FIRST)
    named = [name for name in os.listdir(table.location) if "_v" in name and name.startswith("delta_")]
    assert len(named) == 1
    assert rows_without_visibility(site, table) == rows_of(site, table) == wanted
    age(site)
    repair(site)
    assert rows_without_visibility(site, table) == rows_of(site, table) == wanted
    finish(site)
    assert rows_without_visibility(site, table) == rows_of(site, table) == wanted
    assert_settled(site, warehouse / "t")


#: No step is other for these tables than for ACID rows; units and naming differ.
_OF_FILES = (Step.ATTEMPT_WRITTEN, Step.ACCEPTED, *_NAMING, Step.HIDDEN)
INSERT_ONLY = [
    ("embedded", kind, file_format, step)
    for kind in ("minor", "major")
    for file_format in (FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT)
    for step in _OF_FILES
]
INSERT_ONLY += [("hive3", "minor", FileFormat.TEXT, step) for step in (Step.ACCEPTED, Step.NAMED)]


def _is_first(case: tuple[str, str, FileFormat, Step]) -> bool:
    """Returns true for one format of three at each step of each kind, a different one from step to step."""
    store, kind, file_format, step = case
    turn = (_OF_FILES.index(step) + (kind == "major")) % 3
    return store == "hive3" or (FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT)[turn] is file_format


@pytest.mark.parametrize(
    ("store", "kind", "file_format", "step"),
    [case if _is_first(case) else pytest.param(*case, marks=pytest.mark.whole) for case in INSERT_ONLY],
    ids=lambda part: getattr(part, "name", part),
)
def test_a_crash_over_an_insert_only_table(
    deployment: Site, metastore_url: str, warehouse: Path, step: Step, file_format: FileFormat, kind: str, store: str
) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = insert_only.make_insert_only(site, warehouse, file_format)
    insert_only.insert(site, table, file_format, range(2000, 2020), overwrites=True)
    insert_only.story(site, table, file_format)

    def look() -> list[Any]:
        return insert_only.rows_of(site, table, file_format)

    wanted = look()
    with watched(site, table, wanted, lambda *_: look()):
        request_compaction(site, table="default.t", type=kind)
        die_there(site, metastore_url, step)
        finish(site)
    assert look() == wanted
    assert_settled(site, warehouse / "t")
    if store == "hive3":
        assert_plain(warehouse / "t", "major")  # what a minor becomes there


#: Of a split unit: the split is known, an encode task is done, the last one is, the assemble task has begun, is done.
OF_SPLIT_TASKS = [(Step.ATTEMPT_WRITTEN, n) for n in (1, 2, 8, 9)] + [(Step.ATTEMPT_STARTED, 9)]


#: Of slices that are merged first: a slice is made, the compaction reads what came of all of them, and has.
OF_SLICES = [(Step.ATTEMPT_WRITTEN, 2), (Step.ATTEMPT_STARTED, 7), (Step.NAMED, 1)]
_PARTS = {"compactor.split.bytes": OF_SPLIT_TASKS, "compactor.hive.compactor.max.num.delta": OF_SLICES}


@pytest.mark.parametrize(
    ("setting", "step", "nth"),
    [(setting, *place) for setting, places in _PARTS.items() for place in places],
    ids=lambda part: getattr(part, "name", part),
)
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_crash_within_what_is_done_in_parts(
    deployment: Site, metastore_url: str, warehouse: Path, kind: str, setting: str, step: Step, nth: int
) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse, **{setting: "1" if setting == "compactor.split.bytes" else "3"})
    story(site, table)
    wanted = rows_of(site, table)
    with watched(site, table, wanted):
        request_compaction(site, table="default.t", type=kind)
        die(roles.worker, metastore_url, step, nth)
        finish(site)
    assert rows_of(site, table) == wanted
    assert_settled(site, warehouse / "t")


#: What the worker finds nothing to merge in goes on to the cleaner; the removal of aborts has no request at all.
_ONLY_CLEANED = (Step.CLAIMED, Step.TXN_OPENED, Step.LOCKED, Step.RECORDED, Step.COMMITTING)
CLEANED = [("clean-only", step) for step in Step if step in _ONLY_CLEANED or ROLE[step] in (CLEANER, REPAIR)]
CLEANED += [("aborts", step) for step in (Step.CLEANING, Step.HIDDEN)]


@pytest.mark.parametrize(("kind", "step"), CLEANED, ids=lambda part: getattr(part, "name", part))
def test_a_crash_where_there_is_only_to_remove(
    deployment: Site, metastore_url: str, warehouse: Path, step: Step, kind: str
) -> None:
    """PROTOCOL 7.3: hidden first, so that nobody meets half of what goes."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")
    table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, table, range(start, start + 10))
    if kind == "aborts":
        insert(site, table, range(1000, 1010), commits=False)
    else:
        shutil.copytree(warehouse / "t" / "delta_0000001_0000001_0000", tmp := warehouse / "kept")
        compact(site, table, "major")
        shutil.move(tmp, warehouse / "t" / "delta_0000001_0000001_0000")  # as if a cleaner had not come to it
    wanted = rows_of(site, table)
    with watched(site, table, wanted):
        if kind == "clean-only":
            entity = Entity(database="default", table="t")
            request = Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-x")
            site.metastore.requests.request(request)
        if ROLE[step] == WORKER:
            die(roles.worker, metastore_url, step)
        elif ROLE[step] == CLEANER:
            run_entries(site, list_claimable_ids(site), InProcessRunner())
            die(roles.cleaner_of_aborts if kind == "aborts" else roles.cleaner, metastore_url, step)
        else:
            die(roles.worker, metastore_url, Step.COMMITTING)
            age(site)
            die(roles.repair, metastore_url, step)
        finish(site)
    assert rows_of(site, table) == wanted
    assert "_" not in {name[0] for name in names_in(warehouse / "t")}
    assert len(names_in(warehouse / "t")) == (2 if kind == "aborts" else 1)
    assert site.metastore.entries.queue() == []


def compact(site: Site, table: Table, kind: str) -> None:
    request_compaction(site, table=str(table), type=kind)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean(site)
    for claim in Path(table.location).rglob(f"{CLAIM_PREFIX}*"):  # as an older release, so that a later one claims it
        claim.unlink()


def age(site: Site) -> None:
    """Lets hive.txn.timeout pass for what the dead worker or cleaner held, and for nobody else."""
    with site.metastore.database.write() as conn:
        compactions = TXNS.c.TXN_AGENT_INFO.like("compactor-%")  # Hive 3.1 has no type for them
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o", compactions).values(TXN_LAST_HEARTBEAT=0))
        conn.execute(update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_STATE == "w").values(CQ_START=0))
    lose_cleaners(site)


def finish(site: Site) -> None:
    """Runs the next passes of every role; the reader may hold the cleaner back for a moment."""
    age(site)
    repair(site)

    def is_done() -> bool:
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        clean(site)
        return not site.metastore.entries.queue()

    until("the queue is empty", is_done)


@contextmanager
def watched(
    site: Site, table: Table, wanted: list[Any], seen: Callable[[Site, Table], list[Any]] = rows_of
) -> Iterator[None]:
    """A reader that looks at the table at each change until the block ends; every look must show the same rows."""
    stop = threading.Event()
    wrong: list[object] = []
    looks = 0

    def look() -> None:
        nonlocal looks
        state: object = None
        while not (stop.is_set() and looks):  # once at least, however soon the block ends
            before, state = state, state_of(site, table)
            if looks and state == before:
                stop.wait(0.002)
                continue
            try:
                found = seen(site, table)
            except Exception as error:  # noqa: BLE001 - whatever a reader meets is what this test is about
                wrong.append(error)
                return
            if found != wanted:
                wrong.append([row for row in found if row not in wanted] or [row for row in wanted if row not in found])
            looks += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert wrong == []
    assert looks > 0


def state_of(site: Site, table: Table) -> object:
    """A value that changes with the names below the table and with the metastore: what a step of a role has changed.

    Of a server nothing but the clock says so without being asked; there it changes every 200 ms, too.
    """
    file = site.metastore.database.path
    files = [] if file is None else [Path(file), Path(f"{file}-wal")]
    stamps = [(path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.exists()]
    names = [name for folder in (table.location, *_below(table.location)) for name in _names(folder)]
    return stamps or int(time.monotonic() / 0.2), names


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # it went meanwhile
        return []


def _below(folder: str) -> list[str]:
    return [path for name in _names(folder) if os.path.isdir(path := f"{folder}/{name}")]


def assert_settled(site: Site, location: Path) -> None:
    """Asserts that there is no orphan, no twin, no stuck row and no open compaction transaction."""
    assert site.metastore.entries.queue() == []
    assert site.metastore.transactions.open_transactions() == []
    names = sorted(names_in(location))
    parsed = [parse_directory(name) for name in names]
    assert all(acid is not None for acid in parsed), f"orphans: {names}"
    ranges = [
        (type(a), a.write_id) if isinstance(a, Base) else (a.kind, a.min_write_id, a.max_write_id, a.statement_id)
        for a in parsed
        if isinstance(a, Base | Delta)
    ]
    assert len(ranges) == len(set(ranges)), f"twins: {names}"
    assert State.SUCCEEDED in {entry.state for entry in site.metastore.entries.history()}


def assert_plain(location: Path, kind: str) -> None:
    """Asserts that Hive 3.1 can read the names, and knows the bases to be compacted."""
    names = names_in(location)
    assert not [name for name in names if "_v" in name]
    assert [(location / name / METADATA_FILE).read_bytes() for name in names if name.startswith("base_")] == [
        METADATA_COMPACTED
    ]
    assert (len(names) == 2) is (kind == "minor"), names
