from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.base.errors import BadExpression, NotConforming, NotFound, NotSupported, Refused, WriteConflict
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.catalog.values import Table as TableValue
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.writing.changes import (
    PLACE,
    Upserted,
    find_key_columns,
    has_null,
    make_comparable,
    match_keys,
    number_keys,
)
from compactor.tables.writing.mutation import Mutation
from tests.support.passes import clean_all, compact
from tests.support.patience import until
from tests.support.sizes import sized
from tests.support.tables import make_table, with_settings


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_lock_sleep_between_retries="20ms")
    make_table(site, warehouse)
    return Store(site)


@pytest.fixture
def filled(store: Store) -> Store:
    store.load_table("default.t").append(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}))
    store.load_table("default.t").append(pa.table({"a": [4, 5], "b": ["x", "z"]}))
    return store


def rows_of(store: Store, name: str = "default.t") -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(row.values()) for row in store.load_table(name).scan().to_arrow().to_pylist()),
        key=lambda row: tuple((value is None, value) for value in row),
    )


def test_rows_are_deleted_by_a_condition(filled: Store, warehouse: Path) -> None:
    assert filled.load_table("default.t").delete("b = 'x' OR a = 5") == 3
    assert rows_of(filled) == [(2, "y"), (3, None)]
    assert sorted(path.name for path in (warehouse / "t").glob("delete*")) == ["delete_delta_0000003_0000003_0000"]


def test_nothing_that_is_found_writes_nothing(filled: Store, warehouse: Path) -> None:
    before = sorted(warehouse.rglob("*"))
    assert filled.load_table("default.t").delete("a > 99") == 0
    assert filled.load_table("default.t").update({"b": "'q'"}, "a > 99") == 0
    assert sorted(warehouse.rglob("*")) == before


def test_without_a_condition_all_rows_go(filled: Store) -> None:
    assert filled.load_table("default.t").delete() == 5
    assert rows_of(filled) == []


def test_rows_are_updated(filled: Store) -> None:
    table = filled.load_table("default.t")
    assert table.update({"b": "'new'"}, where="a >= 4") == 2
    assert table.update({"A": "7", "b": "NULL"}, where="a = 1") == 1
    assert rows_of(filled) == [(2, "y"), (3, None), (4, "new"), (5, "new"), (7, None)]


def test_compactions_keep_what_was_changed(filled: Store) -> None:
    table = filled.load_table("default.t")
    table.delete("a = 2")
    table.update({"b": "'u'"}, "a = 3")
    table.upsert(pa.table({"a": [4, 9], "b": ["v", "w"]}), ["a"])
    wanted = rows_of(filled)
    for kind in ("minor", "major"):
        compact(filled.site, kind)
        clean_all(filled.site)
        assert rows_of(filled) == wanted
    assert wanted == [(1, "x"), (3, "u"), (4, "v"), (5, "z"), (9, "w")]


def test_a_transaction_changes_what_it_has_written(filled: Store) -> None:
    with filled.transaction() as txn:
        table = txn.load_table("default.t")
        table.append(pa.table({"a": [6], "b": ["x"]}))
        assert table.update({"b": "'mine'"}, "b = 'x'") == 3
        assert table.delete("a = 6") == 1
        assert table.upsert(pa.table({"a": [1, 6], "b": ["p", "q"]}), ["a"]) == Upserted(updated=1, inserted=1)
        seen = sorted(table.scan().to_arrow().column("a").to_pylist())
    assert seen == [1, 2, 3, 4, 5, 6]
    assert rows_of(filled) == [(1, "p"), (2, "y"), (3, None), (4, "mine"), (5, "z"), (6, "q")]


def test_upsert_replaces_and_adds(filled: Store) -> None:
    source = pa.table({"b": ["new", "added"], "a": [2, 8]})
    assert filled.load_table("default.t").upsert(source, ["A"]) == Upserted(updated=1, inserted=1)
    assert rows_of(filled) == [(1, "x"), (2, "new"), (3, None), (4, "x"), (5, "z"), (8, "added")]


def read_from(*batches: pa.RecordBatch, columns: tuple[str, str] = ("a", "b")) -> pa.RecordBatchReader:
    schema = pa.schema([(columns[0], pa.int32()), (columns[1], pa.string())])
    return pa.RecordBatchReader.from_batches(schema, iter(batches))


WITHOUT_BATCHES: dict[str, Callable[[Table, pa.RecordBatchReader], object]] = {
    "append": lambda table, rows: table.append(rows),
    "upsert": lambda table, rows: table.upsert(rows, ["a"]),
    "insert": lambda table, rows: mutated(table, lambda mutation: mutation.insert(rows)),
    "update": lambda table, rows: mutated(table, lambda mutation: mutation.update(rows)),
    "delete": lambda table, rows: mutated(table, lambda mutation: mutation.delete(rows)),
    "stream": lambda table, rows: streamed(table, rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
}


def mutated(table: Table, act: Callable[[Mutation], int]) -> int:
    with table.mutate(key=["a"]) as mutation:
        return act(mutation)


def streamed(table: Table, rows: pa.RecordBatchReader) -> int:
    with table.stream() as stream:
        return stream.write(rows)


def test_a_reader_without_batches_is_one_without_rows_at_every_door(filled: Store) -> None:
    table, before = filled.load_table("default.t"), rows_of(filled)
    for name, write in WITHOUT_BATCHES.items():
        assert write(table, read_from()) in (0, Upserted(updated=0, inserted=0))
        assert rows_of(filled) == ([] if name == "overwrite" else before), name


def test_the_columns_of_a_reader_without_batches_are_looked_at(filled: Store) -> None:
    table = filled.load_table("default.t")
    for name, write in WITHOUT_BATCHES.items():
        with pytest.raises((NotConforming, NotFound), match="column"):
            write(table, read_from(columns=("z", "y")))
        assert rows_of(filled), name


def test_a_key_of_several_columns_with_null_equals_nothing(filled: Store) -> None:
    source = pa.table({"a": [3, 4], "b": [None, "x"]})
    assert filled.load_table("default.t").upsert(source, ["a", "b"]) == Upserted(updated=1, inserted=1)
    assert rows_of(filled).count((3, None)) == 2


@pytest.mark.parametrize(
    ("source", "key", "error", "message"),
    [
        ({"a": [1, 1]}, ["a"], NotConforming, r"two of the rows have the key \{'a': 1\}"),
        ({"a": [1]}, [], Refused, "join_cols is empty"),
        ({"a": [1]}, ["z"], NotFound, "no column 'z'"),
    ],
)
def test_an_upsert_that_is_not_clear_is_refused(
    filled: Store, source: dict[str, list[int]], key: list[str], error: type[Exception], message: str
) -> None:
    before = rows_of(filled)
    with pytest.raises(error, match=message):
        filled.load_table("default.t").upsert(pa.table(source), key)
    assert rows_of(filled) == before


@pytest.mark.parametrize(
    ("assignments", "error", "message"),
    [
        ({"z": "1"}, NotFound, "no column 'z'"),
        ({"a": "z"}, NotFound, "no column 'z'"),
        ({"a": "1", "A": "2"}, Refused, "column a is assigned twice"),
        ({}, Refused, "no column is assigned"),
        ({"a": "'text'"}, NotConforming, "column a"),
        ({"a": "1.5"}, NotConforming, "column a"),
        ({"a": "1 or 2"}, BadExpression, "expected a literal"),
    ],
)
def test_an_update_that_is_not_clear_is_refused(
    filled: Store, assignments: dict[str, str], error: type[Exception], message: str
) -> None:
    before = rows_of(filled)
    with pytest.raises(error, match=message):
        filled.load_table("default.t").update(assignments)
    assert rows_of(filled) == before


def test_partitioned_and_bucketed_tables_change(store: Store, warehouse: Path) -> None:
    location = warehouse / "p"
    location.mkdir()
    table = store.site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "p",
            str(location),
            [Column(name="k", type="string"), Column(name="v", type="decimal(6,2)"), Column(name="at", type="date")],
            partition_keys=[Column(name="day", type="int")],
            parameters={"transactional": "true", "bucketing_version": "2"},
            buckets=3,
            bucket_columns=["k"],
        )
    )
    for day in ("1", "2"):
        Path(store.site.metastore.embedded_catalog.add_partition(table, [day]).location).mkdir(parents=True)
    loaded = store.load_table("default.p")
    keys = [f"k{n}" for n in range(12)]
    loaded.append(pa.table({"k": keys, "v": [1] * 12, "at": [None] * 12, "day": [1, 2] * 6}))
    assert loaded.update({"v": "2.5", "at": "'2026-11-24'"}, "day = 2 and k < 'k5'") == 3
    assert loaded.delete("k = 'k0'") == 1
    assert loaded.upsert(pa.table({"k": ["k1"], "v": [9], "day": [1]}), ["k"]) == Upserted(updated=1, inserted=0)
    found = {row["k"]: row for row in loaded.scan().to_arrow().to_pylist()}
    assert len(found) == 11
    assert found["k1"] == {"k": "k1", "v": Decimal("9.00"), "at": None, "day": 1}
    assert found["k3"] == {"k": "k3", "v": Decimal("2.50"), "at": date(2026, 11, 24), "day": 2}
    for name, what in (("day", "partition"), ("K", "bucketing")):
        with pytest.raises(NotSupported, match=f"{what} column"):
            loaded.update({name: "1"})


def test_a_writer_that_waited_begins_again_and_sees_what_was_written_meanwhile(filled: Store) -> None:
    """PROTOCOL 14.2: it could not see that, and would always lose at its end."""
    with filled.transaction() as holder:
        raw: Transaction = holder._txn
        raw.lock_for_changes(filled.site.metastore.catalog.table("default", "t"), [None], LockType.EXCL_WRITE)
        counts: list[int] = []
        waiting = threading.Thread(target=lambda: counts.append(filled.load_table("default.t").delete("b = 'x'")))
        waiting.start()
        until("it waits for the lock", lambda: len(filled.site.metastore.locks.show()) > 1)
        holder.load_table("default.t").append(pa.table({"a": [6], "b": ["x"]}))
    waiting.join()
    assert counts == [3]
    assert rows_of(filled) == [(2, "y"), (3, None), (5, "z")]


def test_two_upserts_of_one_key_leave_one_row(filled: Store) -> None:
    """PROTOCOL 14.2: with locks that both may have, there were two."""
    outcomes: list[Upserted] = []

    def put(text: str) -> None:
        outcomes.append(filled.load_table("default.t").upsert(pa.table({"a": [77], "b": [text]}), ["a"]))

    threads = [threading.Thread(target=put, args=(text,)) for text in "pqrs"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.inserted for one in outcomes) == [0, 0, 0, 1]
    assert [row[0] for row in rows_of(filled)].count(77) == 1


def test_one_that_has_read_does_not_begin_again(filled: Store) -> None:
    with pytest.raises(WriteConflict) as lost:
        _read_then_delete(filled)
    assert lost.value.winner > 0
    assert (5, "z") not in rows_of(filled)


def _read_then_delete(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.t").scan().count()
        store.load_table("default.t").delete("a = 5")
        txn.load_table("default.t").delete("a = 4")


_ROWS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["x", "y", None])), max_size=6)
_STATEMENT = st.one_of(
    st.tuples(st.just("append"), _ROWS),
    st.tuples(st.just("upsert"), _ROWS),
    st.tuples(st.just("stream"), _ROWS),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("minor"), st.none()),
    st.tuples(st.just("major"), st.none()),
)


@given(st.lists(_STATEMENT, min_size=1, max_size=8))
@settings(max_examples=sized(short=6, whole=60))
def test_any_statements_do_what_a_list_of_rows_does(empty_metastore: Path, statements: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory(dir=empty_metastore.parent) as folder:
        url, warehouse = f"sqlite:///{folder}/metastore.db", Path(folder) / "w"
        shutil.copyfile(empty_metastore, f"{folder}/metastore.db")
        warehouse.mkdir()
        environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(warehouse)}
        with open_site(configure(environment=environment)) as opened:
            site = with_settings(opened, hive_txn_opentxn_timeout="1ms")
            make_table(site, warehouse)
            store, model = Store(site), list[tuple[int, str | None]]()
            for kind, argument in statements:
                model = _done(store, model, kind, argument)
                assert rows_of(store) == sorted(model, key=lambda row: tuple((v is None, v) for v in row)), kind


def _done(store: Store, model: list[tuple[int, str | None]], kind: str, argument: Any) -> list[tuple[int, str | None]]:
    """Runs one statement, and returns the rows that there are then."""
    table = store.load_table("default.t")
    if kind == "append":
        table.append(_table(argument))
        return model + argument
    if kind == "stream":
        with table.stream() as stream:
            for row in argument:
                stream.write(_table([row]))
                stream.commit()
        return model + argument
    if kind == "upsert":
        source = dict(argument)
        table.upsert(_table(list(source.items())), ["a"])
        return [row for row in model if row[0] not in source] + list(source.items())
    if kind == "delete":
        assert table.delete(f"a < {argument}") == len([row for row in model if row[0] < argument])
        return [row for row in model if row[0] >= argument]
    if kind == "update":
        table.update({"b": "'u'"}, f"a = {argument} or b = 'x'")
        return [(a, "u") if a == argument or b == "x" else (a, b) for a, b in model]
    compact(store.site, kind)
    clean_all(store.site)
    return model


def _table(rows: list[tuple[int, str | None]]) -> pa.Table:
    return pa.table({"a": pa.array([a for a, _ in rows], pa.int32()), "b": pa.array([b for _, b in rows], pa.string())})


FAR = ["0001-02-03 04:05:06", "1969-12-31 23:59:58.999999", "2026-11-24 12:00:00.123456", "9999-12-31 23:59:59.5"]


def _far(store: Store, buckets: int = -1) -> Any:
    store.site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "far",
            str(Path(store.site.metastore.catalog.database_location("default")) / "far"),
            [
                Column(name="id", type="int"),
                Column(name="at", type="timestamp"),
                Column(name="many", type="array<timestamp>"),
            ],
            parameters={"transactional": "true", "bucketing_version": "2"},
            buckets=buckets,
            bucket_columns=["at"] if buckets > 0 else [],
        )
    )
    at = pa.array(FAR).cast(pa.timestamp("us"))
    (Path(store.site.metastore.catalog.database_location("default")) / "far").mkdir()
    table = store.load_table("default.far")
    chosen = slice(0, 4) if buckets < 0 else slice(1, 4)
    rows = pa.table({"id": range(4), "at": at, "many": pa.array([[one] for one in at.to_pylist()], pa.list_(at.type))})
    table.append(rows.slice(chosen.start))
    return table


def _times(table: Any) -> dict[int, str]:
    rows = table.scan(timestamps="us").to_arrow()
    assert [many[0] for many in rows["many"].to_pylist()] == rows["at"].to_pylist()
    return dict(zip(rows["id"].to_pylist(), rows["at"].cast(pa.string()).to_pylist(), strict=True))


def test_timestamps_beyond_nanoseconds_are_updated_and_kept(store: Store) -> None:
    """pandas and Arrow's nanoseconds reach from 1677 to 2262, Hive's timestamps from year 1 to 9999."""
    table = _far(store)
    before = _times(table)
    assert [text[:19] for _, text in sorted(before.items())] == [text[:19] for text in FAR]
    assert table.update({"id": "9"}, where="at = '9999-12-31 23:59:59.5'") == 1
    assert _times(table) == {0: before[0], 1: before[1], 2: before[2], 9: before[3]}
    assert table.update({"at": "'3000-01-01 00:00:00'", "many": "NULL"}, where="id = 9") == 1
    found = table.scan("id = 9", timestamps="us").to_arrow().to_pylist()
    assert [(str(row["at"]), row["many"]) for row in found] == [("3000-01-01 00:00:00", None)]
    assert table.update({"at": "'9999-12-31 23:59:59.123456789'"}, where="at < '1000-01-01'") == 1
    found = table.scan("id = 0", timestamps="parts", selected_fields=["at"]).to_arrow().to_pylist()
    assert found == [{"at": {"seconds": 253_402_300_799, "nanos": 123_456_789}}]
    assert table.delete("at > '9999-12-31 23:59:59.123456788'") == 1
    for text in ("32000-01-01 00:00:00", "2026-02-30 00:00:00", "2026-01-01 00:00:00.1234567890"):
        with pytest.raises(NotConforming, match="cannot hold it"):
            table.update({"at": f"'{text}'"})


def test_a_filter_compares_timestamps_beyond_nanoseconds_that_are_not_returned(store: Store) -> None:
    table = _far(store)
    assert table.scan("at < '1000-01-01'").count() == 1
    assert table.scan("NOT (at = '2026-11-24 12:00:00.123456')").count() == 3
    assert table.scan("at >= '9999-12-31 23:59:59.5'", selected_fields=["id"]).to_arrow().to_pylist() == [{"id": 3}]
    with pytest.raises(NotSupported, match=r"at: the timestamp .* does not fit into 64 bits of nanoseconds"):
        table.scan("at < '1000-01-01'", selected_fields=["at"]).to_arrow()
    found = table.scan("at > '1900-01-01' AND id = 2", selected_fields=["at"]).count()
    assert found == 1


def test_every_digit_of_a_timestamp_is_kept(store: Store) -> None:
    table = _far(store)
    exact = {"seconds": 32503680000, "nanos": 123456789}
    parts = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])
    table.append(pa.table({"id": [5], "at": pa.array([exact], parts)}))
    assert table.update({"id": "6"}, where="id = 5") == 1
    assert table.scan("id = 6", timestamps="parts", selected_fields=["at"]).to_arrow().to_pylist() == [{"at": exact}]


def test_rows_are_upserted_by_timestamps_beyond_nanoseconds(store: Store) -> None:
    table = _far(store)
    at = pa.array([FAR[3], FAR[0], "4000-01-01 00:00:00"]).cast(pa.timestamp("us"))
    done = table.upsert(pa.table({"id": [13, 10, 14], "at": at}), join_cols=["at"])
    assert (done.updated, done.inserted) == (2, 1)
    found = table.scan(timestamps="us", selected_fields=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 2, 10, 13, 14]
    with pytest.raises(NotConforming, match="two of the rows"):
        table.upsert(pa.table({"id": [1, 2], "at": at.take(pa.array([0, 0]))}), join_cols=["at"])


def test_rows_in_buckets_of_timestamps_stay_in_theirs(store: Store) -> None:
    table = _far(store, buckets=4)
    before = {
        row["id"]: row["row__id"]["bucketid"]
        for row in table.scan(timestamps="us", row_ids=True).to_arrow().to_pylist()
    }
    assert table.update({"many": "NULL"}) == 3
    after = table.scan(timestamps="us", row_ids=True).to_arrow().to_pylist()
    numbers = {row["id"]: (row["row__id"]["bucketid"] >> 16) & 0xFFF for row in after}
    assert numbers == {id: (bucket >> 16) & 0xFFF for id, bucket in before.items()}


def test_a_single_name_is_one_column_and_not_its_letters(filled: Store) -> None:
    table = filled.load_table("default.t")
    filled.create_table("default.words", {"word": "string", "n": "int"})
    words = filled.load_table("default.words")
    words.append(pa.table({"word": ["a"], "n": [1]}))
    assert words.upsert(pa.table({"word": ["a"], "n": [2]}), "word").updated == 1
    with words.mutate("word") as mutation:
        mutation.delete(pa.table({"word": ["a"]}))
    assert words.scan(selected_fields="word").to_arrow().num_rows == 0
    assert table.scan(selected_fields="b").to_arrow().column_names == ["b"]


def test_each_key_has_one_number_and_null_is_equal_to_nothing() -> None:
    keys = pa.table({"a": [3, 1, 3, None], "b": ["x", "y", "x", "z"]})
    known = number_keys(keys.slice(0, 3))
    assert known.column(PLACE).to_pylist() == [0, 1]
    assert match_keys(keys, known).to_pylist() == [0, 1, 0, None]
    assert match_keys(pa.table({"a": [3], "b": ["y"]}), known).to_pylist() == [None]
    assert has_null(keys).to_pylist() == [False, False, False, True]


def test_timestamps_are_equal_in_any_unit() -> None:
    texts = pa.array(["2026-11-26 01:02:03.5", "0001-01-01 00:00:00"])
    known = number_keys(make_comparable(pa.table({"at": texts.cast(pa.timestamp("us"))})))
    assert match_keys(pa.table({"at": texts.slice(0, 1).cast(pa.timestamp("ms"))}), known).to_pylist() == [0]


def test_columns_may_have_any_name() -> None:
    """Those that are added here had names that a table's columns may have."""
    keys = pa.table({"__place": [3, 1, 3], "__row": ["x", "y", "x"], "place": [1, 2, 1]})
    assert match_keys(keys, number_keys(keys)).to_pylist() == [0, 1, 0]


def test_zero_is_equal_to_minus_zero() -> None:
    for kind in (pa.float32(), pa.float64()):
        known = number_keys(make_comparable(pa.table({"f": pa.array([0.0, -0.0, 1.5, None], kind)})))
        assert known.num_rows == 3
        assert match_keys(pa.table({"f": pa.array([-0.0, 1.5], kind)}), known).to_pylist() == [0, 1]


def test_every_nan_is_the_same_key() -> None:
    """Arrow groups and joins by bits, of which NaN has many forms."""
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    for kind in (pa.float32(), pa.float64()):
        keys = pa.table({"f": pa.array(nans).cast(kind)})
        known = number_keys(make_comparable(keys))
        assert known.num_rows == 1
        assert match_keys(keys, known).to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["array<int>", "map<int,int>", "struct<a:int>", "uniontype<int>"])
def test_a_nested_column_is_no_key(kind: str) -> None:
    """Arrow joins none of them."""
    columns = (Column(name="id", type="bigint"), Column(name="l", type=kind))
    table = TableValue(id=1, database="d", name="t", location="/t", columns=columns)
    assert find_key_columns(table, ["ID"], "join_cols") == ["id"]
    with pytest.raises(NotSupported, match=r"column l is a .*join_cols cannot have nested columns"):
        find_key_columns(table, ["id", "L"], "join_cols")
