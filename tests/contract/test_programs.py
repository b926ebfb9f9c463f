"""Programs that write rows, over every kind of metastore."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import Refused
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t
from compactor.state.state_database import OwnState
from compactor.tables.store import Store
from tests.support.patience import PATIENCE
from tests.support.programs import two_tables


@pytest.fixture
def programs(metastore: Metastore, state: OwnState, tmp_path: Path) -> Store:
    """A table ``t(a int, b string)`` partitioned by ``p int``, and ``u`` without partitions, both empty."""
    return two_tables(metastore, state, tmp_path)


def scan_rows(store: Store, name: str) -> list[dict[str, Any]]:
    return sorted(store.load_table(f"default.{name}").scan().to_arrow().to_pylist(), key=lambda row: row["a"])


def select(store: Store, table: Any) -> list[dict[str, Any]]:
    with store.site.metastore.database.read() as conn:
        return [dict(row) for row in conn.execute(table.select()).mappings()]


def test_rows_are_appended_updated_deleted_and_upserted(programs: Store) -> None:
    table = programs.load_table("default.u")
    assert table.append(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})) == 3
    assert table.update({"b": "'z'"}, where="a = 2") == 1
    assert table.delete("a = 1") == 1
    done = table.upsert(pa.table({"a": [3, 4], "b": ["w", "v"]}), join_cols=["a"])
    assert (done.updated, done.inserted) == (1, 1)
    assert scan_rows(programs, "u") == [{"a": 2, "b": "z"}, {"a": 3, "b": "w"}, {"a": 4, "b": "v"}]
    with table.mutate(key=["a"]) as mutation:
        mutation.insert(pa.table({"a": [5, 6], "b": ["u", "t"]}))
        mutation.update(pa.table({"a": [2, 5], "b": ["s", "r"]}))
        mutation.delete(pa.table({"a": [6, 3]}))
    assert scan_rows(programs, "u") == [{"a": 2, "b": "s"}, {"a": 4, "b": "v"}, {"a": 5, "b": "r"}]
    assert table.overwrite(pa.table({"a": [9]})) == 1
    assert scan_rows(programs, "u") == [{"a": 9, "b": None}]
    assert select(programs, t.TXN_COMPONENTS) == []
    assert select(programs, t.HIVE_LOCKS) == []


def test_a_stream_commits_again_and_again(programs: Store) -> None:
    for name in ("u", "t"):
        table = programs.load_table(f"default.{name}")
        more = {"p": [5]} if name == "t" else {}
        with table.stream() as stream:
            for number in range(6):
                stream.write(pa.table({"a": [number], "b": ["x"], **more}))
                stream.commit()
                assert table.scan().count() == number + 1
    assert select(programs, t.TXN_COMPONENTS) == []
    assert select(programs, t.HIVE_LOCKS) == []
    assert programs.site.metastore.transactions.open_transactions() == []
    write_ids = [row["CTC_WRITEID"] for row in select(programs, t.COMPLETED_TXN_COMPONENTS) if row["CTC_TABLE"] == "u"]
    assert sorted(write_ids) == list(dict.fromkeys(sorted(write_ids)))
    assert len(write_ids) == 6


def test_a_new_partition_has_the_rows_that_hive_gives_it(programs: Store, tmp_path: Path) -> None:
    programs.load_table("default.t").append(pa.table({"a": [1, 2], "b": ["x", "y"], "p": [1, 1]}))
    assert scan_rows(programs, "t") == [{"a": 1, "b": "x", "p": 1}, {"a": 2, "b": "y", "p": 1}]
    of_table, part = sorted(select(programs, t.SDS), key=lambda row: row["SD_ID"])[0], select(programs, t.PARTITIONS)[0]
    (storage,) = [row for row in select(programs, t.SDS) if row["SD_ID"] == part["SD_ID"]]
    assert storage["LOCATION"] == f"{tmp_path}/t/p=1"
    for name in ("INPUT_FORMAT", "OUTPUT_FORMAT", "NUM_BUCKETS", "CD_ID", "IS_COMPRESSED"):
        assert storage[name] == of_table[name], name
    assert storage["SERDE_ID"] != of_table["SERDE_ID"]
    serdes = {row["SERDE_ID"]: row["SLIB"] for row in select(programs, t.SERDES)}
    assert serdes[storage["SERDE_ID"]] == serdes[of_table["SERDE_ID"]]
    assert [row["BUCKET_COL_NAME"] for row in select(programs, t.BUCKETING_COLS)] == ["a", "a"]
    assert [(row["PART_ID"], row["PART_KEY_VAL"]) for row in select(programs, t.PARTITION_KEY_VALS)] == [
        (part["PART_ID"], "1")
    ]
    assert [row["PARAM_KEY"] for row in select(programs, t.PARTITION_PARAMS)] == ["transient_lastDdlTime"]
    assert part.get("WRITE_ID") in (1, None)  # 3.1 has no such column
    assert {row["CTC_PARTITION"] for row in select(programs, t.COMPLETED_TXN_COMPONENTS)} == {"p=1"}


def test_several_writers_add_one_partition_once(programs: Store) -> None:
    """Of those that find it in nobody's catalog, one adds it, and the rows of all are there."""
    together = threading.Barrier(3)

    def write(number: int) -> None:
        try:
            with programs.transaction() as txn:
                data = pa.table({"a": [number, 10 + number], "p": [1, 2 + number % 2]})
                txn.load_table("default.t").append(data)
                together.wait(PATIENCE)
        except BaseException:
            together.abort()  # so that nobody waits for it
            raise

    with ThreadPoolExecutor(3) as pool:
        failed = [error for one in [pool.submit(write, number) for number in range(3)] if (error := one.exception())]
    assert failed == []
    assert [row["a"] for row in scan_rows(programs, "t")] == [0, 1, 2, 10, 11, 12]
    assert sorted(row["PART_NAME"] for row in select(programs, t.PARTITIONS)) == ["p=1", "p=2", "p=3"]
    assert len(select(programs, t.SDS)) == 2 + 3


def test_tables_are_created_and_dropped_where_no_hive_is(programs: Store, store: str, tmp_path: Path) -> None:
    if store == "sqlite":
        programs.create_table("default.n", {"a": "int"}, location=str(tmp_path / "n"))
        programs.drop_table("default.n", purge=True)
        return
    for wrong in (
        lambda: programs.create_table("default.n", {"a": "int"}, location=str(tmp_path / "n")),
        lambda: programs.create_database("d", str(tmp_path / "d")),
        lambda: programs.drop_table("default.u"),
    ):
        with pytest.raises(Refused, match="metastore default is Hive's"):
            wrong()
    assert scan_rows(programs, "u") == []


def test_locks_are_those_of_the_hive_whose_metastore_it_is(programs: Store, store: str) -> None:
    """An INSERT of Hive 3.1 shares its table with everybody, so only an exclusive lock keeps others from adding a key."""
    table, rows = "default.u", pa.table({"a": [1], "b": ["x"]})
    kinds: list[set[str]] = []
    for write in (
        lambda table: table.append(rows),
        lambda table: table.delete("a = 1"),
        lambda table: table.overwrite(rows),
        lambda table: table.upsert(rows, join_cols=["a"]),
    ):
        with programs.transaction() as txn:
            write(txn.load_table(table))
            kinds.append({row["HL_LOCK_TYPE"] for row in select(programs, t.HIVE_LOCKS)})
    assert kinds == (
        [{"r"}, {"w"}, {"e"}, {"e"}] if store in ("postgres31", "mariadb31") else [{"w"}, {"w"}, {"x"}, {"x"}]
    )
