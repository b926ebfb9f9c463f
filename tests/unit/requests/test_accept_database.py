"""A person accepts a database that was put back (PROTOCOL 11.2)."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import Disagreement, Refused
from compactor.metastore.catalog.values import Table
from compactor.requests.accept_database import agree, both_sides, open_writes
from compactor.requests.advance import advance
from compactor.requests.resolve import Ruling
from compactor.site import restored_database as remembering
from compactor.site.mark_files import MarkFiles
from compactor.site.restored_database import doubt_of, must_be_newest
from compactor.site.site import Site
from tests.support.backups import Backup
from tests.support.passes import every_role
from tests.support.tables import insert, make_table, rows_of, with_settings


def commit(site: Site) -> None:
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.transactions.commit(txn)
    must_be_newest(site)


@pytest.fixture
def restored(deployment: Site, tmp_path: Path) -> Site:
    """A database without its last two transactions."""
    backup = Backup(tmp_path / "metastore.db")
    commit(deployment)
    backup.take()
    commit(deployment)
    commit(deployment)
    backup.restore()
    return deployment


def folder(site: Site) -> Path:
    assert site.memory is not None
    return Path(site.memory.place)


def afresh(site: Site) -> Site:
    above = folder(site).parent
    return replace(site, memory=MarkFiles(site.storage, str(above), site.name, str(above.parent)))


def test_a_dry_run_shows_both_sides_and_changes_nothing(restored: Site) -> None:
    before = {path.name: path.read_bytes() for path in folder(restored).iterdir()}
    tokens = restored.metastore.marks.tokens(restored.name)
    sides = both_sides(restored)
    assert sides.is_doubtful
    assert (sides.database.newest, sides.remembered[0].marks.newest) == (1, 3)
    assert sides.doubt is not None
    assert sides.doubt.transactions == 2
    assert {path.name: path.read_bytes() for path in folder(restored).iterdir()} == before
    assert restored.metastore.marks.tokens(restored.name) == tokens


def test_a_dry_run_names_what_open_transactions_have_written(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    """An INSERT that had committed is among them: once the database is accepted it times out, and its rows go."""
    table = make_table(deployment, warehouse)
    backup = Backup(tmp_path / "metastore.db")
    (txn,) = deployment.metastore.transactions.open("ann", "h")
    write_id = deployment.metastore.write_ids.allocate(txn, table.database, table.name)
    deployment.metastore.transactions.open("bob", "h")
    backup.take()
    written = Path(table.location) / f"delta_{write_id:07d}_{write_id:07d}_0000"
    written.mkdir()
    (written / "bucket_00000").write_bytes(b"rows")
    deployment.metastore.transactions.commit(txn)
    must_be_newest(deployment)
    backup.restore()
    sides = both_sides(deployment)
    (found,) = sides.written
    assert (found.txn, found.user, found.table, found.write_id) == (txn, "ann", "default.t", write_id)
    assert found.found == str(written)
    assert sides.to_json()["open_writes"] == [found.to_json()]


def test_directories_whose_numbers_may_be_given_again_come_first(
    deployment: Site, warehouse: Path, tmp_path: Path
) -> None:
    """PROTOCOL 11.2: an aborted INSERT got the write ID of one that had committed, and the cleaner removed both."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")
    table = make_table(site, warehouse)
    insert(site, table, [1])
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    insert(site, table, [2, 3])
    must_be_newest(site)
    backup.restore()
    with pytest.raises(Refused, match=r"default\.t: delta_0000002_0000002_0000.*metastore advance"):
        agree(site, "ann")
    assert doubt_of(site) is not None
    advance(site, {("default.t", "delta_0000002_0000002_0000"): Ruling.KEEP})
    agree(site, "ann")
    insert(site, table, [4], commits=False)
    every_role(site)
    assert [row[3] for row in rows_of(site, table)] == [1, 2, 3]


def test_a_write_that_aborted_since_is_named(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    """It has the write ID, and so the directory, of one that had committed."""
    table = make_table(deployment, warehouse)
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    insert(deployment, table, [1])
    must_be_newest(deployment)
    backup.restore()
    (txn,) = deployment.metastore.transactions.open("ann", "h")
    deployment.metastore.write_ids.allocate(txn, table.database, table.name)
    deployment.metastore.transactions.abort(txn, "died")
    (found,) = both_sides(deployment).written
    assert (found.txn, found.state, Path(found.found).name) == (txn, "aborted", "delta_0000001_0000001_0000")


def test_the_database_is_accepted_as_it_is_and_the_old_marks_are_kept(
    restored: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL 11.2: who and when is in the log, and in a file beside the old marks."""
    with caplog.at_level(logging.WARNING):
        done = agree(restored, "ann")
    assert "ann accepted its database as it is" in caplog.text
    assert done.agreed is not None
    kept = json.loads(Path(done.agreed).read_text())
    assert (kept["by"], kept["at"] > 0, kept["remembered"][0]["newest_transaction"]) == ("ann", True, 3)
    assert kept["doubt"]["transactions_behind"] == 2
    assert doubt_of(restored) is None
    commit(afresh(restored))
    assert doubt_of(restored) is None


def test_where_both_agree_nothing_is_changed(deployment: Site) -> None:
    commit(deployment)
    before = sorted(folder(deployment).iterdir())
    assert agree(deployment, "ann").agreed is None
    assert sorted(folder(deployment).iterdir()) == before


def test_after_it_a_database_from_before_is_in_doubt_again(restored: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2: the one that was accepted counts, also against the one that was right until then."""
    older = Backup(tmp_path / "metastore.db")
    older.take()
    agree(restored, "ann")
    older.restore()
    with pytest.raises(Disagreement):
        must_be_newest(afresh(restored))


def test_a_file_of_a_process_that_slept_through_it_is_dominated(
    restored: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 11.2: an agreement leaves numbers out, so that one drawn before it is never the newest."""
    must_stay = Backup(tmp_path / "metastore.db")
    must_stay.take()
    agree(restored, "ann")  # the database goes on from here

    def slept(step: object) -> None:
        """While it sleeps, the database is put back, and that is agreed to."""
        monkeypatch.setattr(remembering, "reach", lambda step: None)
        must_stay.restore()
        agree(afresh(restored), "bob")

    monkeypatch.setattr(remembering, "reach", slept)
    commit(afresh(restored))
    assert doubt_of(afresh(restored)) is None
    commit(afresh(restored))


def test_a_file_that_cannot_be_read_can_be_agreed_away(deployment: Site) -> None:
    commit(deployment)
    (path,) = folder(deployment).iterdir()
    path.write_text("{")
    assert both_sides(afresh(deployment)).unreadable is not None
    agree(afresh(deployment), "ann")
    assert doubt_of(afresh(deployment)) is None


def test_it_needs_a_memory_and_a_mode_that_writes(restored: Site) -> None:
    with pytest.raises(Refused, match="nothing is remembered of it outside of its database"):
        both_sides(replace(restored, memory=None))
    with pytest.raises(Refused, match=r"compactor\.mode is observe"):
        agree(with_settings(restored, compactor_mode="observe"), "ann")


def write_rows(site: Site, table: Table, *, on_disk: bool = True) -> tuple[int, int]:
    (txn,) = site.metastore.transactions.open("ann", "h")
    write_id = site.metastore.write_ids.allocate(txn, table.database, table.name)
    if on_disk:
        delta = Path(table.location) / f"delta_{write_id:07d}_{write_id:07d}_0000"
        delta.mkdir()
        (delta / "bucket_00000").write_bytes(b"rows")
    return txn, write_id


def test_only_what_is_on_disk_is_listed(site: Site, table: Table) -> None:
    first, second = write_rows(site, table), write_rows(site, table)
    write_rows(site, table, on_disk=False)
    committed, _ = write_rows(site, table)
    site.metastore.transactions.commit(committed)  # type: ignore[arg-type]
    assert [(write.txn, write.write_id) for write in open_writes(site)] == [first, second]


def test_a_place_that_is_away_is_told(site: Site, table: Table) -> None:
    txn, _ = write_rows(site, table, on_disk=False)
    Path(table.location).rename(f"{table.location}.away")
    (write,) = open_writes(site)
    assert write.txn == txn
    assert "does not exist" in write.found


def test_a_table_that_was_dropped_holds_nothing(site: Site, table: Table) -> None:
    write_rows(site, table)
    site.metastore.embedded_catalog.drop_table(table)
    assert open_writes(site) == ()
