"""Passes over a mirrored table: PyIceberg reads what a scan of the table reads (PROTOCOL 15)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import MirrorStopped
from compactor.mirror.mirrored_tables import rebuild_mirror, run_mirrors, show_mirrors
from compactor.tables.store import Store
from tests.integration.mirror.conftest import numbered
from tests.support.mirrored import MirroredTable, change_column, execute, mirror_table


def test_appended_rows_appear(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    result = mirrored.run()
    assert (result.data_files, result.removed_files, result.rows, result.commits) == (1, 0, 3, 1)
    assert mirrored.shown() == mirrored.expected()
    assert mirrored.run().snapshot is None


def test_deletes_and_updates_become_position_deletes(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.delete("id = 2")
    result = mirrored.run()
    assert (result.data_files, result.delete_files, result.deleted, result.removed_files) == (0, 1, 1, 0)
    mirrored.table.update({"name": "'new'"}, "id = 3")
    result = mirrored.run()
    assert (result.data_files, result.delete_files, result.deleted, result.removed_files) == (1, 1, 1, 0)
    assert mirrored.shown() == mirrored.expected()


@pytest.mark.parametrize(
    ("kind", "cleans"), [("minor", True), ("major", False), pytest.param("major", True, marks=pytest.mark.whole)]
)
def test_a_compaction_causes_no_commit(mirrored: MirroredTable, kind: str, cleans: bool) -> None:
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.must_be_equal()
    mirrored.table.delete("id = 6")
    mirrored.must_be_equal()
    mirrored.compact(kind, cleans=cleans)
    assert mirrored.run().snapshot is None
    mirrored.table.delete("id = 1")
    result = mirrored.run()
    assert (result.data_files, result.delete_files, result.removed_files) == (0, 1, 0)
    assert mirrored.shown() == mirrored.expected()


def test_rows_that_came_and_were_compacted_at_once_are_added_alone(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.compact("major")
    result = mirrored.run()
    assert (result.rows, result.removed_files) == (3, 0)
    assert mirrored.shown() == mirrored.expected()


def test_deletes_that_a_compaction_has_applied_replace_the_data_file(mirrored: MirroredTable) -> None:
    """The delete events are gone, so nothing says which rows of the old data file are."""
    mirrored.must_be_equal()
    mirrored.table.delete("id = 2")
    mirrored.compact("major")
    result = mirrored.run()
    assert (result.data_files, result.rows, result.removed_files) == (1, 4, 1)
    assert mirrored.shown() == mirrored.expected()


def test_an_overwrite_and_a_truncation_leave_no_old_row(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    mirrored.table.overwrite(numbered(range(20, 22)))
    mirrored.must_be_equal()
    mirrored.table.delete("id = 20")
    mirrored.must_be_equal()
    mirrored.table.overwrite(numbered(range(0)))
    mirrored.must_be_equal()
    assert mirrored.shown() == []
    mirrored.table.append(numbered(range(3)))
    mirrored.must_be_equal()


def test_a_rebalance_replaces_all_rows(mirrored: MirroredTable) -> None:
    mirrored.table.append(numbered(range(5, 8)))
    mirrored.must_be_equal()
    mirrored.compact("rebalance")
    mirrored.must_be_equal()
    mirrored.table.delete("id = 6")
    mirrored.must_be_equal()


def test_rows_of_an_open_transaction_come_with_its_commit(mirrored: MirroredTable) -> None:
    """Its write ID lies below those of rows that the mirror shows already."""
    with Store(mirrored.site).transaction() as txn:
        txn.load_table("d.t").append(numbered(range(10, 12)))
        mirrored.table.append(numbered(range(20, 22)))
        mirrored.must_be_equal()
        assert len(mirrored.shown()) == 7
    result = mirrored.run()
    assert (result.rows, result.removed_files) == (2, 0)
    assert mirrored.shown() == mirrored.expected()


def test_partitions_come_change_and_go(store: Store, tmp_path: Path) -> None:
    table = store.create_table(
        "d.p",
        {"id": "int", "day": "date", "code": "char(3)", "part": "smallint"},
        partitioned_by=["day", "code", "part"],
        properties={"transactional": "true"},
    )
    rows = {
        "id": [1, 2, 3],
        "day": ["2026-11-01", None, "1999-01-01"],
        "code": ["a", "bcd", "a"],
        "part": ["1", "2", None],
    }
    table.append(pa.table({name: pa.array(values) for name, values in rows.items()}).cast(table.schema))
    mirrored = mirror_table(store.site, tmp_path / "lake", "d.p")
    assert mirrored.run().data_files == 3
    assert _trimmed(mirrored.expected()) == mirrored.shown()
    assert [field.name for field in mirrored.iceberg.spec().fields] == ["day", "code", "part"]
    table.delete("id = 2")
    gone = next(name for name in table.partitions if "1999" in name).split("/")[0]
    mirrored.run()
    day, _, value = gone.partition("=")
    execute(store.site, f"ALTER TABLE d.p DROP PARTITION ({day}='{value}')")
    result = mirrored.run()
    assert (result.data_files, result.removed_files) == (0, 1)
    assert _trimmed(mirrored.expected()) == mirrored.shown()
    assert [row["id"] for row in mirrored.shown()] == [1]


def _trimmed(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {name: value.rstrip(" ") if isinstance(value, str) else value for name, value in row.items()} for row in rows
    ]


def test_added_and_widened_columns_arrive_with_the_rows(store: Store, tmp_path: Path) -> None:
    table = store.create_table("d.w", {"id": "int", "x": "float"})
    table.append(pa.table({"id": pa.array([1], pa.int32()), "x": pa.array([0.5], pa.float32())}))
    mirrored = mirror_table(store.site, tmp_path / "lake", "d.w")
    mirrored.must_be_equal()
    execute(store.site, "ALTER TABLE d.w ADD COLUMNS (note string)")
    change_column(store.site, "id", type="bigint")
    mirrored.must_be_equal()
    assert mirrored.shown() == [{"id": 1, "x": 0.5, "note": None}]
    mirrored.table.append(pa.table({"id": [2**40], "x": pa.array([1.5], pa.float32()), "note": ["new"]}))
    before = len(mirrored.iceberg.metadata.snapshots)
    mirrored.must_be_equal()
    assert len(mirrored.iceberg.metadata.snapshots) == before + 1
    assert str(mirrored.iceberg.schema().find_type("id")) == "long"


def test_a_renamed_column_stops_the_mirror_and_a_rebuild_goes_on(mirrored: MirroredTable) -> None:
    mirrored.must_be_equal()
    change_column(mirrored.site, "name", name="title")
    with pytest.raises(MirrorStopped, match=r"column name is now title.*mirror rebuild d\.t"):
        mirrored.run()
    (lag,) = show_mirrors(mirrored.site)
    assert "column name is now title" in (lag.mirror.error or "")
    rebuild_mirror(mirrored.site, "d.t")
    mirrored.must_be_equal()
    assert set(mirrored.shown()[0]) == {"id", "title"}
    (lag,) = show_mirrors(mirrored.site)
    assert (lag.mirror.error, lag.problem, lag.rows, lag.commits) == (None, None, 5, 0)


def test_one_table_that_cannot_be_mirrored_stops_no_other(mirrored: MirroredTable, tmp_path: Path) -> None:
    store = Store(mirrored.site)
    store.create_table("d.a", {"at": "timestamp"})
    execute(mirrored.site, "INSERT INTO d.a VALUES (timestamp '2026-11-01 00:00:00.123456789')")
    mirror_table(mirrored.site, tmp_path / "lake", "d.a")
    outcomes = {outcome.mirror.name: outcome for outcome in run_mirrors(mirrored.site)}
    assert "finer than a microsecond" in str(outcomes["d.a"].error) or "microsecond" in str(outcomes["d.a"].error)
    assert outcomes["d.t"].error is None
    assert mirrored.shown() == mirrored.expected()
