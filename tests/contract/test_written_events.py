"""Hive's notification log is told of what programs write, where Hive keeps it, as Hive tells of its own statements."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import CompactorError, WriteConflict
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore
from compactor.metastore.notifications.write_events import Write
from compactor.state.state_database import OwnState
from compactor.tables.store import Store
from tests.contract.test_notifications import denied
from tests.support.followed import NEXT, ROW, follow, log, log_writes, message, next_numbers, set_next, types, written
from tests.support.programs import two_tables

U = Entity(database="default", table="u", partition=None)
START = ["OPEN_TXN", "ALLOC_WRITE_ID_EVENT"]


@pytest.fixture
def told(metastore: Metastore, state: OwnState, tmp_path: Path) -> Store:
    """The store of ``two_tables`` over a metastore whose Hive writes events."""
    return two_tables(follow(metastore), state, tmp_path)


def of_t(**columns: list[Any]) -> pa.Table:
    return pa.table({"a": [1], "b": ["x"], "p": [1]} | columns)


def of_u(*a: int) -> pa.Table:
    return pa.table({"a": list(a), "b": ["x"] * len(a)})


def body(event: dict[str, Any]) -> dict[str, Any]:
    """Returns what is of one type of event only."""
    return {
        key: value
        for key, value in message(event).items()
        if value is not None and key not in ("server", "servicePrincipal", "timestamp")
    }


@pytest.mark.usefixtures("hive4")
def test_an_append_is_told_from_its_write_id_to_its_commit(told: Store) -> None:
    metastore = told.site.metastore
    told.load_table("default.u").append(of_u(1))
    opened, allocated, committed = events = log(metastore)
    [txn] = body(allocated)["txnIdList"]
    assert types(events) == [*START, "COMMIT_TXN"]
    assert body(opened) == {"fromTxnId": txn, "toTxnId": txn}
    assert body(allocated) == {"dbName": "default", "tableName": "u", "txnIdList": [txn], "writeIdList": [1]}
    assert body(committed) == {"txnid": txn, "writeIds": [1], "databases": ["default"]}
    named = [(event["CAT_NAME"], event["DB_NAME"], event["TBL_NAME"]) for event in events]
    assert named == [(None, None, None), ("hive", "default", "u"), (None, None, None)]
    assert [(event["EVENT_ID"], event["NL_ID"]) for event in events] == [(NEXT + at, ROW + at) for at in range(3)]
    assert next_numbers(metastore) == (NEXT + 3, ROW + 3)
    assert written(metastore) == [], "Hive writes no such rows here"


@pytest.mark.usefixtures("hive4")
def test_write_ids_that_are_drawn_ahead_are_told_of_one_by_one(told: Store) -> None:
    metastore = told.site.metastore
    txns = metastore.transactions.open("u", "h", agent="mine", count=2)
    metastore.write_ids.allocate_all(txns, "default", "u")
    metastore.transactions.give_back(txns, "not used", agent="mine")
    events = log(metastore)
    assert types(events) == [*START, *START, "ABORT_TXN", "ABORT_TXN"]
    allocated = [body(event) for event in events if event["EVENT_TYPE"] == START[1]]
    assert [(one["txnIdList"], one["writeIdList"]) for one in allocated] == [([txns[0]], [1]), ([txns[1]], [2])]


@pytest.mark.usefixtures("hive4")
def test_new_partitions_are_told_of_with_their_objects(told: Store) -> None:
    table = told.load_table("default.t")
    table.append(of_t(a=[1, 2], b=["x", "y"], p=[1, 2]))
    events = log(told.site.metastore)
    assert types(events) == [*START, "ADD_PARTITION", "COMMIT_TXN"]
    added = body(events[2])
    assert [added[key] for key in ("db", "table", "tableType")] == ["default", "t", "MANAGED_TABLE"]
    assert added["partitions"] == [{"p": "1"}, {"p": "2"}]
    assert [one["partitionName"] for one in added["partitionFiles"]] == ["p=1", "p=2"]
    of_table = json.loads(added["tableObjJson"])
    assert of_table["1"] == {"str": "t"}
    assert of_table["8"] == {"lst": ["rec", 1, {"1": {"str": "p"}, "2": {"str": "int"}}]}
    assert of_table["7"]["rec"]["8"] == {"lst": ["str", 1, "a"]}
    catalog = told.site.metastore.catalog
    partitions = catalog.partitions(catalog.table("default", "t"))
    for partition, stored in zip(added["partitionListJson"], partitions, strict=True):
        fields = json.loads(partition)
        assert fields["1"] == {"lst": ["str", 1, *stored.values]}
        assert fields["6"]["rec"]["2"] == {"str": stored.location}
        assert fields["6"]["rec"]["1"] == of_table["7"]["rec"]["1"]
        assert fields["10"] == {"i64": 1}
    table.append(of_t())
    assert types(log(told.site.metastore)[4:]) == [*START, "COMMIT_TXN"], "it is there already"


@pytest.mark.usefixtures("hive4")
def test_rows_of_the_write_log_name_every_file(told: Store, tmp_path: Path) -> None:
    metastore = told.site.metastore
    log_writes(metastore)
    with told.transaction() as txn:
        txn.load_table("default.t").append(of_t(a=[1, 2, 3], b=["x", "y", "z"], p=[1, 1, 2]))
        txn.load_table("default.u").append(of_u(7))
        txn.load_table("default.u").append(of_u(8))
    events = log(metastore)
    assert types(events) == [*START, "ALLOC_WRITE_ID_EVENT", "ADD_PARTITION", "COMMIT_TXN"]
    assert body(events[-1])["writeIds"] == [1, 1]
    found = written(metastore)
    number = body(events[-1])["txnid"]
    assert [(row["WNL_ID"], row["WNL_TXNID"], row["WNL_WRITEID"]) for row in found] == [
        (5 + i, number, 1) for i in range(3)
    ]
    assert [(row["WNL_DATABASE"], row["WNL_TABLE"], row["WNL_PARTITION"]) for row in found] == [
        *(("default", "t", "p=1"), ("default", "t", "p=2"), ("default", "u", ""))
    ]
    for row in found:
        assert json.loads(row["WNL_TABLE_OBJ"])["1"] == {"str": row["WNL_TABLE"]}
        part = row["WNL_PARTITION_OBJ"]
        assert (part is None) == (row["WNL_TABLE"] == "u")
        assert part is None or json.loads(part)["1"]["lst"][2] == row["WNL_PARTITION"][2:]
        place = tmp_path / row["WNL_TABLE"] / row["WNL_PARTITION"]
        paths = {str(path) for path in place.glob("*/bucket_*")}
        files = [file.split("###") for file in row["WNL_FILES"].split("]")]
        assert {file for file, _ in files} == paths
        assert [Path(file).parent.name for file, _ in files] == [directory for _, directory in files]


@pytest.mark.usefixtures("hive4")
def test_an_overwrite_without_rows_has_its_row_too(told: Store) -> None:
    """By which others learn that the old rows are gone."""
    log_writes(told.site.metastore)
    told.load_table("default.u").append(of_u(1))
    told.load_table("default.u").overwrite(of_u())
    [_, row] = written(told.site.metastore)
    assert row["WNL_WRITEID"] == 2
    assert all(file.endswith("###base_0000002") for file in row["WNL_FILES"].split("]"))


@pytest.mark.usefixtures("hive4")
def test_who_only_reads_tells_nothing(told: Store) -> None:
    told.load_table("default.u").append(of_u(1))
    before = len(log(told.site.metastore))
    assert told.load_table("default.u").scan().to_arrow().num_rows == 1
    assert len(log(told.site.metastore)) == before


def failing_append(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.u").append(of_u(1))
        raise CompactorError("no")


@pytest.mark.usefixtures("hive4")
def test_an_abort_is_told_of(told: Store) -> None:
    """By what fails within the block, by a conflict, by a time-out, whoever notices it."""
    metastore = told.site.metastore
    with pytest.raises(CompactorError, match="no"):
        failing_append(told)
    events = log(metastore)
    assert types(events) == [*START, "ABORT_TXN"]
    [number] = body(events[1])["txnIdList"]
    assert body(events[2]) == {"txnid": number, "dbsUpdated": ["default"], "writeIds": [1]}

    [silent] = metastore.transactions.open("u", "h")
    metastore.write_ids.allocate(silent, "default", "u")
    [reader] = metastore.transactions.open("u", "h")
    assert set(metastore.transactions.time_out(-1)) == {silent, reader}
    assert types(log(metastore)[3:]) == [*START, "ABORT_TXN"]
    assert body(log(metastore)[-1])["txnid"] == silent


def commit_whole(metastore: Metastore, txn: TxnId) -> None:
    metastore.transactions.commit(txn)


def commit_naming(metastore: Metastore, txn: TxnId) -> None:
    with metastore.transactions.committing(txn, [Write(entity=U, write_id=WriteId(2), files={"d": ["f"]})]):
        pass


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("commit", [commit_whole, commit_naming], ids=lambda how: how.__name__)
def test_a_write_that_loses_is_told_of_as_aborted(told: Store, commit: Callable[[Metastore, TxnId], object]) -> None:
    metastore = told.site.metastore
    first, second = metastore.transactions.open("u", "h", count=2)
    for txn in (first, second):
        write_id = metastore.write_ids.allocate(txn, "default", "u")
        metastore.write_ids.add_component(txn, U, "u", write_id)
    metastore.transactions.commit(first)
    with pytest.raises(WriteConflict):
        commit(metastore, second)
    assert types(log(metastore)) == [*START, *START, "COMMIT_TXN", "ABORT_TXN"]
    assert body(log(metastore)[-1]) == {"txnid": second, "dbsUpdated": ["default"], "writeIds": [2]}


@pytest.mark.usefixtures("hive4")
def test_write_ids_are_told_of_in_their_order(told: Store) -> None:
    """Whoever replicates gives them to its own transactions one after the other; numbers of events have no gaps."""
    metastore = told.site.metastore
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda a: told.load_table("default.u").append(of_u(a)), range(12)))
    events = log(metastore)
    allocated = [body(event)["writeIdList"] for event in events if event["EVENT_TYPE"] == "ALLOC_WRITE_ID_EVENT"]
    assert allocated == [[number] for number in range(1, 13)]
    assert [event["EVENT_ID"] for event in events] == list(range(NEXT, NEXT + 36))


@pytest.mark.usefixtures("hive3")
def test_hive_3_is_told_nothing(told: Store) -> None:
    told.load_table("default.t").append(of_t())
    assert log(told.site.metastore) == []


@pytest.mark.usefixtures("hive4")
def test_a_hive_that_writes_no_events_gets_none(told: Store) -> None:
    set_next(told.site.metastore, 1)
    log_writes(told.site.metastore)
    told.load_table("default.t").append(of_t())
    assert log(told.site.metastore) == written(told.site.metastore) == []


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("where", ["notification_log.insert", "write_events.insert", "catalog_rows.select"])
def test_a_log_that_cannot_be_written_keeps_nothing_from_being_committed(
    told: Store, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writes(told.site.metastore)
    monkeypatch.setattr(f"compactor.metastore.notifications.{where}", partial(denied, where))
    table = told.load_table("default.t")
    assert table.append(of_t()) == 1
    assert table.append(of_t(a=[2])) == 1
    assert table.scan().count() == 2
    assert caplog.text.count(f"notification log is left as it is: OperationalError: no right: {where}") == 1
    assert written(told.site.metastore) == []
