from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.acid.names import Base
from compactor.base.errors import (
    Disagreement,
    NotConforming,
    NotLossless,
    NotSupported,
    TransactionAborted,
    WriteConflict,
)
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.orc.format.tail import JULIAN, read_tail
from compactor.orc.io.source import LocalSource
from compactor.site.site import Site
from compactor.tables.reading import scan_planning
from compactor.tables.store import Store
from compactor.tables.transactions.pending import Pending
from compactor.tables.writing import append as append_module
from compactor.tables.writing import statement_files
from compactor.tables.writing.bucket_hashes import bucket_numbers
from tests.support.passes import compact
from tests.support.tables import entity_of, make_table, with_settings

ROWS = [{"a": 1, "b": "one"}, {"a": 2, "b": None}, {"a": 3, "b": "three"}]


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    make_table(site, warehouse)
    return Store(site)


def rows_of(store: Store, name: str = "default.t") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.load_table(name).scan().to_arrow().to_pylist()
    return rows


def make(store: Store, warehouse: Path, name: str, columns: dict[str, str], **more: Any) -> None:
    location = warehouse / name
    location.mkdir()
    store.site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            name,
            str(location),
            [Column(name=key, type=type_) for key, type_ in columns.items()],
            parameters={"transactional": "true", "transactional_properties": "default", "bucketing_version": "2"},
            **more,
        )
    )


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rows_are_there_after_the_commit_under_hives_names(store: Store, warehouse: Path) -> None:
    assert store.load_table("default.t").append(pa.Table.from_pylist(ROWS)) == 3
    assert rows_of(store) == ROWS
    assert names_in(warehouse / "t") == ["delta_0000001_0000001_0000"]
    assert names_in(warehouse / "t/delta_0000001_0000001_0000") == ["_orc_acid_version", "bucket_00000"]


def test_nothing_has_a_name_before_the_commit(store: Store, warehouse: Path) -> None:
    """PROTOCOL 14.1: a writer that is paused, timed out and forgotten must not be able to put rows under a name."""
    with store.transaction() as txn:
        txn.load_table("default.t").append(pa.Table.from_pylist(ROWS))
        (staging,) = names_in(warehouse / "t")
        assert staging.startswith(f".compactor_w{txn.id}_")
        assert (warehouse / "t" / staging).stat().st_mode & 0o777 == 0o700
        assert rows_of(store) == []
    assert rows_of(store) == ROWS


def test_a_transaction_that_was_timed_out_meanwhile_names_nothing(store: Store, warehouse: Path) -> None:
    """PROTOCOL 14.1: its rows would count as committed once it is forgotten."""
    with pytest.raises(TransactionAborted):
        _time_out(store)
    assert names_in(warehouse / "t") == []


def _time_out(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.t").append(pa.Table.from_pylist(ROWS))
        store.site.metastore.transactions.abort(TxnId(txn.id), "a test times it out")


def test_what_a_writer_staged_that_died_is_swept(store: Store, warehouse: Path) -> None:
    """PROTOCOL 3.1: at the next compaction there."""
    (txn,) = store.site.metastore.transactions.open("somebody", "somewhere")
    pending = Pending(store.site.storage, txn)
    pending.attempt(str(warehouse / "t"), Base(write_id=WriteId(1)))
    store.load_table("default.t").append(pa.Table.from_pylist(ROWS))
    compact(store.site)
    assert any(name.startswith(".compactor_w") for name in names_in(warehouse / "t")), "its transaction is open"
    store.site.metastore.transactions.abort(txn, "it died")
    store.load_table("default.t").append(pa.Table.from_pylist(ROWS))
    compact(store.site)
    assert not any(name.startswith(".compactor_w") for name in names_in(warehouse / "t"))
    assert rows_of(store) == ROWS + ROWS


def test_a_program_that_fails_leaves_nothing(store: Store, warehouse: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail(store)
    assert names_in(warehouse / "t") == []


def _fail(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.t").append(pa.Table.from_pylist(ROWS))
        raise RuntimeError


def test_a_transaction_reads_what_it_has_staged(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.append(pa.Table.from_pylist(ROWS[:1]))
        table.append(pa.Table.from_pylist(ROWS[1:]))
        assert table.scan().to_arrow().to_pylist() == ROWS
        ids = [row["row__id"] for row in table.scan(row_ids=True).to_arrow().to_pylist()]
        table.overwrite(pa.Table.from_pylist(ROWS[2:]))
        assert table.scan().to_arrow().to_pylist() == ROWS[2:]
    assert rows_of(store) == ROWS[2:]
    assert [(one["bucketid"] & 0xFFF, one["rowid"]) for one in ids] == [(0, 0), (1, 1), (1, 2)]  # they run on


def test_several_tables_change_together(store: Store, warehouse: Path) -> None:
    make(store, warehouse, "u", {"x": "int"})
    with store.transaction() as txn:
        txn.load_table("default.t").append(pa.Table.from_pylist(ROWS))
        txn.load_table("default.u").append(pa.table({"x": [7]}))
    assert (rows_of(store), rows_of(store, "default.u")) == (ROWS, [{"x": 7}])


def test_overwriting_replaces_all_rows_also_by_none(store: Store, warehouse: Path) -> None:
    table = store.load_table("default.t")
    table.append(pa.Table.from_pylist(ROWS))
    table.overwrite(pa.Table.from_pylist(ROWS[:1]))
    assert rows_of(store) == ROWS[:1]
    assert "base_0000002" in names_in(warehouse / "t")
    table.overwrite(pa.Table.from_pylist([], schema=pa.schema([("a", pa.int32())])))
    assert rows_of(store) == []


def test_of_two_that_change_the_same_the_second_to_commit_loses(store: Store) -> None:
    with pytest.raises(WriteConflict) as lost:
        _two_change(store)
    assert lost.value.winner == 2
    assert rows_of(store) == ROWS[:1]


def _two_change(store: Store) -> None:
    """Changes the table in transaction 1 while transaction 2 does, and commits first; neither holds a lock."""
    entity = entity_of(store.site.metastore.catalog.table("default", "t"))
    with store.transaction() as txn:
        txn.load_table("default.t").append(pa.Table.from_pylist(ROWS))
        store.site.metastore.write_ids.add_component(TxnId(txn.id), entity, "u", None)
        with store.transaction() as winner:
            winner.load_table("default.t").append(pa.Table.from_pylist(ROWS[:1]))
            store.site.metastore.write_ids.add_component(TxnId(winner.id), entity, "u", None)


def test_rows_lie_in_the_file_of_their_bucket(store: Store, warehouse: Path) -> None:
    make(store, warehouse, "b", {"k": "string", "v": "int"}, buckets=3, bucket_columns=["k"])
    keys = [f"key {n}" for n in range(20)]
    store.load_table("default.b").append(pa.table({"v": list(range(20)), "k": keys}))
    numbers = bucket_numbers([pa.array(keys)], ["string"], 3, version=2).tolist()
    found = store.load_table("default.b").scan(row_ids=True).to_arrow().to_pylist()
    assert {row["k"]: row["row__id"]["bucketid"] >> 16 & 0xFFF for row in found} == dict(
        zip(keys, numbers, strict=True)
    )
    assert names_in(warehouse / "b/delta_0000001_0000001_0000") == [
        "_orc_acid_version",
        *(f"bucket_{n:05d}" for n in sorted(set(numbers))),
    ]


@pytest.fixture
def partitioned(store: Store, warehouse: Path) -> Store:
    make(
        store,
        warehouse,
        "p",
        {"v": "int"},
        partition_keys=[Column(name="day", type="date"), Column(name="n", type="int")],
    )
    table = store.site.metastore.catalog.table("default", "p")
    for values in (["2026-11-01", "1"], ["2026-11-01", "2"], ["__HIVE_DEFAULT_PARTITION__", "1"]):
        part = store.site.metastore.embedded_catalog.add_partition(table, values)
        Path(part.location).mkdir(parents=True)
    return store


def test_rows_are_divided_by_partition(partitioned: Store) -> None:
    day = datetime(2026, 11, 1).date()
    rows = [{"v": 1, "day": day, "n": 1}, {"v": 2, "day": day, "n": 2}, {"v": 3, "day": None, "n": 1}]
    partitioned.load_table("default.p").append(pa.Table.from_pylist(rows))
    assert sorted(rows_of(partitioned, "default.p"), key=lambda row: row["v"]) == rows
    partitioned.load_table("default.p").overwrite(pa.Table.from_pylist([{"v": 9, "day": day, "n": 2}]))
    assert sorted(row["v"] for row in rows_of(partitioned, "default.p")) == [1, 3, 9]


def test_many_rows_wait_on_disk_and_keep_their_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_files, "IN_MEMORY", 100)
    parts = [pa.record_batch({"a": pa.array([n, n + 1], pa.int32())}) for n in range(0, 20, 2)]
    store.load_table("default.t").append(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
    assert [row["a"] for row in rows_of(store)] == list(range(20))


def test_data_frames_are_rows(store: Store) -> None:
    store.load_table("default.t").append(pa.Table.from_pylist(ROWS).to_pandas())
    assert [row["a"] for row in rows_of(store)] == [1, 2, 3]


def test_timestamps_that_arrow_cannot_write_are_written(store: Store, warehouse: Path) -> None:
    make(store, warehouse, "ts", {"at": "timestamp", "more": "array<timestamp>"})
    days = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 0, 0, 500000), datetime(9999, 12, 31), None]
    store.load_table("default.ts").append(pa.table({"at": days, "more": [[day] for day in days]}))
    found = store.load_table("default.ts").scan(timestamps="us").to_arrow().to_pylist()
    assert found == [{"at": day, "more": [day]} for day in days]


@pytest.mark.parametrize("moment", [datetime(2020, 1, 1), datetime(1960, 1, 1, 0, 0, 0, 500000)], ids=["late", "early"])
def test_a_key_twice_in_a_map_is_written_or_refused(store: Store, warehouse: Path, moment: datetime) -> None:
    """PROTOCOL 4: pyorc, which writes early timestamps, knows one entry for each key."""
    make(store, warehouse, "m", {"at": "timestamp", "m": "map<string,int>"})
    maps = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.table({"at": pa.array([moment], pa.timestamp("us")), "m": maps})
    if moment.year < 1970:
        with pytest.raises(NotLossless, match="a map that has a key twice cannot be encoded next to timestamps"):
            store.load_table("default.m").append(rows)
        assert not [name for name in names_in(warehouse / "m") if not name.startswith(".")]
    else:
        store.load_table("default.m").append(rows)
        assert store.load_table("default.m").scan(timestamps="us").to_arrow().column("m").combine_chunks().equals(maps)


def test_what_is_refused_changes_nothing(store: Store, warehouse: Path) -> None:
    table = store.load_table("default.t")
    with pytest.raises(NotConforming, match="expected: a pyarrow table, batch or reader"):
        table.append([1, 2])  # type: ignore[arg-type]
    with pytest.raises(NotConforming, match="no column 'z'"):
        table.append(pa.table({"z": [1]}))
    assert rows_of(store) == []
    assert not [name for name in names_in(warehouse / "t") if not name.startswith(".")]


def test_a_sorted_table_is_refused(store: Store, warehouse: Path) -> None:
    make(store, warehouse, "s", {"k": "int"}, buckets=2, bucket_columns=["k"], sort_columns=["k"])
    with pytest.raises(NotSupported, match="sorted"):
        store.load_table("default.s").append(pa.table({"k": [1]}))


def test_a_write_id_whose_directory_exists_is_not_written_to(store: Store, warehouse: Path) -> None:
    """PROTOCOL 11.12."""
    (warehouse / "t/delta_0000001_0000001_0000").mkdir()
    (warehouse / "t/delta_0000001_0000001_0000/bucket_00000").write_bytes(b"ORC")
    with pytest.raises(Disagreement, match="write ID 1 was never allocated"):
        store.load_table("default.t").append(pa.Table.from_pylist(ROWS))


def test_row_ids_run_on_from_statement_to_statement(store: Store, warehouse: Path) -> None:
    """PROTOCOL 14.5: Trino sorts delete events by write ID and row ID, Hive's row-by-row reader wants them by ROW__ID."""
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.append(pa.table({"a": [1, 2]}))
        assert table.delete("a = 1") == 1
        table.append(pa.table({"a": [3]}))
        table.append(pa.table({"a": [4, 5]}))
    rows = store.load_table("default.t").scan(row_ids=True).to_arrow().to_pylist()
    ids = {row["a"]: (row["row__id"]["bucketid"] - 536_870_912, row["row__id"]["rowid"]) for row in rows}
    assert ids == {2: (0, 1), 3: (2, 2), 4: (3, 3), 5: (3, 4)}
    by_row_id = sorted(ids.values(), key=lambda id: id[1])
    assert by_row_id == sorted(ids.values())


def test_early_days_are_read_as_they_were_given(store: Store, warehouse: Path) -> None:
    """Hive showed 0001-01-03 for 0001-01-01 [seen]: it counts days of a file before 1582-10-15 in the Julian calendar."""
    make(store, warehouse, "early", {"d": "date", "t": "timestamp"})
    days = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15)]
    times = [datetime(day.year, day.month, day.day, 23, 59, 59) for day in days]
    store.load_table("default.early").append(pa.table({"d": days, "t": times}))
    rows = store.load_table("default.early").scan(timestamps="us").to_arrow().to_pylist()
    assert rows == [{"d": day, "t": time} for day, time in zip(days, times, strict=True)]
    [file] = (warehouse / "early").rglob("bucket_00000")
    stored = orc.ORCFile(file).read(columns=["row.d"])["row"].combine_chunks().field("d").cast(pa.int32()).to_pylist()
    assert stored == [-719_164, -141_428, -141_427]


def test_days_for_hive_3_1_are_gregorian(store: Store, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive 3.1.3 showed 1000-03-05 for a Julian 1000-02-28 [seen]: it takes stored days as they are, whatever files say."""
    make(store, warehouse, "early", {"k": "int", "d": "date", "t": "timestamp"})
    row = {"k": 1, "d": date(1000, 2, 28), "t": datetime(1000, 2, 28, 12)}
    store.load_table("default.early").append(pa.Table.from_pylist([row]).set_column(0, "k", pa.array([1], pa.int32())))
    for module in (append_module, scan_planning):
        monkeypatch.setattr(module, "is_hive_4", lambda site: False)
    table = store.load_table("default.early")
    [of_hive_4] = table.scan(timestamps="us").to_arrow().to_pylist()
    assert of_hive_4 == row | {"d": date(1000, 3, 5), "t": datetime(1000, 3, 5, 12)}
    table.append(pa.Table.from_pylist([row]).set_column(0, "k", pa.array([2], pa.int32())))
    assert table.scan("k = 2", timestamps="us").to_arrow().to_pylist() == [row | {"k": 2}]
    assert table.scan("d = '1000-02-28'", timestamps="us").to_arrow().to_pylist() == [row | {"k": 2}]
    file = max((warehouse / "early").rglob("bucket_00000"))
    stored = orc.ORCFile(file).read(columns=["row.d"])["row"].combine_chunks().field("d").to_pylist()
    assert stored == [row["d"]]
    tails = [read_tail(LocalSource(str(path))) for path in (warehouse / "early").rglob("bucket_00000")]
    assert sorted(tail.calendar for tail in tails) == [0, JULIAN]


def test_the_days_that_the_julian_calendar_leaves_out_are_written_for_hive_3_1(
    store: Store, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive 3.1.3 stores them as all other days; a row of Hive with such a day can be updated."""
    make(store, warehouse, "gap", {"k": "int", "d": "date", "t": "timestamp"})
    row = {"k": 1, "d": date(1582, 10, 10), "t": datetime(1582, 10, 14, 23)}
    rows = pa.Table.from_pylist([row]).set_column(0, "k", pa.array([1], pa.int32()))
    table = store.load_table("default.gap")
    with pytest.raises(NotConforming, match="1582-10-10: Hive's calendar goes from"):
        table.append(rows)
    for module in (append_module, scan_planning):
        monkeypatch.setattr(module, "is_hive_4", lambda site: False)
    table.append(rows)
    assert table.update({"k": "2"}, where="d = '1582-10-10'") == 1
    assert table.update({"d": "date '1582-10-05'"}, where="t = '1582-10-14 23:00:00'") == 1
    with table.mutate(key=["k"]) as mutation:
        mutation.insert(rows)
    expected = [row, row | {"k": 2, "d": date(1582, 10, 5)}]
    assert table.scan(timestamps="us").to_arrow().sort_by("k").to_pylist() == expected


def test_a_codec_that_hive_3_1_cannot_read_is_not_written(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive 3.1 has ORC 1.5, which reads no ZSTD."""
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    table = store.create_table("db.z", {"i": "bigint"}, properties={"orc.compress": "zstd"})
    given = pa.table({"i": [1]})
    table.append(given)
    monkeypatch.setattr(append_module, "is_hive_4", lambda site: False)
    statements: list[Callable[[], object]] = [
        lambda: table.append(given),
        lambda: table.overwrite(given),
        lambda: table.upsert(given, join_cols=["i"]),
        lambda: table.update({"i": "2"}),
        lambda: table.mutate(["i"]).__enter__(),
        lambda: table.stream().__enter__(),
    ]
    for statement in statements:
        with pytest.raises(
            NotSupported, match=r"db\.z: orc\.compress = ZSTD: Hive 3\.1, .*ORC 1\.5.* change the property"
        ):
            statement()
    assert table.delete("i = 5") == 0
