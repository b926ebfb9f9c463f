"""A change begins in one process, is read and staged in others and commits in a third; what ends early leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import CommitUnknown, NotFound, NotSupported, Refused, TransactionAborted, WriteConflict
from compactor.base.steps import WriteStep
from compactor.site.site import Site
from compactor.spark_tables import keeper_client
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import (
    AbortChange,
    BeginChange,
    BegunChange,
    ChangeWork,
    CommitChange,
    CountChange,
    MetastorePlace,
    PlannedScan,
    PlanScan,
    WriteChange,
)
from compactor.spark_tables.reader import Reader, ReadPortion, scan_schema
from compactor.spark_tables.spark_types import to_spark_schema
from compactor.tables import Store
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.part_files import write_changes
from compactor.tables.writing.row_change import FILE, KIND, Changed, RowChangeKind
from compactor.tables.writing.writer_messages import ChangedPart
from tests.integration.tables_for_spark.conftest import hidden, keeper_of, rows_of, time_out_and_sweep
from tests.support.passes import time_out_all
from tests.support.patience import until
from tests.support.tables import make_table


def begun(keeper: Keeper, place: MetastorePlace, table: str = "db.t", **more: Any) -> BegunChange:
    found = keeper.ask(BeginChange(place=place, table=table, **{"deletes": True, "is_checked": None, **more}))
    assert isinstance(found, BegunChange)
    return found


def staged(
    keeper: Keeper, site: Site, place: MetastorePlace, change: str, table: str = "db.t"
) -> tuple[ChangedPart, ...]:
    """Deletes the rows below 3, gives the next one another value and adds a row, as the tasks of two executors do."""
    work = keeper.ask(WriteChange(change=change))
    assert isinstance(work, ChangeWork)
    scan = keeper.ask(PlanScan(place=place, table=table, change=change))
    assert isinstance(scan, PlannedScan)
    schema = scan_schema(scan)
    batches = list(Reader(scan, to_spark_schema(schema), 1 << 20).read(ReadPortion(scan.plan.tasks)))
    rows = sorted(pa.Table.from_batches(batches, batches[0].schema).to_pylist(), key=lambda row: row["i"])
    kinds = {1: RowChangeKind.DELETE, 2: RowChangeKind.DELETE, 3: RowChangeKind.UPDATE}
    changed = [{KIND: int(kinds[row["i"]]), **row, "i": -row["i"]} for row in rows]
    added = [
        {KIND: int(RowChangeKind.INSERT), ROW_ID: None, FILE: None, **dict.fromkeys(scan.plan.schema.names[1:]), "i": 9}
    ]
    if "p" in schema.names:
        added[0]["p"] = 7
    wanted = pa.schema([pa.field(KIND, pa.int32()), *(field.with_nullable(True) for field in batches[0].schema)])
    return tuple(
        write_changes(work.work, [pa.RecordBatch.from_pylist(of_task, wanted)], writer, site.storage)
        for writer, of_task in enumerate((changed, added))
    )


EVERYTHING = {"assigns": ("i",), "inserts": True}


@pytest.mark.parametrize(("other", "lock"), [("t", "SHARED_WRITE"), ("u", "SHARED_READ")])
def test_a_condition_reads_tables_under_the_snapshot_of_its_change(
    keeper: Keeper, place: MetastorePlace, store: Store, deployment: Site, other: str, lock: str
) -> None:
    """TABLES rule 11, PROTOCOL 13.2: what comes after the change has begun is not there, and a lock protects what is."""
    store.create_table("db.u", {"i": "bigint"}).append(pa.table({"i": [1, 2, 3]}))
    change = begun(keeper, place)
    store.load_table(f"db.{other}").append(pa.table({"i": [4]}))
    scan = keeper.ask(PlanScan(place=place, table=f"db.{other}", columns=("i",), within=change.change))
    assert (scan.has_files, scan.plan.schema.names) == (False, ["i"])
    batches = Reader(scan, to_spark_schema(scan_schema(scan)), 1 << 20).read(ReadPortion(scan.plan.tasks))
    assert sorted(row for batch in batches for row in batch.column("i").to_pylist()) == [1, 2, 3]
    assert (other, lock) in {(one.table, one.type.name) for one in deployment.metastore.locks.show()}
    keeper.ask(AbortChange(change=change.change))
    with pytest.raises(TransactionAborted, match="has ended"):
        keeper.ask(PlanScan(place=place, table=f"db.{other}", within=change.change))


def test_a_change_is_committed_by_another_process_once_and_tells_its_numbers(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    """TABLES rules 10 and 14."""
    change = begun(keeper, place, **EVERYTHING)
    assert (change.columns, change.partition_keys, change.is_checked) == (("i", "s"), (), True)
    [agent] = open_agents()
    assert agent.startswith("compactor-app-7-")
    staged(keeper, deployment, place, change.change)  # attempts that Spark tells nobody of
    parts = staged(keeper, deployment, place, change.change)
    assert rows_of(store) == [1, 2, 3]
    keeper.ask(CommitChange(change=change.change, parts=parts))
    assert rows_of(store) == [-3, 9]
    assert hidden(warehouse) == []
    assert keeper.ask(CountChange(change=change.change)) == Changed(deleted=2, updated=1, inserted=1)
    for request in (CommitChange(change=change.change, parts=parts), CountChange(change=change.change)):
        with pytest.raises(TransactionAborted, match="has ended"):
            keeper.ask(request)
    assert keeper.ask(AbortChange(change=change.change)) is False
    assert rows_of(store) == [-3, 9]


def test_of_two_changes_at_once_the_one_that_commits_first_wins(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    """TABLES rule 2."""
    one, other = (begun(keeper, place, assigns=("i",)).change for _ in range(2))
    parts = {change: staged(keeper, deployment, place, change) for change in (one, other)}
    keeper.ask(CommitChange(change=other, parts=parts[other]))
    with pytest.raises(WriteConflict) as caught:
        keeper.ask(CommitChange(change=one, parts=parts[one]))
    assert caught.value.winner > 0
    assert rows_of(store) == [-3, 9]
    assert hidden(warehouse) == []
    assert open_agents() == []


def test_what_may_not_be_changed_is_refused_and_leaves_no_transaction(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    assert rows_of(store) == [1, 2, 3]
    with pytest.raises(NotFound, match="no column 'x'"):
        begun(keeper, place, assigns=("x",))
    make_table(deployment, warehouse, "only", database="db", transactional_properties="insert_only")
    with pytest.raises(NotSupported, match="not insert_only"):
        begun(keeper, place, "db.only")
    assert open_agents() == []


@pytest.mark.whole
def test_a_table_that_is_only_observed_is_not_changed(
    keeper: Keeper, place: MetastorePlace, store: Store, config: str
) -> None:
    assert rows_of(store) == [1, 2, 3]
    with Path(config).open("a") as file:
        file.write('[metastore.default.settings]\n"compactor.mode" = "observe"\n')
    with pytest.raises(Refused, match="observe"):
        begun(keeper, place)


def test_the_check_is_the_sites_where_the_statement_leaves_it_open(
    keeper: Keeper, place: MetastorePlace, store: Store, config: str
) -> None:
    assert rows_of(store) == [1, 2, 3]
    with Path(config).open("a") as file:
        file.write('[metastore.default.settings]\n"hive.merge.cardinality.check" = "false"\n')
    for asked, found in ((None, False), (True, True)):
        change = begun(keeper, place, is_checked=asked)
        assert change.is_checked is found
        assert keeper.ask(AbortChange(change=change.change)) is True


@pytest.mark.whole
def test_an_application_that_ends_between_write_and_commit_leaves_nothing(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    application: subprocess.Popen[bytes],
    folder: Folder,
    open_agents: Callable[[], list[str]],
) -> None:
    change = begun(keeper, place, **EVERYTHING)
    parts = staged(keeper, deployment, place, change.change)
    application.kill()
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    assert open_agents() == []
    assert hidden(warehouse) == []
    with pytest.raises(TransactionAborted, match="nothing was committed"):
        keeper.ask(CommitChange(change=change.change, parts=parts))
    assert rows_of(store) == [1, 2, 3]


@pytest.mark.whole
def test_a_keeper_that_was_paused_for_too_long_names_nothing(
    keeper: Keeper, place: MetastorePlace, store: Store, deployment: Site, warehouse: Path, folder: Folder
) -> None:
    """TABLES rule 4: a paused writer that wakes after its transaction was forgotten puts no row under a name."""
    change = begun(keeper, place, **EVERYTHING)
    parts = staged(keeper, deployment, place, change.change)
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        time_out_all(deployment)
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(TransactionAborted):
        keeper.ask(CommitChange(change=change.change, parts=parts))
    assert rows_of(store) == [1, 2, 3]
    assert hidden(warehouse) == []


@pytest.mark.whole
@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("step", list(WriteStep)[1:])
def test_a_keeper_that_dies_anywhere_in_a_commit_shows_all_or_nothing(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    step: WriteStep,
    is_partitioned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.create_table("db.parts", {"i": "bigint", "p": "int"}, partitioned_by=["p"]).append(
        pa.table({"i": [1, 2, 3], "p": [1, 2, 2]})
    )
    environment: Mapping[str, str] = {**keeper_client._keeper_environment(), "COMPACTOR_DIE_AT": step.name}
    monkeypatch.setattr(keeper_client, "_keeper_environment", lambda: environment)
    name = "parts" if is_partitioned else "t"
    change = begun(keeper, place, f"db.{name}", **EVERYTHING)
    parts = staged(keeper, deployment, place, change.change, f"db.{name}")
    if not is_partitioned and step is WriteStep.WRITE_PARTITIONS_ADDED:
        keeper.ask(CommitChange(change=change.change, parts=parts))
        return
    with pytest.raises(CommitUnknown, match="check whether the rows are there"):
        keeper.ask(CommitChange(change=change.change, parts=parts))
    is_committed = step is WriteStep.WRITE_COMMITTED
    assert rows_of(store, f"db.{name}") == ([-3, 9] if is_committed else [1, 2, 3])
    if is_committed:
        return
    time_out_and_sweep(deployment, name, {"i": [8], **({"p": [7]} if is_partitioned else {})})
    assert hidden(warehouse) == []
    assert list((warehouse / name).rglob("*delta_0000002_*")) == []
    assert rows_of(store, f"db.{name}") == [1, 2, 3, 8]
