"""PROTOCOL 10: a pass that remembers decides and requests exactly what one does that looks at everything.

Random histories of writes, late commits, aborts, properties and settings at each level, clocks, DDL, restored metastores,
people's looks, and passes of another initiator or passes that die half-way.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from sqlalchemy import text

from compactor.base.errors import CompactorError, NotFound, Refused, TransactionTimedOut
from compactor.base.ids import TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.pool_policy import PoolPolicy, parse_window
from compactor.compaction.portions import Portion
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.database import clock
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import initiate, look_again
from compactor.initiator.table_changes import TableChanges
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import lost_workers
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state import state_upgrade
from compactor.state.stored_overrides import Override
from demo.delta_writer import write_rows
from tests.support.backups import Backup, without_memory
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import settle
from tests.support.sizes import sized
from tests.support.tables import insert, make_table, with_settings

VALUES = st.integers(1, 4)
NUM = "hive.compactor.delta.num.threshold"
OF_TABLE = f"compactorthreshold.{NUM}"
HOUR_MS = 3_600_000
#: Where another initiator, a writer or a person may come in between, or the process may die.
POINTS = (
    (TableChanges, "_compare"),
    (TableChanges, "claim"),
    (CandidatePage, "_read_whole"),
    (CandidatePage, "sort_out"),
    (CandidateScan, "request"),
    (CandidatePage, "note_recorded"),
    (CandidatePage, "remember"),
    (TableChanges, "forget_strangers"),
)


class Died(Exception):
    """Stands for the end of a process in the middle of a pass."""


def judge_all(site: Site) -> dict[Entity, Considered]:
    """Returns what a pass decides that looks at every candidate; nothing is written."""
    scan = CandidateScan(site, write=False)
    scan.full_round_ms = 0  # no decision lasts
    tables = tuple(scan.candidate_tables())
    pending = CandidatePage(scan, tables).sort_out(Portion(tables=tables)).pending if tables else []
    return {candidate.entity: scan.consider(candidate.entity) for candidate in pending}


class PassesOverTime(RuleBasedStateMachine):
    site: Site
    table: Table
    plain: Table

    def __init__(self, empty: Path) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="compactor-passes-", dir=empty.parent))
        shutil.copyfile(empty, self.home / "metastore.db")
        (self.home / "warehouse").mkdir()
        self.stack = ExitStack()
        self.there = {1, 2, 3}
        self.writers: list[TxnId] = []
        self.readers: list[TxnId] = []
        self.ahead_ms = 0
        self.backup = Backup(self.home / "metastore.db")
        self.has_backup = False

    @initialize(has_own_state=st.booleans())
    def start(self, has_own_state: bool) -> None:
        environment = {"COMPACTOR_METASTORE_URL": f"sqlite:///{self.home / 'metastore.db'}"}
        if has_own_state:
            environment["COMPACTOR_STATE_URL"] = f"sqlite:///{self.home / 'state.db'}"
            state_upgrade.init(environment["COMPACTOR_STATE_URL"]).close()
        opened = self.stack.enter_context(open_site(configure(environment=environment)))
        self.stack.enter_context(patch.dict(clock._NOW))
        self.site = without_memory(opened)  # which would refuse every pass after a restore
        self.set_site("2", "false")
        self.table = make_partitioned(self.site, self.home / "warehouse")
        self.plain = make_table(self.site, self.home / "warehouse", "u")
        for value in sorted(self.there):
            add_partition(self.site, self.table, value)
            insert_into(self.site, self.table, value, [value])

    def teardown(self) -> None:
        try:
            if hasattr(self, "table"):
                self.passes()
        finally:
            self.stack.close()
            shutil.rmtree(self.home)

    # --- writers ------------------------------------------------------------------------------------------------------

    @rule(value=VALUES, commits=st.sampled_from([True, True, False]))
    def insert(self, value: int, commits: bool) -> None:
        if value in self.there:
            insert_into(self.site, self.table, value, [7], commits=commits)

    @rule(commits=st.sampled_from([True, True, False]))
    def insert_into_plain_table(self, commits: bool) -> None:
        insert(self.site, self.plain, [1], commits=commits)

    @rule(value=VALUES)
    def die_before_the_partition_is_recorded(self, value: int) -> None:
        if value in self.there:
            insert_into(self.site, self.table, value, [8], commits=False, recorded=False)

    @precondition(lambda self: len(self.writers) < 3)
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
    @rule(commits=st.booleans(), which=st.integers(0, 2))
    def end_a_write(self, commits: bool, which: int) -> None:
        """Writers end in any order: a small transaction commits late."""
        self._end(self.writers.pop(which % len(self.writers)), commits)

    def _end(self, txn: TxnId, commits: bool) -> None:
        with suppress(TransactionTimedOut, NotFound):  # the clock may have been set meanwhile
            if commits:
                self.site.metastore.transactions.commit(txn)
            else:
                self.site.metastore.transactions.abort(txn, "by a test")

    @rule()
    def read(self) -> None:
        """Opens a reader, or ends the one that is open: cleaners wait for it."""
        if self.readers:
            self._end(self.readers.pop(), commits=True)
        else:
            self.readers += self.site.metastore.transactions.open("reader", "h")

    # --- DDL ----------------------------------------------------------------------------------------------------------

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

    @precondition(lambda self: not self.writers)
    @rule(source=VALUES, to=VALUES)
    def rename_partition(self, source: int, to: int) -> None:
        if source in self.there and to not in self.there:
            self.site.metastore.embedded_catalog.rename_partition(self.table, f"p={source}", [str(to)])
            Path(self.table.location, f"p={source}").rename(Path(self.table.location, f"p={to}"))
            self._move(f"p={to}", Path(self.table.location, f"p={to}"))
            self.there ^= {source, to}

    @precondition(lambda self: not self.writers)
    @rule(value=VALUES)
    def empty_by_moving(self, value: int) -> None:
        """Gives a partition another directory, and back: SET LOCATION leaves no other trace."""
        if value in self.there:
            home = Path(self.table.location, f"p={value}")
            self._move(f"p={value}", self.home / "warehouse" / f"elsewhere{value}")
            self.passes()
            self._move(f"p={value}", home)

    def _move(self, partition: str, location: Path) -> None:
        location.mkdir(exist_ok=True)
        storage = 'SELECT "SD_ID" FROM "PARTITIONS" WHERE "PART_NAME" = :partition'
        with self.site.metastore.database.write() as conn:
            statement = text(f'UPDATE "SDS" SET "LOCATION" = :location WHERE "SD_ID" IN ({storage})')
            assert conn.execute(statement, {"location": str(location), "partition": partition}).rowcount == 1

    @precondition(lambda self: not self.writers)
    @rule()
    def drop_and_create_plain_table(self) -> None:
        self.site.metastore.embedded_catalog.drop_table(self.plain)
        shutil.rmtree(self.plain.location)
        self.plain = make_table(self.site, self.home / "warehouse", "u")
        insert(self.site, self.plain, [1])

    # --- properties and settings ----------------------------------------------------------------------------------------

    @rule(threshold=st.sampled_from(["0", "1", "5", None]), is_off=st.sampled_from(["true", "false", None]))
    def alter_table(self, threshold: str | None, is_off: str | None) -> None:
        properties = {OF_TABLE: threshold, "no_auto_compaction": is_off}
        self.table = self.site.metastore.embedded_catalog.set_table_parameters(self.table, properties)

    @rule(is_off=st.sampled_from(["true", "false", None]))
    def alter_database(self, is_off: str | None) -> None:
        self.site.metastore.embedded_catalog.set_database_parameter("default", "no_auto_compaction", is_off)

    @rule(threshold=st.sampled_from(["0", "3", None]))
    def override(self, threshold: str | None) -> None:
        assert self.site.state is not None
        if threshold is None:
            self.site.state.overrides.forget(self.site.name, "default", "t", NUM)
        else:
            override = Override(database="default", table="t", key=NUM, value=threshold, by="ann")
            self.site.state.overrides.keep(self.site.name, override)

    @rule(threshold=st.sampled_from(["1", "2", "4"]), paused=st.sampled_from(["false", "false", "true"]))
    def set_site(self, threshold: str, paused: str) -> None:
        site = with_settings(
            self.site,
            hive_txn_opentxn_timeout="1ms",
            compactor_lock_wait="0s",
            hive_compactor_delta_num_threshold=threshold,
            hive_compactor_abortedtxn_threshold="1",
            hive_compactor_initiator_failed_retry_time="2h",
            compactor_paused=paused,
        )
        windows = (parse_window("00:00-12:00"),)
        policy = PoolPolicy(name="default", off_peak=windows, off_peak_settings={NUM: "0"})
        self.site = replace(site, pools={"default": policy})

    # --- time and accidents ---------------------------------------------------------------------------------------------

    @rule(by_ms=st.sampled_from([60_000, HOUR_MS // 3, HOUR_MS, 13 * HOUR_MS, -HOUR_MS // 2, -14 * HOUR_MS]))
    def set_clock(self, by_ms: int) -> None:
        self.ahead_ms += by_ms
        now = f"CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + {self.ahead_ms}"
        clock._NOW["sqlite"] = text(f"SELECT {now}")

    @rule(value=VALUES)
    def change_files_by_hand(self, value: int) -> None:
        """Removes a delta behind everybody's back; the full round finds that within its period."""
        deltas = sorted(Path(self.table.location, f"p={value}").glob("delta_*"))
        if value in self.there and deltas and not self.writers:
            shutil.rmtree(deltas[0])
            self.set_clock(HOUR_MS)
            self.passes()

    @precondition(lambda self: not self.writers and not self.readers)
    @rule()
    def back_up(self) -> None:
        shutil.rmtree(self.home / "backup", ignore_errors=True)
        shutil.copytree(self.home / "warehouse", self.home / "backup")
        self.backup.take()
        self.has_backup, self.kept = True, (set(self.there), self.table, self.plain)

    @precondition(lambda self: self.has_backup and not self.writers and not self.readers)
    @rule(is_seen=st.booleans())
    def restore(self, is_seen: bool) -> None:
        """Puts back the metastore with its files; our own state is restored only if it is in the same database.

        The next pass sees the older copy, or only what was written into it later, under ids that were used before.
        """
        self.backup.restore()
        shutil.rmtree(self.home / "warehouse")
        shutil.copytree(self.home / "backup", self.home / "warehouse")
        self.there, self.table, self.plain = set(self.kept[0]), *self.kept[1:]
        if is_seen:
            self.passes()

    # --- what we do -----------------------------------------------------------------------------------------------------

    @rule(value=VALUES, kind=st.sampled_from(["minor", "major"]))
    def request(self, value: int, kind: str) -> None:
        if value in self.there:
            with suppress(Refused):
                request_compaction(self.site, table="default.t", partition=f"p={value}", type=kind)

    @rule()
    def work(self) -> None:
        run_entries(self.site, list_claimable_ids(self.site), InProcessRunner())

    @rule()
    def fail(self) -> None:
        while (entry := self.site.metastore.claims.claim("compactor-test", "test", pool_timeout_ms=0)) is not None:
            self.site.metastore.claims.finish(entry, State.FAILED, "by a test")

    @rule()
    def clean(self) -> None:
        settle()
        clean(self.site)

    @rule(value=VALUES)
    def look(self, value: int) -> None:
        look_at(self.site, partition_of(self.table, value))

    @rule(is_one=st.booleans())
    def look_again(self, is_one: bool) -> None:
        look_again(self.site, self.table if is_one else None)

    @rule(point=st.sampled_from(POINTS), act=st.sampled_from(range(8)), dies=st.booleans(), value=VALUES)
    def disturbed_pass(self, point: tuple[type, str], act: int, dies: bool, value: int) -> None:
        """Another initiator, a writer or a person comes in between, and then the process may die."""
        acts: list[Callable[[], Any]] = [
            lambda: initiate(self.site),
            lambda: self.insert(value, commits=True),
            lambda: self.insert(value, commits=False),
            lambda: self.alter_table("0", None),
            lambda: self.look(value),
            lambda: self.look_again(is_one=True),
            lambda: (self.insert(value, commits=True), initiate(self.site)),
            lambda: self._move(f"p={value}", elsewhere) if value in self.there else None,
        ]
        home, elsewhere = Path(self.table.location, f"p={value}"), self.home / "warehouse" / f"elsewhere{value}"
        with suppress(Died), between(*point, acts[act], dies=dies):
            initiate(self.site)
        if act == len(acts) - 1 and value in self.there:
            self._move(f"p={value}", home)

    @rule()
    def passes(self) -> None:
        lost_workers.repair(self.site)  # a pass begins with it
        expected = judge_all(self.site)
        before = {entry.id for entry in self.site.metastore.entries.queue()}
        done = initiate(self.site)
        requested = {(e.entity, e.type) for e in self.site.metastore.entries.queue() if e.id not in before}
        assert requested == {(e, kind) for e, c in expected.items() if (kind := requested_type(c)) is not None}
        assert self.site.state is not None
        shown = self.site.state.conditions.for_entities(self.site.name, expected)
        existing = {entity: c.outcome for entity, c in expected.items() if entity in shown}
        assert {entity: seen.outcome for entity, seen in shown.items()} == existing
        assert len(done.considered) + done.kept == len(expected)


def requested_type(considered: Considered) -> CompactionType | None:
    decision = considered.decision
    return None if decision is None or decision.type is CompactionType.ABORT_CLEANUP else decision.type


@contextmanager
def between(owner: type, method: str, act: Callable[[], object], *, dies: bool) -> Iterator[None]:
    """Runs ``act`` before the first call of a method; then the process may die."""
    original = getattr(owner, method)
    is_done = False

    def call(*args: Any, **options: Any) -> Any:
        nonlocal is_done
        if not is_done:
            is_done = True
            with suppress(CompactorError):
                act()
            if dies:
                raise Died
        return original(*args, **options)

    with patch.object(owner, method, call):
        yield


def test_a_pass_that_remembers_decides_like_one_that_does_not(empty_metastore: Path) -> None:
    run_state_machine_as_test(
        lambda: PassesOverTime(empty_metastore),  # type: ignore[arg-type]  # it only calls it
        settings=settings(
            max_examples=sized(short=4, whole=1000),
            stateful_step_count=sized(short=15, whole=25),
            deadline=None,
            phases=[Phase.generate, Phase.explicit],
        ),
    )
