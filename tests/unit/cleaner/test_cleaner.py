"""Directories that a pass of the cleaner removes and keeps; the gate is tested in tests/integration/service."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import insert as sql_insert
from sqlalchemy import select, update

from compactor.acid.listing import Listing
from compactor.acid.names import parse_hidden
from compactor.base.errors import StorageError
from compactor.cleaner import cleaner
from compactor.cleaner.cleaner import CleanerPass, clean
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from tests.support.backups import Backup, without_memory
from tests.support.passes import clean_all, compact, lose_cleaners, settle, with_storage
from tests.support.patience import PATIENCE, until
from tests.support.tables import entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, table, [value])
    return table


def cleaned(site: Site) -> CleanerPass:
    def does_something() -> CleanerPass | None:
        passed = clean(site)
        return passed if passed.cleaned or passed.ended else None

    return cast("CleanerPass", until("a cleaning", does_something))


def test_removed_names_and_bytes_are_reported(site: Site, table: Table) -> None:
    files = [f for f in Path(table.location).rglob("*") if f.is_file() and not f.name.startswith("_")]
    least = sum(f.stat().st_size for f in files)
    before = names_in(Path(table.location))
    compact(site)
    passed = cleaned(site)
    (done,) = passed.cleaned
    assert set(done.removed) == before
    assert done.bytes_freed >= least
    said = {"table": "default.t", "compaction": 1, "removed": sorted(before), "bytes_freed": done.bytes_freed}
    assert passed.to_json()["cleaned"] == [said | {"quarantined": []}]


def test_later_directories_stay(site: Site, table: Table) -> None:
    compact(site)
    insert(site, table, [4])
    wanted = rows_of(site, table)
    cleaned(site)
    assert "delta_0000004_0000004_0000" in names_in(Path(table.location))
    assert rows_of(site, table) == wanted


def test_a_directory_is_hidden_before_it_is_emptied(site: Site, table: Table) -> None:
    """PROTOCOL 7.3: removed file by file, a reader would see half of it."""
    compact(site)
    removed: list[str] = []

    class Seen(LocalStorage):
        def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
            removed.extend(Path(path).name for path in paths)
            return super().remove_all(paths, durable=durable)

    clean_all(replace(site, storage=Seen()))
    assert len(removed) == 3
    assert [name for name in removed if parse_hidden(name) is None] == []
    assert len(names_in(Path(table.location))) == 1


def test_a_reader_that_came_between_the_stamp_and_the_commit_of_hive_4_2(site: Site, table: Table) -> None:
    """PROTOCOL 7.1: Hive 4.2 commits without TXN_LOCK_TBL, so a newer transaction than its stamp may not see the compaction.
    What was newest when its row was first seen committed counts for it; for ours the stamp does."""
    compact(site)
    [reader] = site.metastore.transactions.open("ann", "laptop")  # the stamp is older
    before = names_in(Path(table.location))
    site.metastore.schema_version = "4.2.0"
    _compacted_by(site, "4.2.0", "o")
    settle()
    [waiting] = clean(site).waiting
    assert "its own transaction" in waiting.because
    [late] = site.metastore.transactions.open("ann", "laptop")  # before the commit: not yet first sight
    _compacted_by(site, "4.2.0", "c")
    settle()
    for ended in (reader, late):
        [waiting] = clean(site).waiting
        assert waiting.blockers[0].txn == ended
        assert names_in(Path(table.location)) == before
        site.metastore.transactions.commit(ended)
    [after] = site.metastore.transactions.open("ann", "laptop")
    clean_all(site)
    assert len(names_in(Path(table.location))) == 1
    site.metastore.transactions.commit(after)


def test_our_own_stamp_is_exact_beside_hive_4_2_too(site: Site, table: Table) -> None:
    """We hold TXN_LOCK_TBL from reading the newest transaction to the commit."""
    compact(site)
    site.metastore.schema_version = "4.2.0"
    [after] = site.metastore.transactions.open("ann", "laptop")
    clean_all(site)
    assert len(names_in(Path(table.location))) == 1
    site.metastore.transactions.commit(after)


def _compacted_by(site: Site, version: str, state: str) -> None:
    """Makes the only entry look as if Hive's worker had compacted it, with its transaction in ``state``."""
    [entry] = site.metastore.entries.queue()
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_WORKER_VERSION=version))
        conn.execute(update(TXNS).where(TXNS.c.TXN_ID.in_([entry.txn_id])).values(TXN_STATE=state))


def test_a_foreign_file_is_left_alone(site: Site, table: Table) -> None:
    """A directory that is hidden from readers and not ours stays."""
    foreign = Path(table.location) / "_notes"
    foreign.mkdir()
    (foreign / "read.me").write_text("mine")
    compact(site)
    cleaned(site)
    assert (foreign / "read.me").read_text() == "mine"


def test_a_table_that_forbids_it_is_not_cleaned(site: Site, table: Table) -> None:
    site.metastore.embedded_catalog.set_table_parameter(table, "no_cleanup", "true")
    compact(site)
    before = names_in(Path(table.location))
    (ended,) = cleaned(site).ended
    assert (ended.state, names_in(Path(table.location))) == (State.REFUSED, before)
    assert "no_cleanup" in ended.because


def test_the_row_of_a_dropped_table_ends(site: Site, table: Table) -> None:
    """PROTOCOL 7.4: rows with nothing left to clean end."""
    compact(site)
    with site.metastore.database.read() as conn:
        (row,) = conn.execute(select(COMPACTION_QUEUE)).mappings().all()
    site.metastore.embedded_catalog.drop_table(table)
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(COMPACTION_QUEUE).values(**row))
    (ended,) = cleaned(site).ended
    assert (ended.state, ended.because) == (State.SUCCEEDED, "the table or partition is gone")


def test_aborted_writes_past_their_threshold_are_removed_without_a_request(site: Site, table: Table) -> None:
    insert(site, table, [9], commits=False)
    wanted = rows_of(site, table)
    clean(site)
    assert "delta_0000004_0000004_0000" in names_in(Path(table.location))
    keen = with_settings(site, hive_compactor_abortedtxn_threshold="0", hive_txn_opentxn_timeout="1ms")
    (done,) = cleaned(keen).cleaned
    assert (done.entry_id, done.removed) == (None, ("delta_0000004_0000004_0000",))
    assert rows_of(site, table) == wanted
    clean_all(site)


def test_a_row_waits_for_hidden_directories_beside_those_it_removed(site: Site, table: Table) -> None:
    """PROTOCOL 7.2, 8: the aborted components go with the row, so none of their data may be in storage."""
    compact(site)
    hidden = Path(table.location) / ".compactor_obsolete_99999_base_0000001_v0000007"
    hidden.mkdir()
    settle()
    (waiting,) = clean(site).waiting
    assert hidden.name in waiting.because
    assert [entry.state for entry in site.metastore.entries.queue()] == [State.READY_FOR_CLEANING]
    hidden.rmdir()
    clean_all(site)
    assert site.metastore.entries.history()[0].state is State.SUCCEEDED


def test_directories_of_aborted_compactions_wait_for_the_gate_beside_aborted_writes(site: Site, table: Table) -> None:
    """PROTOCOL 7.2: no reader ever had rows of aborted writes, but one may have this directory open."""
    (reader,) = site.metastore.transactions.open("ann", "h")
    insert(site, table, [9], commits=False)
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    (Path(table.location) / f"base_0000003_v{txn:07d}").mkdir()
    site.metastore.transactions.abort(txn, "by hand")
    keen = with_settings(site, hive_compactor_abortedtxn_threshold="0", hive_txn_opentxn_timeout="1ms")
    assert [done.removed for done in clean(keen).cleaned] == [("delta_0000004_0000004_0000",)]
    (hidden,) = filter(None, map(parse_hidden, names_in(Path(table.location))))
    assert hidden.until >= reader


class _Meanwhile(LocalStorage):
    """Calls ``what`` before the first directory is removed."""

    def __init__(self, what: Callable[[], object]) -> None:
        self._what: Callable[[], object] | None = what

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        what, self._what = self._what, None
        if what is not None:
            what()
        return super().remove_all(paths, durable=durable)


def test_a_faster_cleaner_is_not_a_failure(site: Site, table: Table) -> None:
    """Hive's cleaner, or one of ours that takes this one for dead, may remove the row and its directories meanwhile."""
    compact(site)
    wanted = rows_of(site, table)
    settle()
    others: list[CleanerPass] = []

    def another() -> None:
        lose_cleaners(site)
        others.append(clean(site))

    passed = clean(replace(site, storage=_Meanwhile(another)))
    assert [len(other.cleaned) for other in others] == [1]
    assert (passed.cleaned, passed.waiting, passed.failed) == ((), (), ())
    assert [entry.state for entry in site.metastore.entries.history()] == [State.SUCCEEDED]
    assert rows_of(site, table) == wanted
    assert len(names_in(Path(table.location))) == 1


class _MeetingOnce(LocalStorage):
    """A store that answers the first listing of each location once two of them were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._both = threading.Barrier(2)
        self._seen: set[str] = set()

    def listing(self, path: str) -> Listing:
        if path not in self._seen:
            self._seen.add(path)
            self._both.wait(PATIENCE)
        return super().listing(path)


def test_groups_of_different_tables_are_cleaned_side_by_side(
    site: Site, table: Table, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one asks the database, the threads work for another."""
    monkeypatch.setattr(cleaner, "GROUP_SIZE", 1)
    other = make_table(site, warehouse, name="other")
    for value in (1, 2):
        insert(site, other, [value])
    compact(site)
    compact(site, table="default.other")
    settle()
    passed = clean(replace(site, storage=_MeetingOnce()))
    assert (len(passed.cleaned), passed.waiting, passed.failed) == (2, (), ())
    assert len(names_in(Path(table.location))) == len(names_in(Path(other.location))) == 1


@pytest.mark.parametrize("when", ["listed", "checked"])
def test_a_table_made_again_while_the_cleaner_slept_keeps_its_rows(
    site: Site, table: Table, warehouse: Path, when: str
) -> None:
    """PROTOCOL 11.8: 177 of 180 committed rows of the new table were deleted, as its directories had the old ones' names."""
    compact(site)
    asleep = [True]

    def make_again() -> None:
        if not asleep[0]:
            return
        asleep[0] = False
        site.metastore.embedded_catalog.drop_table(table)
        shutil.rmtree(table.location)
        new = make_table(site, warehouse)
        for value in (10, 20, 30):
            insert(site, new, [value])
        assert new.id != table.id

    class Sleeps(LocalStorage):
        """Wakes up after it has found out which directories there are, or which table they are of."""

        def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
            if when == "listed":
                make_again()
            return super().identities(path, names)

        def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
            if when == "checked":
                make_again()
            return super().rename_each(path, names)

    passed = [clean(with_storage(site, Sleeps())) for _ in range(20)]
    assert asleep == [False]
    assert [done.removed for one in passed for done in one.cleaned] == []
    new = site.target(entity_of(table)).table
    assert [row[-2:] for row in rows_of(site, new)] == [(10, "row 10"), (20, "row 20"), (30, "row 30")]


def test_an_output_that_may_be_the_only_copy_does_not_go_with_an_older_entry(site: Site, table: Table) -> None:
    """PROTOCOL 11.5: after a restore, its number was given again to a compaction elsewhere, which failed."""
    compact(site)
    insert(site, table, [4])
    backup = Backup(site.metastore.database.path)
    backup.take()
    last = compact(site)
    clean_all(site)
    (output,) = names_in(Path(table.location))
    backup.restore()
    site, transactions = without_memory(site), site.metastore.transactions
    while transactions.newest() < (last.txn or 0):
        transactions.abort(transactions.open("ann", "h", type=TxnType.COMPACTION)[0], "failed")
    settle()
    (failed,) = clean(site).failed
    assert "may be the only copy" in failed.because
    assert names_in(Path(table.location)) == {output}


def test_one_directory_that_cannot_be_removed_keeps_the_entry_and_no_other_directory(
    site: Site, table: Table, warehouse: Path
) -> None:
    """All are hidden together, so no reader sees any of them; the next pass removes what is left."""

    class Stuck(LocalStorage):
        def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
            stuck = {path: StorageError(f"{path}: cannot be removed") for path in paths if "delta_0000002" in path}
            others = [path for path in paths if path not in stuck]
            return {**stuck, **super().remove_all(others, durable=durable)}

    compact(site)
    settle()
    (failed,) = clean(with_storage(site, Stuck())).failed
    assert "cannot be removed" in failed.because
    left = {path.name for path in Path(table.location).iterdir() if parse_hidden(path.name)}
    assert {name.rpartition("delta_")[2] for name in left} == {"0000002_0000002_0000"}
    assert [entry.state for entry in site.metastore.entries.queue()] == [State.READY_FOR_CLEANING]
