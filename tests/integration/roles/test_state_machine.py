"""DESIGN 8.1: whatever is written, deleted, aborted, compacted and cleaned, every open reader shows the same rows.

Hypothesis walks over one small table with two file numbers. Readers keep their snapshots; a reader of another make
(``tests.support.oracle``) looks at them after every step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.locks.lock_rows import LockState
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.worker.ending import Result
from compactor.worker.under_way import Options
from demo.delta_writer import write_rows
from tests.support.oracle import read_directory
from tests.support.passes import clean_all, rows_without_visibility
from tests.support.sizes import sized
from tests.support.tables import delete, entity_of, insert, make_table, with_settings
from tests.support.watching import names_in

Row = tuple[RowId, tuple[Any, ...]]


@dataclass(frozen=True)
class Reader:
    """An open transaction, its snapshot, and what it showed when it was opened."""

    txn: TxnId
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    rows: list[Row]


class Walk(RuleBasedStateMachine):
    site: Site
    table: Table

    def __init__(self, empty: Path) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="compactor-walk-"))
        shutil.copyfile(empty, self.home / "metastore.db")
        (self.home / "warehouse").mkdir()
        self.opened = open_site(
            configure(environment={"COMPACTOR_METASTORE_URL": f"sqlite:///{self.home / 'metastore.db'}"})
        )
        self.alive: set[int] = set()
        self.pending: list[tuple[TxnId, list[int]]] = []
        self.readers: list[Reader] = []
        self.next = 0

    @initialize()
    def start(self) -> None:
        self.site = with_settings(
            self.opened.__enter__(),
            hive_txn_opentxn_timeout="0ms",
            compactor_lock_wait="0s",
            hive_compactor_abortedtxn_threshold="0",
        )
        self.table = make_table(self.site, self.home / "warehouse")

    def teardown(self) -> None:
        try:
            if hasattr(self, "site"):
                self.ends_well()
                self.opened.__exit__(None, None, None)
        finally:
            shutil.rmtree(self.home)

    def new(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))

    # --- writers ----------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), commits=st.sampled_from([True, True, True, False]))
    def insert(self, count: int, commits: bool) -> None:
        values = self.new(count)
        insert(self.site, self.table, values, commits=commits)
        self.alive |= set(values) if commits else set()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.sampled_from(sorted(self.alive)), min_size=1, max_size=3))
        delete(self.site, self.table, gone)
        self.alive -= gone

    @precondition(lambda self: len(self.pending) < 2)
    @rule()
    def begin_to_write(self) -> None:
        """Starts a writer whose delta exists while its transaction is still open."""
        (value,) = self.new(1)
        (txn,) = self.site.metastore.transactions.open("slow", "h")
        write_id = self.site.metastore.write_ids.allocate(txn, "default", "t")
        self.site.metastore.write_ids.add_component(txn, entity_of(self.table), "i", write_id)
        rows = pa.table({"a": pa.array([value], pa.int32()), "b": [f"row {value}"]})
        row_type = self.site.target(entity_of(self.table)).row_type
        write_rows(self.table.location, row_type, rows, write_id=write_id, statement_id=0, number=value % 2)
        self.pending.append((txn, [value]))

    @precondition(lambda self: self.pending)
    @rule(which=st.integers(0, 1), commits=st.booleans())
    def end_a_write(self, which: int, commits: bool) -> None:
        txn, values = self.pending.pop(which % len(self.pending))
        if commits:
            self.site.metastore.transactions.commit(txn)
            self.alive |= set(values)
        else:
            self.site.metastore.transactions.abort(txn, "by hand")

    # --- readers ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.readers) < 3)
    @rule(kind=st.sampled_from([TxnType.DEFAULT, TxnType.READ_ONLY]), locks=st.booleans())
    def open_a_reader(self, kind: TxnType, locks: bool) -> None:
        (txn,) = self.site.metastore.transactions.open("reader", "h", type=kind)
        if locks:  # as Trino does for every SELECT; a pair cannot be named then
            wanted = LockRequest(database="default", table="t", type=LockType.SHARED_READ)
            assert self.site.metastore.locks.acquire(txn, [wanted], "reader", "h").is_acquired
        txns = self.site.metastore.transactions.snapshot(txn)
        write_ids = self.site.write_ids(self.table, txns)
        self.readers.append(Reader(txn, txns, write_ids, self.look(write_ids, txns)))

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 2))
    def close_a_reader(self, which: int) -> None:
        self.site.metastore.transactions.commit(self.readers.pop(which % len(self.readers)).txn)

    # --- roles --------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["minor", "major"]), full=st.booleans())
    def compact(self, kind: str, full: bool) -> None:
        try:
            request_compaction(self.site, table="default.t", type=kind)
        except Refused as refused:
            assert "already scheduled" in str(refused)  # noqa: PT017 - one that is ready for cleaning covers it
        small = 0 if full else None
        options = Options(full_verify=full, small_stripe_bytes=small)
        done = run_entries(self.site, list_claimable_ids(self.site), InProcessRunner(), options)
        assert {o.result for o in done.outcomes} <= {Result.COMPACTED, Result.CLEAN_ONLY, Result.REFUSED}, done.outcomes

    @rule()
    def clean(self) -> None:
        passed = clean(self.site)
        assert passed.failed == ()

    @rule()
    def keep_house(self) -> None:
        keep_house(self.site)

    # --- what never changes -------------------------------------------------------------------------------------------

    def look(self, write_ids: ValidWriteIdList, txns: ValidTxnList) -> list[Row]:
        return sorted(read_directory(Path(self.table.location), write_ids, txns))

    @invariant()
    def every_reader_shows_the_same(self) -> None:
        if not hasattr(self, "table"):
            return
        for reader in self.readers:
            assert self.look(reader.write_ids, reader.txns) == reader.rows

    @invariant()
    def a_new_reader_shows_what_was_written(self) -> None:
        if not hasattr(self, "table"):
            return
        txns = self.site.metastore.transactions.snapshot()
        shown = [row[0] for _, row in self.look(self.site.write_ids(self.table, txns), txns)]
        assert sorted(shown) == sorted(self.alive)
        assert sorted(row[3] for row in rows_without_visibility(self.site, self.table)) == sorted(self.alive)

    def ends_well(self) -> None:
        """Ends all readers and writers, after which everything obsolete must go."""
        while self.readers:
            self.close_a_reader(0)
        while self.pending:
            self.end_a_write(0, commits=True)
        clean_all(self.site)
        self.a_new_reader_shows_what_was_written()
        assert all(lock.state is LockState.ACQUIRED for lock in self.site.metastore.locks.show())
        assert not [name for name in names_in(Path(self.table.location)) if name.startswith(".")]


def test_no_snapshot_ever_changes(empty_metastore: Path) -> None:
    examples = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "search" else sized(short=4, whole=9)
    run_state_machine_as_test(
        lambda: Walk(empty_metastore), settings=settings(max_examples=examples, stateful_step_count=25)
    )
