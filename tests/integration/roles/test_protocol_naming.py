"""Naming, lost workers, leftovers and forgetting (PROTOCOL 5 to 8), over a table of our own writer."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import delete as sql_delete
from sqlalchemy import insert as sql_insert
from sqlalchemy import select, update

from compactor.acid.directory import acid_directory
from compactor.acid.names import DeltaKind, parse_directory, parse_hidden
from compactor.base.errors import StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.housekeeper.housekeeper import keep_house
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.locks.lock_rows import LockState
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXN_COMPONENTS, TXNS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.storage.capabilities import Capabilities
from compactor.storage.local import LocalStorage
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker import publication
from compactor.worker.ending import Result
from demo.snapshot_reader import read_snapshot
from tests.support.committing import watched_sections
from tests.support.kept_tables import KeptTables
from tests.support.passes import Renames, age, clean_all, compact, rows_without_visibility, with_storage
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, files_below, names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="300ms")


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    return kept_tables.get(site, warehouse, make_pair)


def make_pair(site: Site, warehouse: Path) -> Table:
    """Makes a base, deltas above it and deletes of rows of both: a minor of it is a pair."""
    table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, table, range(start, start + 4))
    assert compact(site).result is Result.COMPACTED
    clean_all(site)
    for start in (20, 30):
        insert(site, table, range(start, start + 4))
    delete(site, table, [2, 21])
    return table


def read_lock(table: Table) -> LockRequest:
    return LockRequest(database=table.database, table=table.name, type=LockType.SHARED_READ)


def naming(seen: Callable[[str], object]) -> Renames:
    """Returns a storage that reports each final name as it is given."""

    def look(source: str, target: str) -> None:
        if f"/{staging_name_prefix}" in source and "/out/" in source and "/attempts/" not in source:
            seen(os.path.basename(target))

    staging_name_prefix = ".compactor_v"
    return Renames(look)


# --- 5: a pair and readers without visibility -------------------------------------------------------------------------


def test_a_pair_is_named_under_an_exclusive_lock(site: Site, table: Table) -> None:
    """PROTOCOL 5: with ``readers=any`` nobody without visibility ever meets one half of a pair."""
    held: list[set[tuple[str, LockState]]] = []

    def seen(name: str) -> None:
        held.append({(row.type.name, row.state) for row in site.metastore.locks.show()})

    outcome = compact(with_storage(site, naming(seen)), "minor")
    assert [n.split("_v")[0] for n in outcome.output] == ["delta_0000003_0000005", "delete_delta_0000003_0000005"]
    assert len(held) == 2
    assert all(("EXCLUSIVE", LockState.ACQUIRED) in locks for locks in held)
    assert site.metastore.locks.show() == []


def test_what_is_named_alone_needs_no_exclusive_lock(site: Site, table: Table) -> None:
    """PROTOCOL 5: a base, or one kind of delta, is right for every reader from its one rename on."""
    held: list[set[str]] = []
    shown: list[Any] = []
    wanted = rows_of(site, table)

    def seen(name: str) -> None:
        held.append({row.type.name for row in site.metastore.locks.show()})
        shown.append(rows_without_visibility(site, table))

    (reader,) = site.metastore.transactions.open("ann", "laptop")
    site.metastore.locks.acquire(reader, [read_lock(table)], "ann", "laptop")
    outcome = compact(with_storage(site, naming(seen)), "major")
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert held == [{"SHARED_READ"}]
    assert shown == [wanted]


def test_a_minor_that_gets_no_exclusive_lock_becomes_a_major_and_says_so(site: Site, table: Table) -> None:
    """PROTOCOL 5: the request is tried and withdrawn; no reader ever queues behind it."""
    wanted = rows_of(site, table)
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    site.metastore.locks.acquire(reader, [read_lock(table)], "ann", "laptop")
    waiting: list[LockState] = []
    named: list[str] = []

    def staged() -> None:
        # While the worker tries, a second reader comes: its lock must be granted at once.
        (second,) = site.metastore.transactions.open("bob", "laptop")
        waiting.append(site.metastore.locks.acquire(second, [read_lock(table)], "bob", "laptop").state)

    outcome = compact(with_storage(site, naming(named.append)), "minor", runner=Interrupted(after=staged))
    assert outcome.result is Result.COMPACTED
    assert "minor became major" in outcome.message
    assert "compactor.lock.wait" in outcome.message
    assert [n.split("_v")[0] for n in outcome.output] == ["base_0000005"]
    assert named == list(outcome.output)
    assert waiting == [LockState.ACQUIRED] * 2  # staged twice: as a pair, then as a base
    assert {row.state for row in site.metastore.locks.show()} == {LockState.ACQUIRED}
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    assert not any(name.startswith(".compactor_v") for name in names_in(Path(table.location)))


def test_the_exclusive_lock_is_tried_again_and_later_each_time(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 5: with back-off for compactor.lock.wait; between two tries nothing of it is in anybody's way."""
    patient = with_settings(site, compactor_lock_wait="1h", hive_txn_opentxn_timeout="1ms")
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    site.metastore.locks.acquire(reader, [read_lock(table)], "ann", "laptop")
    waits: list[float] = []
    kinds: set[str] = set()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        kinds.update(row.type.name for row in site.metastore.locks.show())
        if len(waits) == 5:
            site.metastore.transactions.commit(reader)

    monkeypatch.setattr(publication, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
    outcome = compact(patient, "minor")
    assert (outcome.result, outcome.message, len(outcome.output)) == (Result.COMPACTED, "", 2)
    assert (waits, kinds) == ([0.1, 0.2, 0.4, 0.8, 1.6], {"SHARED_READ"})


def test_half_of_a_pair_is_hidden_before_its_locks_go(site: Site, table: Table) -> None:
    """PROTOCOL 5, 6: the second name fails; the first one vanishes under the same exclusive lock."""
    wanted = rows_of(site, table)
    held: list[tuple[set[str], int]] = []

    class Full(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            name = os.path.basename(target)
            if "/out/" in source and name.startswith("delete_delta"):
                raise StorageError(f"{target}: no room")
            super().rename(source, target, durable=durable)

        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            for old in super().rename_each(path, names):
                if parse_hidden(names[old]):
                    opened = len(site.metastore.transactions.open_transactions())
                    held.append(({row.type.name for row in site.metastore.locks.show()}, opened))
                yield old

    outcome = compact(with_storage(site, Full()), "minor")
    assert (outcome.result, "no room" in outcome.message) == (Result.FAILED, True)
    assert [("EXCLUSIVE" in locks, opened) for locks, opened in held] == [(True, 1)]
    assert (site.metastore.locks.show(), site.metastore.transactions.open_transactions()) == ([], [])
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted


def test_readers_who_honour_visibility_need_no_exclusive_lock_for_a_pair(site: Site, table: Table) -> None:
    """PROTOCOL 5: ``readers=visibility`` names pairs back to back, the kind with files first."""
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    site.metastore.locks.acquire(reader, [read_lock(table)], "ann", "laptop")
    wanted = rows_of(site, table)
    named: list[str] = []
    shown: list[Any] = []

    def seen(name: str) -> None:
        named.append(name)
        shown.append(rows_of_snapshot(site, table))

    sure = with_settings(site, compactor_readers="visibility", hive_txn_opentxn_timeout="1ms")
    outcome = compact(with_storage(sure, naming(seen)), "minor")
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert [getattr(parse_directory(n), "kind", None) for n in named] == [DeltaKind.INSERT, DeltaKind.DELETE]
    assert shown == [wanted, wanted]
    assert rows_of(site, table) == wanted


def strict(site: Site) -> Site:
    return with_settings(site, compactor_readers="strict", hive_txn_opentxn_timeout="1ms")


def test_strict_names_no_pair_at_all(site: Site, table: Table) -> None:
    """PROTOCOL 5: a minor that would be a pair becomes a major and says so, though nobody is in its way."""
    wanted = rows_of(site, table)
    shown: list[Any] = []
    outcome = compact(
        with_storage(strict(site), naming(lambda _: shown.append(rows_without_visibility(site, table)))), "minor"
    )
    assert outcome.result is Result.COMPACTED
    assert outcome.message.startswith("minor became major: compactor.readers is strict")
    assert [n.split("_v")[0] for n in outcome.output] == ["base_0000005"]
    assert shown == [wanted]


def test_strict_leaves_a_minor_alone_that_is_one_directory(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, table, range(start, start + 4))
    outcome = compact(strict(site), "minor")
    assert (outcome.message, [n.split("_v")[0] for n in outcome.output]) == ("", ["delta_0000001_0000002"])


def test_strict_refuses_what_is_never_named_in_one_step(site: Site, table: Table) -> None:
    """A rebalance changes ROW__IDs, and a store without rename shows file by file."""
    before = names_in(Path(table.location))
    outcome = compact(strict(site), "rebalance")
    assert (outcome.result, "a rebalance whose worker died" in outcome.message) == (Result.REFUSED, True)

    class Flat(LocalStorage):
        def capabilities(self, path: str) -> Capabilities:
            return replace(super().capabilities(path), renames=False)

    outcome = compact(with_storage(strict(site), Flat()), "major")
    assert (outcome.result, "without directory rename" in outcome.message) == (Result.REFUSED, True)
    assert names_in(Path(table.location)) == before


@pytest.mark.parametrize("pairs", [False, True], ids=["single", "pairs"])
def test_chunks_are_named_one_after_the_other(site: Site, warehouse: Path, pairs: bool) -> None:
    """PROTOCOL 5: between any two of them readers without visibility see the same rows; with a pair among them all are
    named under the exclusive lock."""
    table = make_table(site, warehouse)
    for start in range(0, 80, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [1, 72, 73] if pairs else [72, 73])
    wanted = rows_of(site, table)
    held: list[set[str]] = []
    shown: list[Any] = []

    def seen(name: str) -> None:
        held.append({row.type.name for row in site.metastore.locks.show()})
        shown.append(rows_without_visibility(site, table))

    bounded = with_settings(
        with_storage(site, naming(seen)),
        compactor_max_time="1h",
        compactor_chunk_bytes="4800",  # three deltas
        hive_txn_opentxn_timeout="1ms",
    )
    outcome = compact(bounded, "minor")
    assert outcome.result is Result.COMPACTED
    assert len(shown) == len(outcome.output) == (4 if pairs else 3)
    assert all(("EXCLUSIVE" in locks) is pairs for locks in held)
    assert shown[-1] == rows_of(site, table) == wanted
    if not pairs:
        assert shown == [wanted] * len(shown)


def rows_of_snapshot(site: Site, table: Table) -> list[tuple[Any, ...]]:
    """The rows that a reader who honours visibility sees while another transaction holds the database."""
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    directory = acid_directory(site.storage.listing(table.location), write_ids, txns)
    batches = read_snapshot(table.location, directory, write_ids, site.target(entity_of(table)).row_type)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_a_compaction_yields_to_a_statement_that_waits_exclusively(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 3.2: locks are first come, first served; a DROP that waits for us would hold up all later readers."""
    before = files_below(warehouse)

    def drop_waits() -> None:
        (txn,) = site.metastore.transactions.open("ann", "laptop")
        wanted = LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)
        assert site.metastore.locks.acquire(txn, [wanted], "ann", "laptop").state is LockState.WAITING

    outcome = compact(site, runner=Interrupted(before=drop_waits))
    assert outcome.result is Result.WAITING
    assert "exclusively" in outcome.message
    assert [e.state for e in site.metastore.entries.queue()] == [State.INITIATED]
    assert {row.state for row in site.metastore.locks.show()} == {LockState.WAITING}
    assert {k: v[2] for k, v in files_below(warehouse).items()} == {k: v[2] for k, v in before.items()}


# --- 5: the critical section ------------------------------------------------------------------------------------------


def test_while_names_are_given_no_database_is_asked_anything(site: Site, table: Table) -> None:
    """PROTOCOL 5: the rows that are locked would wait for an answer that another connection waits for them to give."""
    with watched_sections() as seen:
        assert compact(site, "minor").result is Result.COMPACTED
    assert (seen.entries, seen.asked) == ([1], [])


def test_naming_refuses_a_target_that_exists(site: Site, table: Table) -> None:
    """PROTOCOL 5: on HDFS a rename would move into it."""
    location = Path(table.location)
    wanted = rows_of(site, table)

    def occupy() -> None:
        (staged,) = (location / name / "out" for name in names_in(location) if name.startswith(".compactor_v"))
        (entry,) = site.metastore.entries.queue()
        target = location / f"base_{entry.highest_write_id:07d}_v{entry.txn_id:07d}"
        target.mkdir()
        (target / "bucket_00000").write_bytes(b"somebody else's")
        assert staged.is_dir()

    class Occupied(LocalStorage):
        """The name is taken after the second listing, while the staged files become durable."""

        def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
            occupy()
            return super().sync(paths)

    outcome = compact(with_storage(site, Occupied()))
    assert outcome.result is Result.FAILED
    assert "is there already" in outcome.message
    assert not any(n.startswith("base_0000005") for n in names_in(location))
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    (failed,) = [e for e in site.metastore.entries.history() if e.state is State.FAILED]
    assert "is there already" in (failed.error or "")


def test_a_table_that_was_dropped_and_made_again_gets_nothing(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 5: table id, location and next write ID are looked at again in the critical section."""
    location = Path(table.location)

    def make_again() -> None:
        site.metastore.embedded_catalog.drop_table(table)
        shutil.rmtree(location)
        again = make_table(site, warehouse)
        assert again.location == table.location
        assert again.id != table.id

    outcome = compact(site, runner=Interrupted(before=lambda: None, after=make_again))
    assert outcome.result in (Result.LOST, Result.FAILED)
    assert names_in(location) == set()
    assert site.metastore.transactions.open_transactions() == []


def test_a_table_that_was_made_again_between_staging_and_naming(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 5: also when what was staged is still there, as behind another location's back."""

    def make_again() -> None:
        with site.metastore.database.write() as conn:
            (row,) = conn.execute(select(COMPACTION_QUEUE)).mappings().all()
        site.metastore.embedded_catalog.drop_table(table)
        os.rename(table.location, warehouse / "kept")
        make_table(site, warehouse)
        shutil.copytree(warehouse / "kept", table.location, dirs_exist_ok=True)
        with site.metastore.database.write() as conn:  # as where the drop leaves the queue alone
            conn.execute(sql_insert(COMPACTION_QUEUE).values(**row))

    outcome = compact(site, runner=Interrupted(after=make_again))
    assert outcome.result is Result.LOST
    assert "re-created" in outcome.message
    assert not any(n.startswith(("base_0000005", ".compactor_v")) for n in names_in(Path(table.location)))


def test_naming_that_takes_too_long_is_rolled_back_and_hidden(site: Site, table: Table) -> None:
    """PROTOCOL 5: naming is bounded by half of hive.txn.timeout; past it: roll back, hide."""
    wanted = rows_of(site, table)
    slow = with_settings(site, hive_txn_timeout="400ms", hive_txn_opentxn_timeout="1ms")
    outcome = compact(with_storage(slow, naming(lambda name: time.sleep(0.21))), "major")
    assert outcome.result is Result.FAILED
    assert "half of hive.txn.timeout" in outcome.message
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted


# --- 6: a worker is lost ----------------------------------------------------------------------------------------------


def test_a_worker_that_was_given_up_names_nothing(site: Site, table: Table) -> None:
    """PROTOCOL 6: paused, taken back, done by another worker; when it goes on it finds out and stops without a trace."""
    wanted = rows_of(site, table)
    others = []

    def meanwhile() -> None:
        age(site)
        (repaired,) = repair(site)
        assert repaired.result is State.INITIATED
        others.extend(run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes)

    outcome = compact(site, runner=Interrupted(after=meanwhile))
    assert [o.result for o in others] == [Result.COMPACTED]
    assert outcome.result in (Result.LOST, Result.FAILED)
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.txn_id) == (State.READY_FOR_CLEANING, others[0].txn)
    bases = {n for n in names_in(Path(table.location)) if n.startswith("base_0000005")}
    assert bases == set(others[0].output)
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted


def test_an_error_of_a_worker_that_was_given_up_does_not_end_another_ones_work(site: Site, table: Table) -> None:
    """PROTOCOL 6: the row is another worker's by then; the error is only reported."""

    def meanwhile() -> None:
        age(site)
        repair(site)
        (entry,) = site.metastore.entries.queue()
        claimed = site.metastore.claims.claim("compactor-worker-b", "1", pool_timeout_ms=0, ids=[entry.id])
        assert claimed is not None
        raise StorageError("disk full")

    outcome = compact(site, runner=Interrupted(after=meanwhile))
    assert outcome.result is Result.LOST
    assert "disk full" in outcome.message
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.worker_id) == (State.WORKING, "compactor-worker-b")


def test_what_an_aborted_compaction_named_is_hidden_at_once_and_removed_when_nobody_reads_it(
    site: Site, table: Table
) -> None:
    """PROTOCOL 6 and 7.2: a twin doubles rows, a hidden file only fails a running query."""
    location = Path(table.location)
    wanted = rows_of(site, table)
    (reader,) = site.metastore.transactions.open("trino", "coordinator")
    request_compaction(site, table="default.t", type="minor")
    (entry,) = site.metastore.entries.queue()

    def dies_named(name: str) -> None:
        raise SystemExit("the lights go out")

    with pytest.raises(SystemExit):
        run_entries(with_storage(site, naming(dies_named)), [entry.id], InProcessRunner())
    hidden = {n for n in names_in(location) if parse_hidden(n)}
    assert len(hidden) == 1
    assert (location / next(iter(hidden)) / "bucket_00000").is_file()
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    done = run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert [o.result for o in done.outcomes] == [Result.COMPACTED]
    clean(site)
    assert hidden <= names_in(location)  # the reader may have it open
    site.metastore.transactions.commit(reader)
    clean_all(site)
    assert not any(n.startswith(".") for n in names_in(location))
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted


def test_an_aborted_compaction_that_is_ready_for_cleaning_ends_failed(site: Site, table: Table) -> None:
    """PROTOCOL 6 and 7.4: ``r`` whose transaction aborted goes to the history, ``f``, and what it named is hidden."""
    wanted = rows_of(site, table)
    request_compaction(site, table="default.t")
    (entry,) = site.metastore.entries.queue()
    (txn,) = site.metastore.transactions.open("w", "h")
    claimed = site.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[entry.id])
    assert claimed is not None
    recorded = site.metastore.claims.record(
        claimed, "compactor-w", txn, "w", site.write_ids(table, site.metastore.transactions.snapshot()).high_watermark
    )
    target = Path(table.location) / f"base_0000005_v{txn:07d}"
    shutil.copytree(next(Path(table.location).glob("base_0000002_v*")), target)
    site.metastore.transactions.abort(txn, "by hand")
    set_ready(site, recorded.id)
    (ended,) = clean(site).ended
    assert (ended.state, ended.because) == (State.FAILED, f"compaction transaction {txn} aborted")
    assert not target.exists()
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    assert site.metastore.entries.history()[0].error == f"compaction transaction {txn} aborted"


def set_ready(site: Site, entry_id: int) -> None:
    with site.metastore.database.write() as conn:
        ready = update(COMPACTION_QUEUE).where(entry_id == COMPACTION_QUEUE.c.CQ_ID)
        conn.execute(ready.values(CQ_STATE="r", CQ_NEXT_TXN_ID=1, CQ_WORKER_ID=None))


def test_one_table_whose_leavings_cannot_be_removed_stops_nobody(
    site: Site, table: Table, warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 6: repair keeps the row until it can hide what its worker named, and goes on with the others."""
    healthy = make_table(site, warehouse, "healthy")
    for start in (0, 4):
        insert(site, healthy, range(start, start + 4))
    ids = {}
    for name in ("t", "healthy"):
        request_compaction(site, table=name)
        ids[name] = site.metastore.entries.queue()[-1].id
    for entry_id in ids.values():
        assert site.metastore.claims.claim("compactor-gone", "1", pool_timeout_ms=0, ids=[entry_id])
    age(site)

    class Broken(Renames):
        def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
            if path == table.location:
                raise StorageError(f"cannot list {path}: Permission denied")
            return super().children(path, prefix)

    with caplog.at_level(logging.WARNING):
        repaired = repair(with_storage(site, Broken(lambda *_: None)))
    assert [r.entry.entity.table for r in repaired] == ["healthy"]
    assert "Permission denied" in caplog.text
    assert site.metastore.entries.get(ids["t"]).state is State.WORKING
    assert [r.entry.entity.table for r in repair(site)] == ["t"]


# --- 8: forgetting ----------------------------------------------------------------------------------------------------


def test_an_aborted_truncate_is_remembered_while_its_base_is_there(site: Site, table: Table) -> None:
    """PROTOCOL 8: it has no TXN_COMPONENTS row in Hive; once forgotten its ``base_N`` would empty the table."""
    wanted = rows_of(site, table)
    base = truncate_and_abort(site, table)
    hasty = with_settings(site, compactor_forget_grace="0s", hive_txn_opentxn_timeout="1ms")
    for _ in range(3):
        assert rows_of(site, table) == wanted  # a later transaction: the newest is never forgotten
        settle(site)
        passed = keep_house(hasty)
        assert any(str(base) in kept for kept in passed.kept), passed.kept
    assert rows_of(site, table) == wanted
    shutil.rmtree(base)
    settle(site)
    passed = keep_house(hasty)
    assert passed.kept == ()
    assert passed.transactions_forgotten > 0


class _Died(Exception):
    pass


def truncate_and_abort(site: Site, table: Table) -> Path:
    with suppress(_Died), transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.UPDATE)
        base = Path(table.location) / f"base_{statement.write_id:07d}"
        shutil.copytree(next(Path(table.location).glob("base_0000002_v*")), base)
        raise _Died
    forget_components(site)
    return base


def settle(site: Site) -> None:
    """Half an hour passes for everything that has ended: ids below are there, hive.txn.timeout is over."""
    half_an_hour = 1_800_000
    older = {
        "TXN_STARTED": TXNS.c.TXN_STARTED - half_an_hour,
        "TXN_LAST_HEARTBEAT": TXNS.c.TXN_LAST_HEARTBEAT - half_an_hour,
    }
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE != "o").values(**older))


def forget_components(site: Site) -> None:
    """A directory that Hive's TRUNCATE never writes, and its cleaner takes away too early."""
    with site.metastore.database.write() as conn:
        conn.execute(sql_delete(TXN_COMPONENTS))


def test_an_aborted_transaction_is_kept_for_its_grace_time(site: Site, table: Table) -> None:
    """PROTOCOL 8: a zombie task may write late."""
    insert(site, table, [99], commits=False)
    (late,) = (Path(table.location) / n for n in names_in(Path(table.location)) if n.startswith("delta_0000006"))
    shutil.move(late, Path(table.location).parent / "late")
    insert(site, table, [100])
    forget_components(site)
    settle(site)
    kept = keep_house(with_settings(site, compactor_forget_grace="1h", hive_txn_opentxn_timeout="1ms")).kept
    assert any("compactor.forget.grace" in why for why in kept), kept
    shutil.move(Path(table.location).parent / "late", late)  # what was written late is still known as aborted
    assert 99 not in {row[3] for row in rows_of(site, table)}
    hasty = with_settings(site, compactor_forget_grace="0s", hive_txn_opentxn_timeout="1ms")
    assert any(str(late) in why for why in keep_house(hasty).kept)
    assert 99 not in {row[3] for row in rows_of(site, table)}


def test_what_is_forgotten_is_old_enough_for_every_snapshot(site: Site, table: Table) -> None:
    """PROTOCOL 8, 9: an id that is missing from TXNS and young may be about to appear, and counts as open."""
    wanted = rows_of(site, table)
    hasty = with_settings(site, compactor_forget_grace="0s", hive_txn_opentxn_timeout="0ms")
    keep_house(hasty)
    assert rows_of(site, table) == wanted
    settle(site)
    assert rows_of(site, table) == wanted
    assert keep_house(hasty).transactions_forgotten > 0
    assert rows_of(site, table) == wanted
