"""The files that executors read, and what they import for it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds

from compactor.acid import txn_states
from compactor.base.errors import BadSetting, Refused
from compactor.site.site import Site
from compactor.spark_tables.data_source_options import parse_stream_options
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import Hold, LatestCommits, PlannedScan, SeenCommits
from compactor.spark_tables.reader import BatchPortion, Reader, ReadPortion, StreamReader, scan_schema
from compactor.spark_tables.spark_types import to_spark_schema
from compactor.tables import Store, Table
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_tasks import NOTHING
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction_block import transaction


@pytest.fixture
def scan(deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> PlannedScan:
    """A scan of rows in two partitions, whose snapshot nobody asks for."""
    monkeypatch.setattr(Keeper, "__init__", lambda self: None)
    monkeypatch.setattr(Keeper, "ask", lambda self, request: None)
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    made = {"i": "bigint", "x": "double", "c": "char(3)", "p": "int"}
    table = store.create_table("db.t", made, partitioned_by=["p"])
    table.append(pa.table({"i": [1, 2, 3], "x": [1.5, None, 2.5], "c": ["a", "b", "c"], "p": [1, 1, 2]}))
    with transaction(deployment) as txn:
        plan = plan_scan(txn, named_table(deployment, "db.t"), ScanRequest(row_filter="i <> 2", timestamps="us"))
    hold, stores = Hold(name="h", txn=plan.txn), deployment.storage.options
    return PlannedScan(hold=hold, plan=plan, stores=stores, table_id=1, padded=("c",))


def reader_of(scan: PlannedScan) -> Reader:
    return Reader(scan, to_spark_schema(scan.plan.schema), 1 << 20)


def reader_of_change(scan: PlannedScan) -> Reader:
    scan = replace(scan, has_files=True)
    return Reader(scan, to_spark_schema(scan_schema(scan)), 1 << 20)


def rows_of(reader: Reader, portions: list[ReadPortion]) -> list[int]:
    travelled = pickle.loads(pickle.dumps(reader))
    batches = [batch for one in portions for batch in travelled.read(pickle.loads(pickle.dumps(one)))]
    return [row["i"] for batch in batches for row in batch.to_pylist()]


def test_the_rows_of_a_scan_are_read_where_they_travelled_to(scan: PlannedScan) -> None:
    reader = reader_of(scan)
    assert rows_of(reader, reader.partitions()) == [1, 3]


def test_filters_leave_out_partitions_and_rows_and_are_all_left_to_spark(scan: PlannedScan) -> None:
    reader = reader_of_change(scan)
    filters = [ds.EqualTo(("p",), 1), ds.LessThan(("i",), 10), ds.EqualTo(("c",), "a"), ds.GreaterThan(("x",), 9.5)]
    assert list(reader.pushFilters(filters)) == filters
    portions = reader.partitions()
    assert [task.partition for one in portions for task in one.tasks] == ["p=1"]
    assert rows_of(reader, portions) == [1]


def test_a_decimal_on_an_integer_is_compared_exactly(scan: PlannedScan) -> None:
    reader = reader_of_change(scan)
    reader.pushFilters([ds.GreaterThan(("i",), Decimal("1.5"))])
    assert rows_of(reader, reader.partitions()) == [3]


def test_no_partition_is_one_empty_portion(scan: PlannedScan) -> None:
    reader = reader_of_change(scan)
    reader.pushFilters([ds.EqualTo(("p",), 7)])
    portions = reader.partitions()
    assert len(portions) == 1
    assert rows_of(reader, portions) == []


def test_a_frame_that_may_be_scanned_again_takes_no_filter(scan: PlannedScan) -> None:
    """PROTOCOL 13.7."""
    reader = reader_of(scan)
    filters = [ds.EqualTo(("p",), 7)]
    assert list(reader.pushFilters(filters)) == filters
    assert rows_of(reader, reader.partitions()) == [1, 3]


def test_a_spark_that_pushes_no_filters_does_not_mind(scan: PlannedScan) -> None:
    for reader in (reader_of(scan), reader_of_change(scan)):
        assert getattr(reader.pushFilters, "__func__", None) is ds.DataSourceReader.pushFilters


def test_executors_import_no_sql() -> None:
    code = (
        "import sys, compactor.spark_tables, compactor.spark_tables.reader, compactor.spark_tables.writer\n"
        "sql = ('compactor.metastore', 'compactor.state', 'compactor.database', 'compactor.site', 'sqlalchemy')\n"
        "print([name for name in sys.modules if f'{name}.'.startswith(tuple(f'{one}.' for one in sql))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_short_processes_of_the_driver_import_nothing_that_reads_or_writes_files() -> None:
    """Spark starts one for each plan, and waits for it."""
    heavy = ("compactor.orc.codecs.pyorc_codec", "compactor.storage.stores", "pyorc", "isal", "fsspec")
    code = f"import sys, compactor.spark_tables; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


SCHEMA = to_spark_schema(pa.schema({"i": pa.int64()}))


@pytest.fixture
def dispatcher(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dispatcher]:
    with Dispatcher() as found:
        monkeypatch.setattr(Dispatcher, "_site", lambda self, place: deployment)
        monkeypatch.setattr(Keeper, "__init__", lambda self: None)
        monkeypatch.setattr(Keeper, "ask", lambda self, request: found.answer(request))
        yield found


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    made = store.create_table("db.t", {"i": "bigint", "s": "string"})
    made.append(pa.table({"i": [1, 2], "s": ["a", "b"]}))
    return made


def reader(**options: str) -> StreamReader:
    asked = parse_stream_options({"table": "db.t", "columns": "i", **options}, "app")
    now: SeenCommits = Keeper().ask(LatestCommits(place=asked.request.place, table="db.t"))
    return StreamReader(asked, SCHEMA, now.table_id)


def stream_rows_of(found: StreamReader, portions: list[BatchPortion]) -> list[int]:
    travelled = pickle.loads(pickle.dumps(found))
    batches = [batch for one in portions for batch in travelled.read(pickle.loads(pickle.dumps(one)))]
    return sorted(row["i"] for batch in batches for row in batch.to_pylist())


@pytest.mark.usefixtures("dispatcher")
def test_batches_follow_one_another(table: Table) -> None:
    found = reader()
    start, first = found.initialOffset(), found.latestOffset()
    assert stream_rows_of(found, found.partitions(start, first)) == [1, 2]
    table.append(pa.table({"i": [3], "s": ["c"]}))
    second = found.latestOffset()
    assert stream_rows_of(found, found.partitions(first, second)) == [3]
    assert found.partitions(second, second) == []
    assert reader(starting="latest").initialOffset() == second


@pytest.mark.usefixtures("table")
def test_one_snapshot_is_held_at_a_time(deployment: Site, dispatcher: Dispatcher) -> None:
    def held() -> int:
        return sum(txn.state == txn_states.OPEN for txn in deployment.metastore.transactions.unfinished())

    found = reader()
    start, end = found.initialOffset(), found.latestOffset()
    for _ in range(2):
        found.partitions(start, end)
        assert held() == 1
    found.commit(end)
    assert held() == 0
    found.partitions(start, end)
    dispatcher.release_lost()
    assert held() == 1  # the process that reads it is this one


@pytest.mark.usefixtures("dispatcher")
def test_a_table_that_was_made_anew_since_it_was_loaded_is_refused(table: Table, deployment: Site) -> None:
    """PROTOCOL 14.23."""
    before = reader()
    store = Store(deployment)
    store.drop_table("db.t", purge=True)
    store.create_table("db.t", {"s": "string", "i": "bigint"})
    for ask in (before.initialOffset, before.latestOffset):
        with pytest.raises(Refused, match=r"db\.t: the table that was loaded has id \d+, .* re-created; load it again"):
            ask()
    now = reader().latestOffset()
    with pytest.raises(Refused, match="re-created"):
        before.partitions({**now, "write_ids": str(NOTHING)}, now)


@pytest.mark.usefixtures("dispatcher")
@pytest.mark.usefixtures("table")
def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(BadSetting, match="starting is 'noon'; expected earliest or latest"):
        reader(starting="noon")
