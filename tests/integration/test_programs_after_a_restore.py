"""Programs at a metastore whose database was put back to an older copy (PROTOCOL 11.2, 11.3): nothing reads as empty without
a word, and nothing is written under numbers that were given before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import Disagreement, StorageError
from compactor.cleaner.cleaner import clean
from compactor.housekeeper.housekeeper import keep_house
from compactor.metastore.catalog.values import Table
from compactor.requests.accept_database import agree
from compactor.site.mark_files import MarkFiles
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.transactions import numbers_on_disk
from compactor.tables.transactions.numbers_on_disk import must_know_all_numbers
from tests.support.backups import Backup
from tests.support.passes import compact
from tests.support.tables import insert, make_table, with_settings
from tests.support.watching import files_below


@pytest.fixture
def site(deployment: Site, tmp_path: Path) -> Site:
    """A site whose marks are remembered outside of its database."""
    (tmp_path / "memory").mkdir()
    memory = MarkFiles(deployment.storage, str(tmp_path / "memory"), deployment.name)
    return replace(with_settings(deployment), memory=memory)


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return Backup(tmp_path / "metastore.db")


def fresh(site: Site) -> None:
    """As another process: nothing was looked at yet."""
    assert site.memory is not None
    site.memory.checked_at = site.memory.listed_at = None


ROW = pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"]})


@pytest.fixture
def restored(site: Site, warehouse: Path, backup: Backup) -> Table:
    """A table with rows of which the database knows nothing any more."""
    table = make_table(site, warehouse)
    make_table(site, warehouse, "other")
    backup.take()
    insert(site, table, range(24))
    keep_house(site)
    backup.restore()
    fresh(site)
    return table


@pytest.mark.usefixtures("restored")
def test_rows_that_are_missing_are_not_read_as_none(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL 11.3: count(*) was 0, with exit code 0."""
    with pytest.raises(Disagreement, match=r"write ID 1 was never allocated .*restored from a backup"):
        Store(site).load_table("default.t").scan().to_arrow()
    assert "rows that are read may be incomplete" in caplog.text


@pytest.mark.usefixtures("restored")
def test_without_a_memory_the_files_say_it(site: Site) -> None:
    """PROTOCOL 11.3"""
    with pytest.raises(Disagreement, match="write ID 1 was never allocated"):
        Store(replace(site, memory=None)).load_table("default.t").scan().to_arrow()


def test_a_base_of_a_compaction_that_the_database_forgot(site: Site, warehouse: Path, backup: Backup) -> None:
    """PROTOCOL 11.3: its inputs may be gone."""
    table = make_table(site, warehouse)
    for value in range(2):
        insert(site, table, [value])
    backup.take()
    compact(site)
    backup.restore()
    fresh(site)
    with pytest.raises(Disagreement, match=r"transaction \d+ (was opened just now|is not a compaction)"):
        Store(site).load_table("default.t").scan().to_arrow()
    with pytest.raises(Disagreement):  # another transaction has the number by now
        Store(site).load_table("default.t").scan().to_arrow()


def test_a_base_whose_number_a_reader_has_got_is_not_passed_over(site: Site, warehouse: Path, backup: Backup) -> None:
    """PROTOCOL 11.3.2: its inputs are gone, and the table was read as empty while that reader was there."""
    table = make_table(site, warehouse)
    for value in range(2):
        insert(site, table, [value])
    backup.take()
    compact(site)
    clean(site)
    (base,) = [path.name for path in (warehouse / "t").glob("base_*_v*")]
    backup.restore()
    forgetful = replace(site, memory=None)
    numbers_on_disk._AGREED.clear()  # as another process
    with ExitStack() as readers:
        while forgetful.metastore.transactions.newest() < int(base.partition("_v")[2]):
            readers.enter_context(Store(forgetful).transaction())
        with pytest.raises(Disagreement, match=rf"{base}: transaction \d+ is not a compaction"):
            Store(forgetful).load_table("default.t").scan().to_arrow()
        with pytest.raises(Disagreement, match=rf"{base}: transaction \d+ is not a compaction"):
            Store(forgetful).load_table("default.t").append(ROW)


@pytest.mark.usefixtures("restored")
def test_what_can_be_read_is_read_with_a_warning(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL 11.2.6"""
    caplog.set_level(logging.WARNING)
    assert Store(site).load_table("default.other").scan().to_arrow().num_rows == 0
    assert "newest token" in caplog.text
    assert "compactor metastore agree" in caplog.text


def append(site: Site) -> object:
    return Store(site).load_table("default.other").append(ROW)


def stream(site: Site) -> object:
    with Store(site).load_table("default.other").stream() as writer:
        writer.write(ROW)
        return writer.commit()


def by_sql(site: Site) -> object:
    return list(run(site, check_text("INSERT INTO default.other VALUES (7, 'seven')")))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("write", [append, stream, by_sql])
def test_nothing_is_written(site: Site, warehouse: Path, write: object) -> None:
    """PROTOCOL 11.2: an INSERT into another table allocated numbers that were used already."""
    before = files_below(warehouse)
    with pytest.raises(Disagreement, match=r"nothing is written: .* the database is older than"):
        write(site)  # type: ignore[operator]
    assert files_below(warehouse) == before
    assert site.metastore.write_ids.next("default", "other") == 1


def append_there(site: Site) -> object:
    return Store(site).load_table("default.t").append(ROW)


def stream_there(site: Site) -> object:
    with Store(site).load_table("default.t").stream() as writer:
        writer.write(ROW)
        return writer.commit()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("write", [append_there, stream_there])
def test_a_write_that_is_refused_draws_no_number(site: Site, write: Callable[[Site], object]) -> None:
    """PROTOCOL 11.3.4: its number would end as aborted, and the rows that have it would be read as none."""
    forgetful, newest = replace(site, memory=None), site.metastore.transactions.newest()
    with pytest.raises(Disagreement, match="write ID 1 was never allocated"):
        write(forgetful)
    assert site.metastore.write_ids.next("default", "t") == 1
    assert site.metastore.transactions.newest() == newest
    with pytest.raises(Disagreement, match="write ID 1 was never allocated"):
        Store(forgetful).load_table("default.t").scan().to_arrow()


@pytest.fixture(params=[("d",), ("d", "e")], ids=["days", "days and hours"])
def forgetful(site: Site, warehouse: Path, backup: Backup, request: pytest.FixtureRequest) -> Site:
    """A site without a memory, whose table ``default.p`` has partitions of which its database knows only some rows of
    ``d=1``; ``d=2`` is only on disk."""
    site = replace(site, memory=None)
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    Store(site).create_table("default.p", {"a": "int", "d": "int", "e": "string"}, partitioned_by=request.param)
    table = Store(site).load_table("default.p")
    table.append(pa.table({"a": [1], "d": [1], "e": ["x"]}))
    table.append(pa.table({"a": [3], "d": [3], "e": ["x"]}))
    backup.take()
    table.append(pa.table({"a": [2, 2, 2], "d": [2, 2, 1], "e": ["x", "y", "x"]}))
    backup.restore()
    return site


def add(table: Any) -> object:
    return table.append(pa.table({"a": [7], "d": [7], "e": ["x"]}))


def overwrite(table: Any) -> object:
    return table.overwrite(pa.table({"a": [7], "d": [3], "e": ["x"]}))


def add_to_a_stream(table: Any) -> object:
    with table.stream() as stream:
        try:
            stream.write(pa.table({"a": [7], "d": [3], "e": ["x"]}))
            return stream.commit()
        finally:
            stream.discard()


PARTITIONED_WRITES: list[Callable[[Any], object]] = [
    add,
    overwrite,
    add_to_a_stream,
    lambda table: table.upsert(pa.table({"a": [7], "d": [3], "e": ["x"]}), ["a"]),
    lambda table: table.update({"a": "7"}, "d = 3"),
    lambda table: table.delete("d = 3"),
]


@pytest.mark.parametrize("write", PARTITIONED_WRITES)
def test_no_number_is_drawn_while_another_partition_has_it(forgetful: Site, write: Callable[[Any], object]) -> None:
    """PROTOCOL 11.3.4: rows that the database forgot came back under the number of another commit, or were hidden by it."""
    newest = forgetful.metastore.transactions.newest()
    with pytest.raises(Disagreement, match=r"d=[12].*write ID 3 was never allocated"):
        write(Store(forgetful).load_table("default.p"))
    assert forgetful.metastore.transactions.newest() == newest
    with Store(forgetful).transaction() as txn, pytest.raises(Disagreement, match="write ID 3 was never allocated"):
        write(txn.load_table("default.p")) if write is not add_to_a_stream else add(txn.load_table("default.p"))
    for text in ("INSERT INTO default.p VALUES (7, 7, 'x')", "TRUNCATE TABLE default.p"):
        with pytest.raises(Disagreement, match="write ID 3 was never allocated"):
            list(run(forgetful, check_text(text)))
    assert forgetful.metastore.write_ids.next("default", "p") == 3


def test_a_partition_that_is_only_on_disk_is_not_read_as_none(
    forgetful: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 11.3.3: a query of other partitions goes on, with a warning."""
    table = Store(forgetful).load_table("default.p")
    for where in (None, "d = 2", "d > 1 AND e <> 'z'", "a = 2 AND d <> 1"):
        with pytest.raises(Disagreement, match=r"d=2.*write ID 3 was never allocated"):
            table.scan(where).to_arrow()
        with pytest.raises(Disagreement, match="d=2"):
            table.scan(where).count()
    assert table.scan("d = 3").to_arrow().num_rows == 1
    assert "its rows are not read" in caplog.text
    with pytest.raises(Disagreement, match=r"d=1.*write ID 3"):
        table.scan("d = 1").to_arrow()


def test_directories_of_dropped_partitions_are_in_nobodys_way(
    site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files stay, and their numbers were given. Only so many are listed, and not again within seconds."""
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    table = Store(site).create_table("default.p", {"a": "int", "d": "int"}, partitioned_by=["d"])
    table.append(pa.table({"a": range(80), "d": range(80)}))
    list(run(site, check_text("ALTER TABLE default.p DROP PARTITION (d=1), PARTITION (d=79)")))
    (warehouse / "p" / "d=strange").mkdir()
    listed, children = list[str](), site.storage.children

    def counted(path: str) -> tuple[str, ...]:
        listed.append(path)
        return children(path)

    monkeypatch.setattr(site.storage, "children", counted)
    numbers_on_disk._AGREED.clear()
    assert table.scan().count() == 78
    table.scan().count()
    assert len(listed) == 1 + 3
    must_know_all_numbers(site, site.metastore.catalog.table("default", "p"))
    assert len(listed) == 1 + 3 + 1 + 64
    for value in range(3):
        table.append(pa.table({"a": [value], "d": [2]}))
    assert listed.count(f"{warehouse}/p/d=78") == 1


@pytest.mark.usefixtures("restored")
def test_no_table_is_made(site: Site) -> None:
    with pytest.raises(Disagreement, match=r"nothing is changed: .* the database is older than"):
        Store(site).create_table("default.new", ROW.schema)


def test_once_a_person_has_agreed_it_goes_on(site: Site, warehouse: Path, backup: Backup) -> None:
    """PROTOCOL 11.2.9, in the same process."""
    make_table(site, warehouse)
    backup.take()
    keep_house(site)
    insert(site, make_table(site, warehouse, "gone"), [1])
    keep_house(site)
    backup.restore()
    fresh(site)
    with pytest.raises(Disagreement, match="nothing is written"):
        Store(site).load_table("default.t").append(ROW)
    agree(site, "ann")
    Store(site).load_table("default.t").append(ROW)
    assert Store(site).load_table("default.t").scan().to_arrow().num_rows == 1


def test_a_memory_that_is_away_stops_no_program(
    site: Site, warehouse: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 11.2.8"""
    make_table(site, warehouse)
    keep_house(site)
    (tmp_path / "memory").rename(tmp_path / "away")
    fresh(site)
    with pytest.raises(StorageError):
        keep_house(site)
    Store(site).load_table("default.t").append(ROW)
    assert "it is not known whether the database is an older copy" in caplog.text


def test_a_transaction_costs_one_small_read(site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are listed once, and the database is asked for its newest tokens alone."""
    make_table(site, warehouse)
    keep_house(site)
    fresh(site)
    marks, asked = site.metastore.marks, list[str]()
    tokens = marks.tokens

    def counted(name: str) -> object:
        asked.append("tokens")
        return tokens(name)

    monkeypatch.setattr(marks, "tokens", counted)
    monkeypatch.setattr(marks, "present", lambda *_: asked.append("present"))
    table = Store(site).load_table("default.t")
    for _ in range(3):
        table.scan().to_arrow()
    assert asked == ["tokens"] * 3
