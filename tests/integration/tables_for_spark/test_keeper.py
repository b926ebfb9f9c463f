"""A keeper holds transactions for processes that come and go, and ends by itself."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotFound, SnapshotExpired, StorageError
from compactor.rewrite.run.failure import Failure
from compactor.site.site import Site
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import (
    CheckSnapshot,
    MetastorePlace,
    OpenSnapshot,
    PlannedScan,
    PlanScan,
    Release,
    Taken,
)
from compactor.spark_tables.local_socket import LONGEST, connect
from compactor.spark_tables.message_bytes import decode, encode
from compactor.tables import Store
from compactor.tables.reading.scan_task_reader import read_task
from tests.integration.tables_for_spark.conftest import keeper_of
from tests.support.patience import until
from tests.support.sizes import sized


def rows_of(scan: PlannedScan, site: Site) -> list[int]:
    batches = [batch for task in scan.plan.tasks for batch in read_task(scan.plan, task, site.storage)]
    return [row["i"] for batch in batches for row in batch.to_pylist()]


@pytest.mark.usefixtures("store")
def test_a_snapshot_outlives_the_process_that_asked_and_names_its_application(
    keeper: Keeper, place: MetastorePlace, folder: Folder, open_agents: Callable[[], list[str]]
) -> None:
    scan = keeper.ask(PlanScan(place=place, table="db.t"))
    keeper.ask(CheckSnapshot(hold=scan.hold))
    [agent] = open_agents()
    assert agent.startswith("compactor-app-7-")
    assert f"transaction {scan.plan.txn} is held for app-7" in folder.log.read_text()


@pytest.mark.whole
def test_scans_of_one_snapshot_see_the_same_rows(
    keeper: Keeper, place: MetastorePlace, store: Store, deployment: Site, open_agents: Callable[[], list[str]]
) -> None:
    name = keeper.ask(OpenSnapshot(place=place))
    first = keeper.ask(PlanScan(place=place, table="db.t", snapshot=name))
    store.load_table("db.t").append(pa.table({"i": [4]}))
    second = keeper.ask(PlanScan(place=place, table="db.t", columns=("i",), row_filter="i > 1", snapshot=name))
    anew = keeper.ask(PlanScan(place=place, table="db.t"))
    assert rows_of(first, deployment) == [1, 2, 3]
    assert rows_of(second, deployment) == [2, 3]
    assert rows_of(anew, deployment) == [1, 2, 3, 4]
    assert second.plan.txn == first.plan.txn
    assert keeper.ask(Release(snapshot=name)) == 1
    assert len(open_agents()) == 1
    with pytest.raises(SnapshotExpired, match="released or lost"):
        keeper.ask(PlanScan(place=place, table="db.t", snapshot=name))
    with pytest.raises(SnapshotExpired, match="was released or lost"):
        keeper.ask(CheckSnapshot(hold=first.hold))
    assert keeper.ask(Release()) == 1
    assert open_agents() == []


@pytest.mark.whole
@pytest.mark.usefixtures("store")
def test_an_error_comes_back_as_what_it_is_and_leaves_no_transaction(
    keeper: Keeper, place: MetastorePlace, open_agents: Callable[[], list[str]]
) -> None:
    with pytest.raises(NotFound, match=r"db\.none"):
        keeper.ask(PlanScan(place=place, table="db.none"))
    assert open_agents() == []


@pytest.mark.usefixtures("store")
def test_a_keeper_ends_with_its_application_and_lets_go_of_everything(
    keeper: Keeper,
    place: MetastorePlace,
    application: subprocess.Popen[bytes],
    folder: Folder,
    open_agents: Callable[[], list[str]],
) -> None:
    keeper.ask(PlanScan(place=place, table="db.t"))
    assert len(open_agents()) == 1
    application.kill()
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    assert open_agents() == []
    assert "the application has ended" in folder.log.read_text()


@pytest.mark.usefixtures("store")
def test_whatever_bytes_come_a_keeper_goes_on_and_takes_no_memory_for_them(
    keeper: Keeper, place: MetastorePlace, folder: Folder
) -> None:
    scan = keeper.ask(PlanScan(place=place, table="db.t"))
    pid = keeper_of(folder)
    before = peak_memory(pid)
    rng = random.Random(7)
    whole = encode(PlanScan(place=place, table="db.t"))
    for number in range(sized(short=100, whole=3000)):
        noise = rng.randbytes(rng.randrange(60))
        damaged = bytearray(whole)
        damaged[rng.randrange(2, len(damaged))] ^= 1 << rng.randrange(8)
        with connect(folder.socket) as connection:
            connection.send((noise, whole[: len(noise)], bytes(damaged))[number % 3])
            with suppress(EOFError, ConnectionResetError):
                decode(connection.receive(), [Failure, Taken])
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(folder.socket))
            raw.sendall(struct.pack("!Q", (LONGEST, LONGEST + 1, 2**64 - 1)[number % 3]) + noise)
    keeper.ask(CheckSnapshot(hold=scan.hold))
    assert keeper_of(folder) == pid
    assert peak_memory(pid) - before < 64 << 20


def peak_memory(pid: int | None) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


@pytest.mark.usefixtures("store")
def test_what_a_killed_keeper_held_is_expired_and_is_not_looked_at_again(
    keeper: Keeper, place: MetastorePlace, folder: Folder
) -> None:
    name = keeper.ask(OpenSnapshot(place=place))
    scan = keeper.ask(PlanScan(place=place, table="db.t", snapshot=name))
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    with pytest.raises(SnapshotExpired, match="its keeper is gone"):
        keeper.ask(CheckSnapshot(hold=scan.hold))
    assert keeper.ask(Release(snapshot=name)) == 0
    with pytest.raises(SnapshotExpired, match="released or lost"):  # another keeper, which knows nothing of it
        keeper.ask(PlanScan(place=place, table="db.t", snapshot=name))
    keeper.ask(PlanScan(place=place, table="db.t"))


@pytest.mark.whole
@pytest.mark.usefixtures("store")
def test_processes_that_ask_at_once_start_one_keeper(keeper: Keeper, place: MetastorePlace, folder: Folder) -> None:
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: keeper.ask(PlanScan(place=place, table="db.t")), range(6)))
    assert len({scan.plan.txn for scan in found}) == 6
    assert folder.log.read_text().count("is ready") == 1


@pytest.mark.whole
@pytest.mark.usefixtures("store")
def test_a_snapshot_that_is_too_old_is_let_go(
    keeper: Keeper, place: MetastorePlace, config: str, open_agents: Callable[[], list[str]]
) -> None:
    with Path(config).open("a") as file:
        file.write('[metastore.default.settings]\n"compactor.read.max.age" = "1s"\n')
    scan = keeper.ask(PlanScan(place=place, table="db.t"))
    until("the end of its transaction", lambda: open_agents() == [])
    with pytest.raises(SnapshotExpired):
        keeper.ask(CheckSnapshot(hold=scan.hold))


def test_a_keeper_that_cannot_start_says_where_its_log_is(
    keeper: Keeper, place: MetastorePlace, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compactor.spark_tables.keeper_client._ENTRY", "compactor.spark_tables.nothing")
    with pytest.raises(StorageError, match=str(folder.log)):
        keeper.ask(PlanScan(place=place, table="db.t"))
    folder.log.unlink()
