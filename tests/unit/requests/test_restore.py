"""Undoing a compaction from quarantine (PROTOCOL 11.15)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.directory import acid_directory
from compactor.base.errors import Disagreement, LockNotGranted, NotFound, Refused, StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Request
from compactor.compaction.states import CompactionType
from compactor.housekeeper.housekeeper import keep_house
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COLUMNS_V2
from compactor.requests.pause import resume
from compactor.requests.request import request_compaction
from compactor.requests.restore import preview_restore, restore
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.publish import quarantine_moves
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.quarantine import erase_due
from compactor.site.site import Site, own_state, paused_tables
from compactor.storage.local import LocalStorage
from demo.snapshot_reader import read_snapshot
from tests.support import insert_only
from tests.support.backups import Backup
from tests.support.kept_tables import KeptTables
from tests.support.oracle import read_lines
from tests.support.passes import clean_all, compact, every_role, rows_without_visibility, with_storage
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

HERE = ".compactor_quarantine_1"


@pytest.fixture
def site(deployment: Site) -> Site:
    return keeping(deployment)


def keeping(site: Site, **values: str) -> Site:
    given = {"compactor_quarantine": "7d", "hive_txn_opentxn_timeout": "1ms", "compactor_lock_wait": "50ms"}
    return with_settings(site, **(given | values))


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    """Three deltas and a delete delta."""
    return kept_tables.get(site, warehouse, make_deltas)


def make_deltas(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for start in (0, 10, 20):
        insert(site, table, range(start, start + 10))
    delete(site, table, [3, 14])
    return table


def files_of(table: Table) -> dict[str, bytes]:
    """Everything that a reader may look at, with its content."""
    place = Path(table.location)
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.relative_to(place).parts[0].startswith((".", "_"))
    }


def compacted(site: Site, kind: str = "major") -> tuple[str, ...]:
    output = compact(site, kind).output
    clean_all(site)
    return output


def undo(site: Site, entry_id: int = 1) -> None:
    restore(site, "default.t", None, entry_id, "ann")


def test_a_major_is_undone_to_the_byte_and_every_reader_sees_the_same_rows(site: Site, table: Table) -> None:
    """DESIGN 8.1: for our reader, for one without visibility, and for the oracle."""
    before, rows, lines = files_of(table), rows_of(site, table), read_lines(site.metastore, table)
    (output,) = compacted(site)
    made = files_of(table)
    seen = preview_restore(site, "default.t", None, 1)
    assert (set(seen.undo.back), seen.undo.outputs, seen.done) == (
        {name.partition("/")[0] for name in before},
        (output,),
        False,
    )
    assert (files_of(table), HERE in names_in(Path(table.location))) == (made, True)
    done = restore(site, "default.t", None, 1, "ann")
    assert (done.undo, done.done) == (seen.undo, True)
    assert files_of(table) == before
    assert rows_of(site, table) == rows_without_visibility(site, table) == rows
    assert read_lines(site.metastore, table) == lines
    place = Path(table.location) / HERE / output
    assert {f"{output}/{path.name}": path.read_bytes() for path in place.iterdir()} == made
    assert site.metastore.transactions.open_transactions() == []
    assert site.metastore.locks.show() == []


def test_a_minor_whose_output_is_one_directory_is_undone(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for start in (0, 10, 20):
        insert(site, table, range(start, start + 10))
    before, rows = files_of(table), rows_of(site, table)
    compacted(site, "minor")
    undo(site)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_the_chunks_of_a_bounded_minor_are_undone_together(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for start in range(0, 80, 10):
        insert(site, table, range(start, start + 10))
    before, rows = files_of(table), rows_of(site, table)
    properties = {"compactor.max.time": "1h", "compactor.chunk.bytes": "4000"}
    request_compaction(site, table="default.t", type="minor", properties=properties)
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert len(outcome.output) > 1
    clean_all(site)
    undo(site)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_a_pair_is_refused_by_name(site: Site, table: Table) -> None:
    """PROTOCOL 5.13: no reader may ever meet half of it."""
    compacted(site)
    for value in (100, 101):
        insert(site, table, [value])
    delete(site, table, [5])
    output = compacted(site, "minor")
    assert len(output) == 2
    with pytest.raises(
        Refused, match=r"default.t: compaction 2 cannot be undone, and nothing was changed: its output is a pair"
    ):
        undo(site, 2)


@pytest.mark.parametrize("file_format", [FileFormat.ORC, FileFormat.TEXT])
def test_an_insert_only_table_is_undone(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    table = insert_only.make_insert_only(site, warehouse, file_format)
    for start in (0, 10):
        insert_only.insert(site, table, file_format, range(start, start + 10))
    before, rows = files_of(table), insert_only.rows_of(site, table, file_format)
    compact(site, table=str(table))
    clean_all(site)
    restore(site, str(table), None, 1, "ann")
    assert (files_of(table), insert_only.rows_of(site, table, file_format)) == (before, rows)


def test_what_was_there_before_and_was_not_compacted_stays(site: Site, table: Table) -> None:
    """A minor leaves the base alone."""
    compacted(site)
    for value in (100, 101):
        insert(site, table, [value])
    before, rows = files_of(table), rows_of(site, table)
    compacted(site, "minor")
    undo(site, 2)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_one_after_the_other_back_to_the_beginning(site: Site, table: Table) -> None:
    """A base over a base: each is undone while the one before is what is read."""
    before, rows = files_of(table), rows_of(site, table)
    compacted(site)
    undo(site)
    assert files_of(table) == before
    compacted(site)
    undo(site, 2)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_the_output_is_kept_for_as_long_again_and_then_erased(site: Site, table: Table) -> None:
    (output,) = compacted(site)
    (was,) = own_state(site).quarantines.all(site.name)
    undo(site)
    (now,) = own_state(site).quarantines.all(site.name)
    assert now.names == (output,)
    assert now.until > was.until
    assert now.bytes == sum(f.length for f in quarantine_moves.listing(site.storage, table.location, 1).files)
    own_state(site).quarantines.keep(site.name, replace(now, until=1))
    rows = rows_of(site, table)
    assert len(erase_due(site)) == 1
    assert (HERE in names_in(Path(table.location)), rows_of(site, table)) == (False, rows)


def test_every_role_takes_what_is_back_for_what_it_is(site: Site, table: Table) -> None:
    """The table goes on as if there had been no compaction; the initiator leaves it alone until it is resumed."""
    keen = keeping(site, hive_compactor_delta_num_threshold="1")
    before, rows = files_of(table), rows_of(site, table)
    compacted(site)
    undo(site)
    every_role(keen)
    assert (files_of(table), rows_of(site, table)) == (before, rows)
    resume(site, "default.t")
    insert(site, table, [100])
    delete(site, table, [100])
    compacted(site)
    keep_house(site)
    assert rows_of(site, table) == rows


# --- every instant -------------------------------------------------------------------------------------------------


def snapshot_rows(site: Site, table: Table) -> list[tuple[Any, ...]]:
    """The rows that a reader that honours visibility reads, without a transaction of its own."""
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    directory = acid_directory(LocalStorage().listing(table.location), write_ids, txns)
    batches = read_snapshot(table.location, directory, write_ids, table.row_type)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


class Watched(LocalStorage):
    """Calls ``seen`` before and after each rename."""

    def __init__(self, seen: Callable[[], object]) -> None:
        self._seen = seen

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self._seen()
        super().rename(source, target, durable=durable)
        self._seen()


def test_readers_see_the_same_rows_at_every_instant(site: Site, table: Table) -> None:
    rows = rows_of(site, table)
    compacted(site)
    seen: list[bool] = []

    def look() -> None:
        seen.append(snapshot_rows(site, table) == rows_without_visibility(site, table) == rows)

    undo(with_storage(site, Watched(look)))
    assert len(seen) == 2 * 5
    assert all(seen)


def test_the_output_goes_last_and_the_table_is_locked_until_then(site: Site, table: Table) -> None:
    (output,) = compacted(site)
    moves: list[tuple[str, list[LockType]]] = []

    class Locks(LocalStorage):
        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            moves.append((Path(source).name, [row.type for row in site.metastore.locks.show()]))
            super().rename(source, target, durable=durable)

    undo(with_storage(site, Locks()))
    assert moves[-1][0] == output
    assert {tuple(locks) for _, locks in moves} == {(LockType.EXCLUSIVE,)}


# --- what is refused -----------------------------------------------------------------------------------------------


def refused(site: Site, table: Table, entry_id: int = 1) -> str:
    """Returns the refusal; neither it nor the preview moves anything."""
    before = names_in(Path(table.location))
    messages = []
    for call in (lambda: preview_restore(site, "default.t", None, entry_id), lambda: undo(site, entry_id)):
        with pytest.raises(Refused) as error:
            call()
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert names_in(Path(table.location)) == before
    return messages[0]


def test_a_later_write(site: Site, table: Table) -> None:
    compacted(site)
    insert(site, table, [100])
    assert "delta_0000005_0000005_0000 has later writes than its output" in refused(site, table)


def test_a_later_compaction(site: Site, table: Table) -> None:
    compacted(site)
    insert(site, table, [100])
    compacted(site)
    assert "is gone: a later compaction" in refused(site, table)


def test_a_later_rebalance(site: Site, table: Table) -> None:
    compacted(site)
    compact(site, "rebalance")
    assert "compaction 2 of it is ready for cleaning; let it end first" in refused(site, table)
    clean_all(site)
    assert "is gone: a later compaction" in refused(site, table)


def test_a_rebalance_itself(site: Site, table: Table) -> None:
    compact(site, "rebalance")
    clean_all(site)
    assert "nothing of compaction 1 is in quarantine there (it is a rebalance of default.t, succeeded)" in refused(
        site, table
    )


def test_a_request_in_the_queue(site: Site, table: Table) -> None:
    compacted(site)
    request_compaction(site, table="default.t", type="major")
    assert "compaction 2 of it is initiated; let it end first" in refused(site, table)


def test_a_table_that_was_made_again(site: Site, table: Table, warehouse: Path) -> None:
    compacted(site)
    site.metastore.embedded_catalog.drop_table(table)
    (warehouse / "t").rename(warehouse / "old")
    made = make_table(site, warehouse)
    (warehouse / "old" / HERE).rename(warehouse / "t" / HERE)
    assert "was dropped and created again since" in refused(site, made)


def test_other_columns(site: Site, table: Table) -> None:
    compacted(site)
    with site.metastore.database.write() as conn:
        conn.execute(COLUMNS_V2.update().where(COLUMNS_V2.c.COLUMN_NAME == "b").values(COLUMN_NAME="c"))
    assert "the table's columns were struct<a:int,b:string> and are struct<a:int,c:string>" in refused(site, table)


def test_a_file_that_is_gone_or_changed(site: Site, table: Table) -> None:
    compacted(site)
    file = next((Path(table.location) / HERE / "delta_0000001_0000001_0000").glob("bucket_*"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert f"{len(content)} bytes when it was kept, and now has {len(content) - 1}" in refused(site, table)
    file.unlink()
    assert "and now is gone" in refused(site, table)


def test_what_hive_compacted(site: Site, table: Table) -> None:
    compact(site)
    (Path(table.location) / HERE / "_manifest.json").unlink()
    clean_all(site)
    assert "its inputs are not known" in refused(site, table)


def test_what_is_not_in_quarantine(site: Site, table: Table) -> None:
    assert "nothing of compaction 9 is in quarantine there (the metastore does not remember" in refused(site, table, 9)
    with pytest.raises(NotFound):
        undo(site, 9)


@pytest.mark.parametrize("mode", ["observe", "compact"])
def test_below_clean_nothing_is_undone(site: Site, table: Table, mode: str) -> None:
    """PROTOCOL 7.5: there Hive's own cleaner may remove what comes back."""
    compacted(site)
    assert f"compactor.mode is {mode} (flag)" in refused(keeping(site, compactor_mode=mode), table)


def test_an_older_copy_of_the_database(site: Site, table: Table, tmp_path: Path) -> None:
    """PROTOCOL 11.2: it does not know what was written since."""
    backup = Backup(tmp_path / "metastore.db")
    compacted(site)
    backup.take()
    insert(site, table, [100])
    clean(site)  # remembers it
    backup.restore()
    before = files_of(table)
    with pytest.raises(Disagreement, match="the database is older than what"):
        undo(site)
    assert files_of(table) == before


def test_a_second_time(site: Site, table: Table) -> None:
    compacted(site)
    undo(site)
    assert "or it was undone already" in refused(site, table)


# --- others at the same time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LockType.SHARED_READ, LockType.SHARED_WRITE])
def test_a_table_in_use_is_not_touched(site: Site, table: Table, kind: LockType) -> None:
    compacted(site)
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.locks.acquire(txn, [site.target(entity_of(table)).lock(kind)], "ann", "h")
    before = names_in(Path(table.location))
    with pytest.raises(LockNotGranted, match="it is being read or written"):
        undo(site)
    assert names_in(Path(table.location)) == before
    site.metastore.transactions.commit(txn)
    undo(site)


def test_it_waits_for_its_turn(site: Site, table: Table) -> None:
    compacted(site)
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.locks.acquire(txn, [site.target(entity_of(table)).lock(LockType.SHARED_READ)], "ann", "h")
    patient = keeping(site, compactor_lock_wait="60s")
    thread = threading.Thread(target=undo, args=(patient,))
    thread.start()
    site.metastore.transactions.commit(txn)
    thread.join(60)
    assert (Path(table.location) / "delta_0000001_0000001_0000").is_dir()


def test_a_transaction_without_a_lock_may_be_reading(site: Site, table: Table) -> None:
    """It may have listed the directory before the inputs came back, and would look for the rest after the output went."""
    made = files_of(table) if compacted(site) else {}
    (txn,) = site.metastore.transactions.open("ann", "h")
    rows = rows_of(site, table)
    with pytest.raises(LockNotGranted, match=f"transaction {txn} is open without a lock and may be reading it"):
        undo(site)
    assert (files_of(table), rows_of(site, table)) == (made, rows)
    site.metastore.transactions.commit(txn)
    undo(site)
    assert rows_of(site, table) == rows


def test_a_transaction_with_a_lock_elsewhere_is_not_waited_for(site: Site, table: Table, warehouse: Path) -> None:
    other = make_table(site, warehouse, "u")
    compacted(site)
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.locks.acquire(txn, [site.target(entity_of(other)).lock(LockType.SHARED_READ)], "ann", "h")
    undo(site)
    assert (Path(table.location) / "delta_0000001_0000001_0000").is_dir()


class Fails(LocalStorage):
    """Fails at the ``nth`` rename."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self._left -= 1
        if self._left == 0:
            raise StorageError(f"cannot rename to {target}: Input/output error")
        super().rename(source, target, durable=durable)


@pytest.mark.parametrize("nth", [1, 2, 4, 5])
def test_a_failure_changes_nothing_for_readers_and_a_second_call_ends_it(site: Site, table: Table, nth: int) -> None:
    before, rows = files_of(table), rows_of(site, table)
    compacted(site)
    with pytest.raises(StorageError, match="Input/output error"):
        undo(with_storage(site, Fails(nth)))
    assert paused_tables(site) == frozenset()
    assert snapshot_rows(site, table) == rows_without_visibility(site, table) == rows
    undo(site)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_a_cleaning_after_a_failed_call_takes_nothing_from_the_next_one(site: Site, table: Table) -> None:
    """The inputs beside the output are obsolete, and go back where they came from."""
    before, rows = files_of(table), rows_of(site, table)
    compacted(site)
    place = Path(table.location)
    (place / HERE / "delta_0000001_0000001_0000").rename(place / "delta_0000001_0000001_0000")
    ask = Request(entity=entity_of(table), type=CompactionType.MAJOR, initiator="compactor-x")
    site.metastore.requests.request(ask)  # as the initiator does where there is only to clean
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    assert rows_of(site, table) == rows
    assert "delta_0000001_0000001_0000" in names_in(place / HERE)
    undo(site)
    assert (files_of(table), rows_of(site, table)) == (before, rows)


def test_a_lock_that_was_lost_leaves_the_output(site: Site, table: Table) -> None:
    """A paused process: its transaction was timed out before it takes the output away."""
    made = files_of(table) if compacted(site) else {}
    rows = rows_of(site, table)

    class Slow(LocalStorage):
        def sync_names(self, paths: Any) -> Any:
            for txn in site.metastore.transactions.open_transactions():
                site.metastore.transactions.abort(txn.id, "timed out")
            return super().sync_names(paths)

    with pytest.raises(Exception, match="is aborted"):
        undo(with_storage(site, Slow()))
    assert made.items() <= files_of(table).items()
    assert snapshot_rows(site, table) == rows_without_visibility(site, table) == rows
    undo(site)
    assert rows_of(site, table) == rows


def test_a_table_that_was_dropped_meanwhile(site: Site, table: Table) -> None:
    compacted(site)

    class Meanwhile(LocalStorage):
        def sync_names(self, paths: Any) -> Any:
            site.metastore.embedded_catalog.drop_table(table)
            return super().sync_names(paths)

    before = files_of(table)
    with pytest.raises(NotFound):
        undo(with_storage(site, Meanwhile()))
    assert files_of(table) == before
