"""Offsets and batches of a table that is read as a stream, with the keeper's dispatcher in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid import txn_states
from compactor.base.errors import BadSetting, Refused
from compactor.site.site import Site
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import parse_stream_options
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.messages import LatestCommits, SeenCommits
from compactor.spark_tables.spark_types import to_spark_schema
from compactor.spark_tables.stream_reader import BatchPortion, StreamReader
from compactor.tables import Store, Table
from compactor.tables.reading.later_rows import NOTHING

SCHEMA = to_spark_schema(pa.schema({"i": pa.int64()}))


@pytest.fixture(autouse=True)
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


def rows_of(found: StreamReader, portions: list[BatchPortion]) -> list[int]:
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


@pytest.mark.usefixtures("table")
def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(BadSetting, match="starting is 'noon'; expected earliest or latest"):
        reader(starting="noon")
