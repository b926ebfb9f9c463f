"""Statistics that a worker gives of the rows and files that it leaves; tests/contract has them in the metastore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from compactor.metastore.catalog.values import Table
from compactor.metastore.statistics.commit_statistics import CommitStatistics
from compactor.rewrite.plan.file_format import FileFormat
from compactor.site.site import Site
from compactor.worker import commit
from compactor.worker.commit import known_statistics
from compactor.worker.compaction_phases import StagedEntry
from compactor.worker.ending import Result
from tests.support import insert_only
from tests.support.passes import compact
from tests.support.tables import delete, insert, make_table, with_settings

Known = list[CommitStatistics | None]


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """The statistics that each commit was given."""
    seen: Known = []

    def see(one: StagedEntry) -> CommitStatistics | None:
        seen.append(known_statistics(one))
        return seen[-1]

    monkeypatch.setattr(commit, "known_statistics", see)
    return seen


def parameters(site: Site, table: Table) -> Mapping[str, str]:
    found = site.metastore.catalog.table(table.database, table.name).parameters
    return {key: found[key] for key in ("numFiles", "totalSize", "numRows", "rawDataSize") if key in found}


def visible(table: Table, *directories: str) -> dict[str, str]:
    """The number and bytes of the files in these directories."""
    files = [file for name in directories for file in (Path(table.location) / name).glob("bucket_*")]
    return {"numFiles": str(len(files)), "totalSize": str(sum(file.stat().st_size for file in files))}


def written(site: Site, warehouse: Path, **settings: str) -> Table:
    table = make_table(site, warehouse, **settings)
    insert(site, table, range(-4, 10))
    insert(site, table, range(10, 20))
    return table


def test_a_major_knows_every_row(site: Site, warehouse: Path, known: Known) -> None:
    table = written(site, warehouse)
    delete(site, table, [-4, 19])
    (made,) = compact(site).output
    assert parameters(site, table) == {**visible(table, made), "numRows": "22", "rawDataSize": "0"}
    (one,) = known
    assert one is not None
    assert one.rows is not None
    a, b = one.rows.columns
    assert (a.name, a.type, a.values, a.low, a.high) == ("a", "int", 22, -3, 18)
    assert (b.name, b.type, b.values, b.low) == ("b", "string", 22, None)


def test_a_minor_knows_files_only(site: Site, warehouse: Path, known: Known) -> None:
    table = written(site, warehouse)
    compact(site)
    base = next(path.name for path in Path(table.location).glob("base_*"))
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("DELETE FROM COMPACTION_QUEUE")
    insert(site, table, range(100, 110))
    insert(site, table, range(110, 120))
    (made,) = compact(site, "minor").output
    found = parameters(site, table)
    assert found == {**visible(table, base, made), "numRows": "24", "rawDataSize": "0"}
    assert known[-1] is not None
    assert known[-1].rows is None


def test_an_output_without_rows_has_none(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    insert(site, table, range(4))
    delete(site, table, range(4))
    (made,) = compact(site).output
    assert parameters(site, table) == {**visible(table, made), "numRows": "0", "rawDataSize": "0"}


@pytest.mark.parametrize("setting", ["compactor.hive.compactor.gather.stats", "DO_NOT_UPDATE_STATS"])
def test_nothing_is_written_where_it_is_not_wanted(site: Site, warehouse: Path, setting: str) -> None:
    off = {setting: "true" if setting.isupper() else "false"}
    table = written(site, warehouse, **off)
    assert compact(site).result is Result.COMPACTED
    assert parameters(site, table) == {}


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_marks_are_set_where_a_hive_reads_them(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch, enabled: str
) -> None:
    """None reads a metastore on SQLite, where ``dialect`` says so."""
    site = with_settings(deployment, hive_txn_stats_enabled=enabled)
    assert not site.metastore.dialect.marks_statistics
    monkeypatch.setattr(site.metastore.dialect, "marks_statistics", True)
    written(site, warehouse)
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE TBLS SET WRITE_ID = 2")  # as Hive's writers keep it
    compact(site)
    found = site.metastore.catalog.table("default", "t").parameters
    assert found["numRows"] == "24"
    assert ("COLUMN_STATS_ACCURATE" in found) is (enabled == "true")


def test_of_columns_only_those_with_the_tables_types_count(site: Site, warehouse: Path, known: Known) -> None:
    """A file keeps its types while its table's are widened, and lacks columns that were added later."""
    written(site, warehouse)
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE COLUMNS_V2 SET TYPE_NAME = 'varchar(40)' WHERE COLUMN_NAME = 'b'")
        conn.exec_driver_sql(
            "INSERT INTO COLUMNS_V2 (CD_ID, COLUMN_NAME, TYPE_NAME, INTEGER_IDX) SELECT CD_ID, 'c', 'int', 2 FROM "
            "COLUMNS_V2 WHERE COLUMN_NAME = 'b'"
        )
    assert compact(site).result is Result.COMPACTED
    assert known[-1] is not None
    assert known[-1].rows is not None
    assert [column.name for column in known[-1].rows.columns if column.type != "varchar(40)"] == ["a"]


def test_what_stays_beside_a_bounded_major_is_not_said_of_rows(site: Site, warehouse: Path, known: Known) -> None:
    """Rows of a delta that holds an open write ID are not in the base, though its committed ones are visible."""
    table = written(site, warehouse)
    (txn,) = site.metastore.transactions.open("u", "h")
    site.metastore.write_ids.allocate(txn, "default", "t")
    insert(site, table, range(100, 110))
    assert compact(site).result is Result.COMPACTED
    assert known[-1] is not None
    assert known[-1].rows is None
    assert set(parameters(site, table)) == {"numFiles", "totalSize"}
    site.metastore.transactions.commit(txn)


@pytest.mark.parametrize("file_format", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT])
def test_of_insert_only_tables_those_in_orc_know_their_rows(
    site: Site, warehouse: Path, file_format: FileFormat
) -> None:
    table = insert_only.make_insert_only(site, warehouse, file_format)
    insert_only.story(site, table, file_format)
    assert compact(site).result is Result.COMPACTED
    found = parameters(site, table)
    rows = str(len(insert_only.rows_of(site, table, file_format)))
    assert ("numFiles" in found, found.get("numRows")) == (True, rows if file_format is FileFormat.ORC else None)
