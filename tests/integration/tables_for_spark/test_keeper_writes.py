"""A write begins in one process, is staged in others and commits in a third; a keeper that dies leaves nothing visible."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import CommitUnknown, LockNotGranted, NotSupported, Refused, TransactionAborted
from compactor.base.steps import WriteStep
from compactor.site.site import Site
from compactor.spark_tables import keeper_client
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import (
    AbortWrite,
    BeginWrite,
    BegunWrite,
    CommitWrite,
    Creation,
    MetastorePlace,
)
from compactor.tables import Store, open_metastore
from compactor.tables.writing.part_files import write_part
from compactor.tables.writing.writer_messages import WrittenPart
from tests.integration.tables_for_spark.conftest import hidden, keeper_of, rows_of, time_out_and_sweep
from tests.support.patience import until


def begun(keeper: Keeper, place: MetastorePlace, table: str = "db.t", **more: Any) -> BegunWrite:
    found = keeper.ask(BeginWrite(place=place, table=table, **{"overwrite": False, **more}))
    assert isinstance(found, BegunWrite)
    return found


def staged(write: BegunWrite, site: Site, *values: int, writer: int = 0, **more: list[Any]) -> tuple[WrittenPart, ...]:
    return write_part(write.work, [pa.record_batch({"i": list(values), **more})], writer, site.storage)


def test_a_write_is_committed_by_another_process_once(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    write = begun(keeper, place)
    [agent] = open_agents()
    assert agent.startswith("compactor-app-7-")
    parts = (*staged(write, deployment, 4, 5), *staged(write, deployment, 6, writer=1))
    staged(write, deployment, 4, 5)  # an attempt that Spark tells nobody of
    assert rows_of(store) == [1, 2, 3]
    assert keeper.ask(CommitWrite(hold=write.hold, parts=parts)) == 3
    assert rows_of(store) == [1, 2, 3, 4, 5, 6]
    assert hidden(warehouse) == []
    with pytest.raises(TransactionAborted, match="no longer held"):
        keeper.ask(CommitWrite(hold=write.hold, parts=parts))
    assert keeper.ask(AbortWrite(hold=write.hold)) is False
    assert rows_of(store) == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def other(config: str, empty_metastore: Path, tmp_path: Path) -> Iterator[Store]:
    """Another metastore of the same configuration, ``other``, with ``db.t(i bigint, s string)`` and three rows."""
    database, warehouse = tmp_path / "other.db", tmp_path / "other"
    shutil.copy(empty_metastore, database)
    warehouse.mkdir()
    with Path(config).open("a") as file:
        file.write(f'[metastore.other]\nurl = "sqlite:///{database}"\n')
    with open_metastore("other", config_path=config) as found:
        found.create_database("db", str(warehouse))
        found.create_table("db.t", {"i": "bigint", "s": "string"}).append(pa.table({"i": [7, 8, 9]}))
        yield found


def test_writes_in_two_metastores_are_told_apart_where_their_transactions_have_one_number(
    keeper: Keeper, place: MetastorePlace, store: Store, other: Store, deployment: Site
) -> None:
    first = begun(keeper, place)
    second = begun(keeper, replace(place, metastore="other"))
    assert first.hold.txn == second.hold.txn
    assert keeper.ask(CommitWrite(hold=first.hold, parts=staged(first, deployment, 4))) == 1
    assert rows_of(store) == [1, 2, 3, 4]
    assert keeper.ask(AbortWrite(hold=first.hold)) is False
    assert keeper.ask(CommitWrite(hold=second.hold, parts=staged(second, deployment, 10, 11))) == 2
    assert rows_of(other) == [7, 8, 9, 10, 11]
    assert rows_of(store) == [1, 2, 3, 4]


def test_an_aborted_write_leaves_nothing(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    write = begun(keeper, place, overwrite=True)
    staged(write, deployment, 4)
    assert keeper.ask(AbortWrite(hold=write.hold)) is True
    assert rows_of(store) == [1, 2, 3]
    assert hidden(warehouse) == []
    assert open_agents() == []


@pytest.mark.whole
def test_what_cannot_be_written_is_refused_and_leaves_no_transaction(
    keeper: Keeper, place: MetastorePlace, store: Store, config: str, open_agents: Callable[[], list[str]]
) -> None:
    with Path(config).open("a") as file:
        file.write('[metastore.default.settings]\n"compactor.mode" = "observe"\n')
    with pytest.raises((Refused, NotSupported), match="observe"):
        begun(keeper, place)
    assert open_agents() == []


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
    write = begun(keeper, place)
    parts = staged(write, deployment, 4)
    application.kill()
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    assert open_agents() == []
    assert hidden(warehouse) == []
    with pytest.raises(TransactionAborted, match="nothing was committed"):
        keeper.ask(CommitWrite(hold=write.hold, parts=parts))
    assert rows_of(store) == [1, 2, 3]


def test_a_keeper_that_is_killed_before_the_commit_leaves_what_roles_sweep(
    keeper: Keeper, place: MetastorePlace, store: Store, deployment: Site, warehouse: Path, folder: Folder
) -> None:
    store.create_table("db.parts", {"i": "bigint", "p": "int"}, partitioned_by=["p"])
    write = begun(keeper, place, "db.parts")
    parts = staged(write, deployment, 4, p=[1])
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    with pytest.raises(TransactionAborted, match="nothing was committed"):
        keeper.ask(CommitWrite(hold=write.hold, parts=parts))
    assert keeper.ask(AbortWrite(hold=write.hold)) == 0
    time_out_and_sweep(deployment, "parts", {"i": [9], "p": [1]})
    assert hidden(warehouse) == []
    assert rows_of(store, "db.parts") == [9]


@pytest.mark.whole
def test_a_keeper_that_was_paused_past_its_time_out_names_nothing(
    keeper: Keeper, place: MetastorePlace, store: Store, deployment: Site, warehouse: Path, folder: Folder
) -> None:
    """PROTOCOL 14.1: its transaction was timed out, swept and forgotten while it was suspended."""
    write = begun(keeper, place)
    parts = staged(write, deployment, 4)
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        time_out_and_sweep(deployment, "t", {"i": [9]})
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(TransactionAborted):
        keeper.ask(CommitWrite(hold=write.hold, parts=parts))
    assert rows_of(store) == [1, 2, 3, 9]
    assert hidden(warehouse) == []
    assert list((warehouse / "t").rglob(f"delta_{write.work.write_id:07d}_*")) == []


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
    store.create_table("db.parts", {"i": "bigint", "p": "int"}, partitioned_by=["p"])
    environment: Mapping[str, str] = {**keeper_client._keeper_environment(), "COMPACTOR_DIE_AT": step.name}
    monkeypatch.setattr(keeper_client, "_keeper_environment", lambda: environment)
    name, before, more = ("parts", [], {"p": [1]}) if is_partitioned else ("t", [1, 2, 3], {})
    write = begun(keeper, place, f"db.{name}")
    parts = (*staged(write, deployment, 4, **more), *staged(write, deployment, 5, writer=1, **more))
    is_reached = is_partitioned or step is not WriteStep.WRITE_PARTITIONS_ADDED
    if not is_reached:
        assert keeper.ask(CommitWrite(hold=write.hold, parts=parts)) == 2
        return
    with pytest.raises(CommitUnknown, match="check whether the rows are there"):
        keeper.ask(CommitWrite(hold=write.hold, parts=parts))
    is_committed = step is WriteStep.WRITE_COMMITTED
    assert rows_of(store, f"db.{name}") == ([*before, 4, 5] if is_committed else before)
    if is_committed:
        return
    time_out_and_sweep(deployment, name, {"i": [9], **more})
    assert hidden(warehouse) == []
    assert list((warehouse / name).rglob(f"delta_{write.work.write_id:07d}_*")) == []
    assert rows_of(store, f"db.{name}") == [*before, 9]


def test_a_table_that_a_write_creates_comes_with_its_commit(
    keeper: Keeper,
    place: MetastorePlace,
    store: Store,
    deployment: Site,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
    config: str,
) -> None:
    with Path(config).open("a") as file:
        file.write('[metastore.default.settings]\n"compactor.lock.wait" = "0s"\n')
    wanted = Creation(columns=(("i", "bigint"), ("k", "string")), partitioned_by=("k",))
    write = begun(keeper, place, table="db.new", creates=wanted)
    parts = write_part(write.work, [pa.record_batch({"i": [1, 2], "k": ["a", "b"]})], 0, deployment.storage)
    assert not deployment.metastore.catalog.is_known("db", "new")
    with pytest.raises(LockNotGranted):
        begun(keeper, place, table="db.new", creates=wanted)
    assert keeper.ask(CommitWrite(hold=write.hold, parts=parts)) == 2
    assert rows_of(store, "db.new") == [1, 2]
    assert store.load_table("db.new").partitions == ("k=a", "k=b")
    with pytest.raises(Refused, match="exists already"):
        begun(keeper, place, table="db.new", creates=wanted)
    lost = begun(keeper, place, table="db.other", creates=wanted)
    staged(lost, deployment, 1, k=["a"])
    assert keeper.ask(AbortWrite(hold=lost.hold)) is True
    assert not deployment.metastore.catalog.is_known("db", "other")
    assert hidden(warehouse) == []
    assert open_agents() == []
