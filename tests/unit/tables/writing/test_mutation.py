"""Ordered inserts, updates and deletes by key and by ROW__ID."""

from __future__ import annotations

import shutil
import threading
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused, WriteConflict
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.writing import statement_files
from compactor.tables.writing.mutation import compute_net_changes, find_illegal_pair, find_pairs
from compactor.tables.writing.row_change import Changed, RowChangeKind
from tests.support.partitioned import make_partitioned
from tests.support.sizes import sized
from tests.support.tables import make_table, with_settings

LETTERS = {"i": RowChangeKind.INSERT, "u": RowChangeKind.UPDATE, "d": RowChangeKind.DELETE}


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="0s")
    make_table(site, warehouse)
    made = Store(site)
    made.load_table("default.t").append(of(a=[1, 2, 3], b=["x", "y", None]))
    return made


def of(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def rows_of(store: Store, name: str = "t") -> list[tuple[Any, ...]]:
    rows = store.load_table(f"default.{name}").scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_operations_are_one_transaction_in_their_order(store: Store) -> None:
    before = len(list(Path(store.site.metastore.catalog.table("default", "t").location).iterdir()))
    with store.load_table("default.t").mutate(key=["A"]) as mutation:
        assert mutation.insert(of(a=[4, 5], b=["new", "gone"])) == 2
        assert mutation.update(of(a=[1, 4], b=["x2", "new2"])) == 2
        assert mutation.delete(of(a=[5, 2], b=["ignored", None])) == 2
        mutation.insert(of(a=[2], b=["again"]))
        assert rows_of(store) == [(1, "x"), (2, "y"), (3, None)]
    assert mutation.changed == Changed(deleted=0, updated=2, inserted=1)
    assert rows_of(store) == [(1, "x2"), (2, "again"), (3, None), (4, "new2")]
    table = store.site.metastore.catalog.table("default", "t")
    assert len(list(Path(table.location).iterdir())) == before + 2, "a delta and a delete delta"
    with pytest.raises(Refused, match="has ended"):
        mutation.delete(of(a=[1]))


@pytest.mark.parametrize(
    ("kind", "rows", "error", "words"),
    [
        ("insert", {"a": [9, 3], "b": ["p", "q"]}, Refused, r"INSERT of \{'a': 3\}: the table has 1 such rows"),
        ("update", {"a": [1, 9], "b": ["p", "q"]}, NotFound, r"UPDATE of \{'a': 9\}: no such row exists"),
        ("delete", {"a": [1, 8]}, NotFound, r"DELETE of \{'a': 8\}: no such row exists"),
        ("delete", {"a": [1, 1]}, Refused, r"DELETE of \{'a': 1\} follows its DELETE"),
        ("insert", {"a": [9, 9], "b": ["p", "q"]}, Refused, r"INSERT of \{'a': 9\} follows its INSERT"),
        ("update", {"a": [1]}, NotConforming, "no column 'b'; give whole rows"),
        ("delete", {"b": ["x"]}, NotConforming, "no column 'a', which is part of the key"),
        ("delete", {"a": [1, None]}, NotConforming, "a NULL in the key"),
        ("insert", {"a": [1 << 40], "b": ["p"]}, NotConforming, "column a"),
    ],
)
def test_what_does_not_fit_is_refused_by_key_and_nothing_is_changed(
    store: Store, kind: str, rows: dict[str, list[Any]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _mutate(store, kind, rows)
    assert rows_of(store) == [(1, "x"), (2, "y"), (3, None)]
    assert store.site.metastore.transactions.open_transactions() == []


def _mutate(store: Store, kind: str, rows: dict[str, list[Any]]) -> None:
    with store.load_table("default.t").mutate(key=["a"]) as mutation:
        mutation.insert(of(a=[77], b=["never"]))
        getattr(mutation, kind)(of(**rows))


def test_a_key_of_several_rows_is_refused(store: Store) -> None:
    store.load_table("default.t").append(of(a=[1], b=["twice"]))
    with pytest.raises(Refused, match="the table has 2 such rows"):
        _mutate(store, "delete", {"a": [1]})


def test_keys_are_columns_of_the_table(store: Store) -> None:
    table = store.load_table("default.t")
    for key, error in ((["z"], NotFound), ([], Refused)):
        with pytest.raises(error), table.mutate(key=key):
            pass


def test_nothing_is_done_when_the_block_raises_or_does_nothing(store: Store) -> None:
    newest = store.site.metastore.transactions.newest()
    with pytest.raises(RuntimeError):
        _raise(store)
    with store.load_table("default.t").mutate(key=["a"]) as mutation:
        pass
    assert mutation.changed == Changed()
    assert rows_of(store) == [(1, "x"), (2, "y"), (3, None)]
    assert store.site.metastore.write_ids.next("default", "t") == 2
    assert newest > 0


def _raise(store: Store) -> None:
    with store.load_table("default.t").mutate(key=["a"]) as mutation:
        mutation.delete(of(a=[1]))
        raise RuntimeError


def test_rows_are_found_by_row_id_within_a_transaction(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        found = table.scan(row_ids=True).to_arrow()
        with table.mutate() as mutation:
            mutation.delete(found.slice(0, 1))
            mutation.update(found.slice(1, 1).set_column(2, "b", pa.array(["y2"])))
            mutation.insert(of(a=[1, 1], b=["p", "q"]))
        assert mutation.changed == Changed(deleted=1, updated=1, inserted=2)
    assert rows_of(store) == [(1, "p"), (1, "q"), (2, "y2"), (3, None)]


def test_unknown_row_ids_are_refused(store: Store) -> None:
    unknown = pa.array([{"writeid": 1, "bucketid": 536870912, "rowid": 99}])
    with pytest.raises(NotFound, match=r"DELETE of \{'row__id.writeid': 1, .*: no such row exists"):
        _delete_by_row_id(store, pa.table({"ROW__ID": unknown}))
    with pytest.raises(NotConforming, match="rows have no column row__id"):
        _delete_by_row_id(store, of(a=[1]))
    with pytest.raises(NotConforming, match="row__id is int64"):
        _delete_by_row_id(store, of(row__id=[1]))
    with (
        pytest.raises(Refused, match="are meaningless outside the transaction"),
        store.load_table("default.t").mutate(),
    ):
        pass
    assert len(rows_of(store)) == 3


def _delete_by_row_id(store: Store, rows: pa.Table) -> None:
    with store.transaction() as txn, txn.load_table("default.t").mutate() as mutation:
        mutation.delete(rows)


def test_row_ids_of_partitions_are_found_with_their_partition(store: Store, warehouse: Path) -> None:
    """Those of two partitions may be the same."""
    make_partitioned(store.site, warehouse, "p")
    store.load_table("default.p").append(of(a=[1, 2], b=["x", "y"], p=[1, 2]))
    with store.transaction() as txn:
        table = txn.load_table("default.p")
        found = table.scan("p = 2", row_ids=True).to_arrow()
        assert table.scan("p = 1", row_ids=True).to_arrow().column("row__id") == found.column("row__id")
        with table.mutate() as mutation:
            mutation.delete(found)
    assert rows_of(store, "p") == [(1, "x", 1)]


def test_row_ids_are_found_in_the_partition_of_null(store: Store, warehouse: Path) -> None:
    make_partitioned(store.site, warehouse, "p")
    store.load_table("default.p").append(of(a=[1, 2, 3], b=["x", "y", "z"], p=[None, 2, None]))
    with store.transaction() as txn:
        table = txn.load_table("default.p")
        found = table.scan("p IS NULL", row_ids=True).to_arrow()
        with table.mutate() as mutation:
            mutation.delete(found.slice(0, 1))
            mutation.update(found.slice(1).set_column(2, "b", pa.array(["changed"])))
    assert mutation.changed == Changed(deleted=1, updated=1)
    assert [row[:2] for row in rows_of(store, "p")] == [(2, "y"), (3, "changed")]


def test_rows_stay_in_their_partition_but_may_be_deleted_and_inserted(store: Store, warehouse: Path) -> None:
    make_partitioned(store.site, warehouse, "p")
    table = store.load_table("default.p")
    table.append(of(a=[1, 2, 3], b=["x", "y", "z"], p=[1, 2, 2]))
    with pytest.raises(NotSupported, match=r"UPDATE of \{'a': 2\} changes p from 2 to 1"):
        _move(table)
    with pytest.raises(NotSupported, match=r"UPDATE of \{'a': 4\} changes p from 1 to 2"):
        _move_twice(table)
    with table.mutate(key=["a"]) as mutation:
        mutation.update(of(a=[1], b=["x2"], p=[1]))
        mutation.delete(of(a=[2, 3]))
        mutation.insert(of(a=[2, 5], b=["moved", "new"], p=[1, 9]))
    assert rows_of(store, "p") == [(1, "x2", 1), (2, "moved", 1), (5, "new", 9)]
    assert mutation.changed == Changed(deleted=1, updated=2, inserted=1)


def _move(table: Any) -> None:
    with table.mutate(key=["a"]) as mutation:
        mutation.update(of(a=[1, 2], b=["x", "y"], p=[1, 1]))


def _move_twice(table: Any) -> None:
    with table.mutate(key=["a"]) as mutation:
        mutation.insert(of(a=[4], b=["x"], p=[1]))
        mutation.update(of(a=[4], b=["x"], p=[2]))


def test_buckets_and_timestamps_are_kept(store: Store, warehouse: Path) -> None:
    (warehouse / "k").mkdir()
    columns = [Column(name="at", type="timestamp"), Column(name="k", type="int"), Column(name="v", type="string")]
    store.site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "k",
            str(warehouse / "k"),
            columns,
            parameters={"transactional": "true", "bucketing_version": "2"},
            buckets=3,
            bucket_columns=["k"],
        )
    )
    table = store.load_table("default.k")
    times = pa.array(["2026-11-26 01:02:03", "0001-01-01 00:00:00"]).cast(pa.timestamp("us"))
    table.append(pa.table({"at": times, "k": [1, 2], "v": ["x", "y"]}))
    with table.mutate(key=["at"]) as mutation:
        mutation.update(pa.table({"at": times.slice(1), "k": [2], "v": ["y2"]}))
        mutation.delete(pa.table({"at": times.slice(0, 1).cast(pa.timestamp("ms"))}))
    assert table.scan(selected_fields=["k", "v"]).to_arrow().to_pylist() == [{"k": 2, "v": "y2"}]
    with pytest.raises(NotSupported, match="changes k from 2 to 3"):
        _rebucket(table, times)


def _rebucket(table: Any, times: pa.Array) -> None:
    with table.mutate(key=["at"]) as mutation:
        mutation.update(pa.table({"at": times.slice(1), "k": [3], "v": ["y2"]}))


def test_rows_beyond_the_memory_wait_on_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_files, "IN_MEMORY", 50)
    with store.load_table("default.t").mutate(key=["a"]) as mutation:
        for first in range(10, 100, 10):
            numbers = list(range(first, first + 10))
            mutation.insert(of(a=numbers, b=[str(number) for number in numbers]))
        mutation.delete(of(a=list(range(10, 99))))
    assert rows_of(store) == [(1, "x"), (2, "y"), (3, None), (99, "99")]


def test_two_mutations_insert_a_key_once(store: Store) -> None:
    site = with_settings(store.site, hive_txn_opentxn_timeout="1ms")
    outcomes: list[str] = []

    def put(text: str) -> None:
        try:
            with Store(site).load_table("default.t").mutate(key=["a"]) as mutation:
                mutation.insert(of(a=[77], b=[text]))
            outcomes.append("inserted")
        except (Refused, WriteConflict):
            outcomes.append("refused")

    threads = [threading.Thread(target=put, args=(text,)) for text in "pqr"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["inserted", "refused", "refused"]
    assert [row[0] for row in rows_of(store)].count(77) == 1


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 5), st.sampled_from("pqr")), max_size=8
)


@given(st.lists(_OPERATIONS, min_size=1, max_size=4))
@settings(max_examples=sized(short=6, whole=60))
def test_any_operations_do_what_a_dictionary_does(
    empty_metastore: Path, mutations: list[list[tuple[str, int, str]]]
) -> None:
    with TemporaryDirectory(dir=empty_metastore.parent) as folder:
        url, warehouse = f"sqlite:///{folder}/metastore.db", Path(folder) / "w"
        shutil.copyfile(empty_metastore, f"{folder}/metastore.db")
        warehouse.mkdir()
        environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(warehouse)}
        with open_site(configure(environment=environment)) as opened:
            site = with_settings(opened, hive_txn_opentxn_timeout="1ms")
            make_table(site, warehouse)
            model: dict[int, str] = {}
            for operations in mutations:
                model = _done(Store(site), model, operations)
                assert rows_of(Store(site)) == sorted(model.items())


def _done(store: Store, model: dict[int, str], operations: list[tuple[str, int, str]]) -> dict[int, str]:
    """Does the operations, and returns the rows that there are then: those before if one of them does not fit."""
    wanted, fits = dict(model), True
    for kind, a, b in operations:
        fits = fits and (a in wanted) != (kind == "insert")
        wanted.pop(a, None)
        if kind != "delete":
            wanted[a] = b
    try:
        with store.load_table("default.t").mutate(key=["a"]) as mutation:
            for kind, a, b in operations:
                getattr(mutation, kind)(pa.table({"a": pa.array([a], pa.int32()), "b": [b]}))
    except Refused:
        assert not fits
        return model
    assert fits
    return wanted


def test_rows_of_a_partition_of_a_char_are_found(store: Store) -> None:
    """Its values have the blanks that fill them, as those of other columns."""
    table = store.create_table("default.c", {"a": "int", "b": "string", "p": "char(3)"}, partitioned_by=["p"])
    table.append(of(a=[1, 2], b=["x", "y"], p=["q", "r"]))
    assert table.scan("p = 'q'").to_arrow().to_pylist() == [{"a": 1, "b": "x", "p": "q  "}]
    assert table.upsert(of(a=[1], b=["z"], p=["q"]), ["a", "p"]).updated == 1
    with pytest.raises(Refused, match="the table has 1 such rows"), table.mutate(key=["a", "p"]) as changes:
        changes.insert(of(a=[1], b=["z"], p=["q"]))
    with table.mutate(key=["a"]) as changes:
        changes.update(of(a=[1], b=["w"], p=["q"]))
    with store.transaction() as txn:
        inside = txn.load_table("default.c")
        found = inside.scan("a = 2", row_ids=True).to_arrow()
        with inside.mutate() as changes:
            changes.delete(found)
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "b": "w", "p": "q  "}]


def test_a_delete_of_no_rows_of_a_partitioned_table_does_nothing(deployment: Site, warehouse: Path) -> None:
    """A reader without rows was a KeyError of the partition column."""
    table = make_partitioned(deployment, warehouse)
    store = Store(deployment)
    with store.load_table(str(table)).mutate(key=["a"]) as mutation:
        assert mutation.delete(pa.table({"a": pa.array([], pa.int64())})) == 0
    assert mutation.changed == Changed()


@pytest.mark.parametrize(
    ("operations", "must_exist", "remains"),
    [
        ("i", False, True),
        ("u", True, True),
        ("d", True, False),
        ("id", False, False),
        ("iu", False, True),
        ("di", True, True),
        ("uud", True, False),
        ("diud", True, False),
        ("idi", False, True),
    ],
)
def test_the_first_operation_says_what_is_there_and_the_last_what_remains(
    operations: str, must_exist: bool, remains: bool
) -> None:
    kinds = np.array([LETTERS[letter] for letter in operations])
    keys = np.zeros(len(operations), dtype=np.int64)
    net = compute_net_changes(kinds, keys)
    assert (net.first.tolist(), net.last.tolist()) == ([0], [len(operations) - 1])
    assert (net.must_exist.tolist(), net.remains.tolist()) == ([must_exist], [remains])
    assert find_illegal_pair(kinds, keys) is None


@pytest.mark.parametrize(("operations", "place"), [("ii", 1), ("ui", 1), ("dd", 1), ("du", 1), ("idd", 2), ("uii", 1)])
def test_an_operation_has_to_fit_the_one_before_it(operations: str, place: int) -> None:
    kinds = np.array([LETTERS[letter] for letter in operations])
    assert find_illegal_pair(kinds, np.zeros(len(operations), dtype=np.int64)) == (place - 1, place)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(list(RowChangeKind)[1:])), max_size=30))
def test_keys_do_not_touch_each_other(operations: list[tuple[int, RowChangeKind]]) -> None:
    used = sorted({key for key, _ in operations})
    keys = np.array([used.index(key) for key, _ in operations], dtype=np.int64)
    kinds = np.array([kind for _, kind in operations], dtype=np.int64)
    net = compute_net_changes(kinds, keys)
    of_key = {key: [place for place, (one, _) in enumerate(operations) if one == key] for key in used}
    assert net.first.tolist() == [places[0] for places in of_key.values()]
    assert net.last.tolist() == [places[-1] for places in of_key.values()]
    before, after = find_pairs(keys)
    wanted = {pair for places in of_key.values() for pair in pairwise(places)}
    assert set(zip(before.tolist(), after.tolist(), strict=True)) == wanted
