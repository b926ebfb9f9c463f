"""PROTOCOL 10: a pass that remembers decides and asks for exactly what one does that looks at everything, whatever has
happened since."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from compactor.base.errors import Refused
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.portions import Portion
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from demo.delta_writer import write_rows
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import settle
from tests.support.sizes import sized
from tests.support.tables import with_settings

VALUES = st.integers(1, 3)
NUM = "compactorthreshold.hive.compactor.delta.num.threshold"


def judged(site: Site) -> dict[Entity, Considered]:
    """Returns what a pass decides that looks at every candidate; nothing is written."""
    scan = CandidateScan(site, write=False)
    scan.looked_after = scan.now_ms + 1  # a full look
    tables = tuple(scan.candidate_tables())
    pending = CandidatePage(scan, tables).sort_out(Portion(tables=tables)).pending if tables else []
    return {one.entity: scan.consider(one.entity) for one in pending}


class Fleet(RuleBasedStateMachine):
    site: Site
    table: Table

    def __init__(self, empty: Path) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="compactor-fleet-"))
        shutil.copyfile(empty, self.home / "metastore.db")
        (self.home / "warehouse").mkdir()
        url = f"sqlite:///{self.home / 'metastore.db'}"
        self.opened = open_site(configure(environment={"COMPACTOR_METASTORE_URL": url}))
        self.there = {1, 2, 3}
        self.writers: list[TxnId] = []
        self.readers: list[TxnId] = []

    @initialize()
    def start(self) -> None:
        self.site = with_settings(
            self.opened.__enter__(),
            hive_txn_opentxn_timeout="1ms",
            compactor_lock_wait="0s",
            hive_compactor_delta_num_threshold="2",
            hive_compactor_abortedtxn_threshold="1",
        )
        self.table = make_partitioned(self.site, self.home / "warehouse")
        for value in sorted(self.there):
            add_partition(self.site, self.table, value)
            insert_into(self.site, self.table, value, [value])

    def teardown(self) -> None:
        try:
            if hasattr(self, "site"):
                self.passes()
                self.opened.__exit__(None, None, None)
        finally:
            shutil.rmtree(self.home)

    # --- what others do -----------------------------------------------------------------------------------------------

    @rule(value=VALUES, commits=st.sampled_from([True, True, False]))
    def insert(self, value: int, commits: bool) -> None:
        if value in self.there:
            insert_into(self.site, self.table, value, [7], commits=commits)

    @rule(value=VALUES)
    def die_before_the_partition_is_recorded(self, value: int) -> None:
        if value in self.there:
            insert_into(self.site, self.table, value, [8], commits=False, recorded=False)

    @precondition(lambda self: len(self.writers) < 2)
    @rule(value=VALUES)
    def begin_to_write(self, value: int) -> None:
        if value not in self.there:
            return
        (txn,) = self.site.metastore.transactions.open("slow", "h")
        write_id = self.site.metastore.write_ids.allocate(txn, "default", "t")
        self.site.metastore.write_ids.add_component(txn, partition_of(self.table, value), "i", write_id)
        rows = pa.table({"a": pa.array([9], pa.int32()), "b": ["slow"]})
        location = self.site.target(partition_of(self.table, value)).location
        write_rows(location, self.table.row_type, rows, write_id=write_id, statement_id=0)
        self.writers.append(txn)

    @precondition(lambda self: self.writers)
    @rule(commits=st.booleans())
    def end_a_write(self, commits: bool) -> None:
        txn = self.writers.pop()
        if commits:
            self.site.metastore.transactions.commit(txn)
        else:
            self.site.metastore.transactions.abort(txn, "by a test")

    @rule()
    def read(self) -> None:
        """Opens a reader, or ends the one that is open: cleaners wait for it."""
        if self.readers:
            self.site.metastore.transactions.commit(self.readers.pop())
        else:
            self.readers += self.site.metastore.transactions.open("reader", "h")

    @rule(value=VALUES)
    def drop_or_add(self, value: int) -> None:
        location = Path(self.table.location, f"p={value}")
        if value in self.there:
            self.site.metastore.embedded_catalog.drop_partition(self.table, f"p={value}")
            shutil.rmtree(location)
        else:
            add_partition(self.site, self.table, value)
            insert_into(self.site, self.table, value, [value])
        self.there ^= {value}

    @rule(threshold=st.sampled_from(["0", "1", "5"]), is_off=st.sampled_from(["true", "false"]))
    def alter(self, threshold: str, is_off: str) -> None:
        catalog = self.site.metastore.embedded_catalog
        self.table = catalog.set_table_parameter(self.table, NUM, threshold)
        self.table = catalog.set_table_parameter(self.table, "no_auto_compaction", is_off)

    @rule()
    def grow_old(self) -> None:
        with self.site.metastore.database.write() as conn:
            conn.exec_driver_sql("UPDATE TXNS SET TXN_STARTED = TXN_STARTED - 50000000 WHERE TXN_STATE = 'a'")

    # --- what we do ---------------------------------------------------------------------------------------------------

    @rule(value=VALUES, kind=st.sampled_from(["minor", "major"]))
    def request(self, value: int, kind: str) -> None:
        if value in self.there:
            with suppress(Refused):
                request_compaction(self.site, table="default.t", partition=f"p={value}", type=kind)

    @rule()
    def work(self) -> None:
        run_entries(self.site, list_claimable_ids(self.site), InProcessRunner())

    @rule()
    def clean(self) -> None:
        settle()
        clean(self.site)

    @rule()
    def passes(self) -> None:
        wanted = judged(self.site)
        before = {entry.id for entry in self.site.metastore.entries.queue()}
        done = initiate(self.site)
        requested = {(e.entity, e.type) for e in self.site.metastore.entries.queue() if e.id not in before}
        assert requested == {(entity, kind) for entity, one in wanted.items() if (kind := _asked(one)) is not None}
        assert self.site.state is not None
        shown = self.site.state.conditions.for_entities(self.site.name, wanted)
        assert {entity: one.outcome for entity, one in shown.items()} == {
            entity: one.outcome for entity, one in wanted.items() if entity in shown
        }
        assert len(done.considered) + done.kept == len(wanted)


def _asked(considered: Considered) -> CompactionType | None:
    decision = considered.decision
    return None if decision is None or decision.type is CompactionType.ABORT_CLEANUP else decision.type


def test_a_pass_that_remembers_decides_like_one_that_does_not(empty_metastore: Path) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: Fleet(empty_metastore),
        settings=settings(
            max_examples=sized(short=4, whole=60), stateful_step_count=sized(short=12, whole=30), deadline=None
        ),
    )
