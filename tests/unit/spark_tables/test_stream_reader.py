"""Offsets and batches of a table that is read as a stream, with the keeper's desk in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.errors import BadSetting
from compactor.metastore.transactions.rows import OPEN
from compactor.service.site import Site
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.keeper.desk import Desk
from compactor.spark_tables.options import stream_options
from compactor.spark_tables.spark_types import spark_schema
from compactor.spark_tables.stream_reader import PortionOfBatch, StreamReader
from compactor.tables import Store, Table

SCHEMA = spark_schema(pa.schema({"i": pa.int64()}))


@pytest.fixture(autouse=True)
def desk(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with Desk() as found:
        monkeypatch.setattr(Desk, "_site", lambda self, place: deployment)
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
    return StreamReader(stream_options({"table": "db.t", "columns": "i", **options}, "app"), SCHEMA)


def rows_of(found: StreamReader, portions: list[PortionOfBatch]) -> list[int]:
    travelled = pickle.loads(pickle.dumps(found))
    batches = [batch for one in portions for batch in travelled.read(pickle.loads(pickle.dumps(one)))]
    return sorted(row["i"] for batch in batches for row in batch.to_pylist())


def test_batches_follow_one_another(table: Table) -> None:
    found = reader()
    start, first = found.initialOffset(), found.latestOffset()
    assert rows_of(found, found.partitions(start, first)) == [1, 2]
    table.append(pa.table({"i": [3], "s": ["c"]}))
    second = found.latestOffset()
    assert rows_of(found, found.partitions(first, second)) == [3]
    assert found.partitions(second, second) == []
    assert reader(starting="latest").initialOffset() == second


@pytest.mark.usefixtures("table")
def test_one_snapshot_is_held_at_a_time(deployment: Site, desk: Desk) -> None:
    def held() -> int:
        return sum(txn.state == OPEN for txn in deployment.metastore.transactions.unfinished())

    found = reader()
    start, end = found.initialOffset(), found.latestOffset()
    for _ in range(2):
        found.partitions(start, end)
        assert held() == 1
    found.commit(end)
    assert held() == 0
    found.partitions(start, end)
    desk.let_go_of_lost()
    assert held() == 1  # the process that reads it is this one


@pytest.mark.usefixtures("table")
def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(BadSetting, match="starting is 'noon'; wanted earliest or latest"):
        reader(starting="noon")
