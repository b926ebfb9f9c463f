"""Programs at a metastore whose database was put back to an older copy (PROTOCOL 11.2, 11.3): nothing reads as empty without
a word, and nothing is written under numbers that were given before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.errors import Disagreement, StorageError
from compactor.metastore.catalog.values import Table
from compactor.service.mark_files import MarkFiles
from compactor.service.requests.agree import agree
from compactor.service.roles.housekeeper import keep_house
from compactor.service.site import Site
from compactor.sql.run import checked, run
from compactor.tables import Store
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
    assert "what is read may lack rows" in caplog.text


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
    return list(run(site, checked("INSERT INTO default.other VALUES (7, 'seven')")))


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
    """PROTOCOL 11.12.3: its number would end as aborted, and the rows that have it would be read as none."""
    forgetful = replace(site, memory=None)
    with pytest.raises(StorageError, match="write ID 1, and delta_0000001_0000001_0000 reaches it already"):
        write(forgetful)
    assert site.metastore.write_ids.next("default", "t") == 1
    with pytest.raises(Disagreement, match="write ID 1 was never allocated"):
        Store(forgetful).load_table("default.t").scan().to_arrow()


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
