"""A metastore's database that is put back from an older copy, and what is remembered of it outside (PROTOCOL 11.2)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from compactor.answers.explain import explain
from compactor.base.errors import Disagreement, StorageError
from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.mark_comparison import KEPT_TOKENS
from compactor.compaction.states import State
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import AUX_TABLE, NEXT_WRITE_ID
from compactor.requests.abort import abort_compaction, abort_transaction
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import restored_database as remembering
from compactor.site.mark_files import MarkFiles
from compactor.site.restored_database import behind, doubt_of, must_be_newest, must_still_be_newest, sentences_about
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.ending import Result
from tests.support.backups import Backup, hours_pass
from tests.support.passes import ROLES, clean_all, compact, every_role
from tests.support.tables import insert, insert_within, make_table, rows_of, with_settings

OF_MEMORY = AUX_TABLE.c.MT_KEY1.contains("memory")


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_forget_grace="0s")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    return make_table(site, warehouse)


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return Backup(tmp_path / "metastore.db")


def files_of(table: Table) -> dict[str, bytes]:
    root = Path(table.location)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def place_of(site: Site) -> Path:
    assert site.memory is not None
    return Path(site.memory.place)


def marks(site: Site) -> list[str]:
    return sorted(path.name for path in place_of(site).iterdir())


def other_process(site: Site) -> Site:
    """Returns the site as a process sees it that has read nothing yet."""
    folder = place_of(site).parent
    return replace(site, memory=MarkFiles(site.storage, str(folder), site.name, str(folder.parent)))


@pytest.fixture
def restored(site: Site, table: Table, backup: Backup) -> Backup:
    """The accident: a backup taken while an INSERT was open is put back 13 hours after its commit.

    Returns a copy of the database as it was until then.
    """
    insert(site, table, [1, 2])
    every_role(site)
    with transaction(site) as txn:
        insert_within(txn, table, range(100, 120))
        backup.take()
    every_role(site)
    assert len(rows_of(site, table)) == 22
    right = Backup(site.metastore.database.path)
    right.take()
    backup.restore()
    hours_pass(site, 13)
    return right


def test_an_insert_that_the_backup_knew_as_open_is_neither_aborted_nor_removed(
    site: Site, table: Table, restored: Backup
) -> None:
    """PROTOCOL 11.2: our time-out aborted it and the cleaner removed its committed delta, 22 rows -> 2."""
    there = files_of(table)
    for _ in range(3):
        for role in ROLES:
            with pytest.raises(Disagreement, match="the database is older than what"):
                role(other_process(site))
    assert files_of(table) == there
    assert [one.user for one in site.metastore.transactions.open_transactions()] == [site.user]
    restored.restore()
    every_role(site)
    assert len(rows_of(site, table)) == 22


@pytest.mark.usefixtures("restored")
def test_people_cannot_begin_or_abort_anything_there(site: Site) -> None:
    """PROTOCOL 11.2."""
    (txn,) = (one.id for one in site.metastore.transactions.open_transactions())
    acts: tuple[Callable[[], object], ...] = (
        lambda: request_compaction(site, table="default.t"),
        lambda: abort_transaction(site, txn, "by hand"),
        lambda: abort_compaction(site, 1),
    )
    for act in acts:
        with pytest.raises(Disagreement, match="Nothing is timed out, aborted, compacted"):
            act()
    assert site.metastore.transactions.state(txn) == "o"
    assert site.metastore.entries.queue() == []


@pytest.mark.usefixtures("restored")
def test_what_only_shows_says_why_nothing_is_done(site: Site) -> None:
    """PROTOCOL 11.2: by how much the database is behind, and what to do."""
    (sentence,) = explain(site, "default.t").doubt
    assert sentence.startswith(f"metastore default ({site.metastore.database.url}): the database is older than what ")
    for part in ("newest token: number", "remembered 20", "Wanted is", "compactor metastore agree"):
        assert part in sentence
    observing = with_settings(site, compactor_mode="observe")
    assert sentences_about(observing) == (sentence,)
    assert initiate(observing).considered


def test_an_only_copy_is_kept_where_the_backup_knows_its_compaction_as_open(
    site: Site, table: Table, backup: Backup
) -> None:
    """PROTOCOL 11.2: committed and cleaned since; a token is written before anything is removed."""
    for value in (1, 2, 3):
        insert(site, table, [value])

    class TakenWhileUnitsRun(InProcessRunner):
        def run(self, jobs: Any) -> Any:
            backup.take()
            return super().run(jobs)

    compact(site, runner=TakenWhileUnitsRun())
    clean_all(site)
    only_copy = files_of(table)
    backup.restore()
    hours_pass(site, 13)
    for _ in range(3):
        for role in ROLES:
            with pytest.raises(Disagreement):
                role(other_process(site))
    assert files_of(table) == only_copy


@pytest.mark.parametrize("known", ["before the claim", "while its units run"])
def test_a_worker_under_way_ends_without_a_trace(site: Site, table: Table, backup: Backup, known: str) -> None:
    """PROTOCOL 11.2: it names nothing, and aborts nobody who was given its number since."""
    for value in (1, 2, 3):
        insert(site, table, [value])
    request_compaction(site, table="default.t")
    if known == "before the claim":
        backup.take()

    class RestoredWhileUnitsRun(InProcessRunner):
        def run(self, jobs: Any) -> Any:
            if known == "while its units run":
                backup.take()
            result = super().run(jobs)
            clean(other_process(site))  # a pass beside it
            backup.restore()
            if known == "before the claim":
                site.metastore.transactions.open("ann", "h")
            return result

    before = files_of(table)
    (done,) = run_entries(site, list_claimable_ids(site), RestoredWhileUnitsRun()).outcomes
    assert done.result is Result.FAILED
    assert "the database is older than what" in done.message
    assert {path: content for path, content in files_of(table).items() if not path.startswith(".")} == before
    assert len(site.metastore.transactions.open_transactions()) == 1
    (entry,) = site.metastore.entries.queue()
    assert entry.state is (State.INITIATED if known == "before the claim" else State.WORKING)


def test_a_restore_is_noticed_after_the_counters_have_grown_beyond(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.2: the token is missing whatever others have written since, Hive for example."""
    initiate(site)
    backup.take()
    insert(site, table, [1])
    initiate(site)
    backup.restore()
    shutil.rmtree(Path(table.location) / "delta_0000001_0000001_0000")
    for value in range(10):
        insert(site, table, [value])
    found = doubt_of(site)
    assert found is not None
    assert [one.subject for one in found.contradictions] == ["newest token", "start of transaction 1 (epoch ms)"]


def test_a_database_without_its_last_seconds_is_behind_by_figures(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.2: a standby that was promoted; the message counts transactions and write IDs."""
    insert(site, table, [1])
    initiate(site)
    backup.take()
    for value in (2, 3):
        insert(site, table, [value])
    initiate(site)
    backup.restore()
    found = doubt_of(site)
    assert found is not None
    assert (found.transactions, found.write_ids) == (2, {"default.t": 2})
    assert behind(found).startswith(" by 2 transactions and 2 write IDs of 1 table (remembered 20")


def test_a_smaller_write_id_of_one_table_is_a_contradiction(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: some tables of the database were restored, and others not."""
    for value in (1, 2, 3):
        insert(site, table, [value])
    initiate(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(NEXT_WRITE_ID).values(NWI_NEXT=2))
    with pytest.raises(Disagreement, match=r"next write ID of default\.t: 2 in the database, 4 remembered"):
        clean(site)


def test_dropped_renamed_and_created_again_is_no_contradiction(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 11.2: another table has another id, and a renamed one keeps its own."""
    catalog = site.metastore.embedded_catalog
    other = make_table(site, warehouse, "u")
    for value in (1, 2, 3):
        insert(site, table, [value])
        insert(site, other, [value])
    initiate(site)
    catalog.drop_table(table)
    shutil.rmtree(table.location)
    initiate(site)
    again = make_table(site, warehouse)
    insert(site, again, [1])
    catalog.rename_table(other, "v")
    every_role(site)
    assert doubt_of(site) is None


def test_purged_rows_are_no_contradiction(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: TXNS keeps only what is needed."""
    for value in range(5):
        insert(site, table, [value])
        initiate(site)
    hours_pass(site, 13)
    assert keep_house(site).transactions_forgotten >= 4
    every_role(site)


class Died(BaseException):
    """A process that ends at a step."""


@contextmanager
def dying_at_the_mark() -> Iterator[None]:
    """Ends a pass after it has written the database, before it writes the file."""

    def die(step: Step) -> None:
        assert step is Step.MARKED
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembering, "reach", die)
        with pytest.raises(Died):
            yield


@pytest.mark.parametrize("updates", [0, 2])
def test_a_crash_between_the_two_writes_is_no_contradiction(site: Site, table: Table, updates: int) -> None:
    """PROTOCOL 11.2: before there is any file, and afterwards, more often than tokens are kept."""
    for value in range(updates):
        insert(site, table, [value])
        every_role(site)
    insert(site, table, [100])
    for _ in range(KEPT_TOKENS + 2):
        with dying_at_the_mark():
            clean(other_process(site))
    assert doubt_of(other_process(site)) is None
    assert len(site.metastore.marks.tokens(site.name)) == KEPT_TOKENS


def test_a_copy_from_before_an_update_that_was_cut_short_is_noticed_after_the_next_one(
    site: Site, table: Table, backup: Backup
) -> None:
    """PROTOCOL 11.2: the numbers go on from the database's."""
    initiate(site)
    insert(site, table, [1])
    backup.take()
    with dying_at_the_mark():
        clean(other_process(site))
    clean(other_process(site))
    assert doubt_of(site) is None
    backup.restore()
    assert doubt_of(other_process(site)) is not None


def test_a_memory_that_was_emptied_or_is_not_mounted_stops_too(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: the database knows that there were files; for two minutes a listing may be an old one."""
    for value in (1, 2):
        insert(site, table, [value])
        initiate(site)
    shutil.rmtree(place_of(site))
    assert doubt_of(other_process(site)) is None
    with site.metastore.database.write() as conn:
        for row in conn.execute(select(AUX_TABLE).where(OF_MEMORY)).all():
            text, at, seen = row.MT_COMMENT.split(" ")
            older = f"{text} {int(at) - 180_000} {seen}"
            this = update(AUX_TABLE).where(OF_MEMORY, AUX_TABLE.c.MT_KEY2 == row.MT_KEY2)
            conn.execute(this.values(MT_COMMENT=older))
    for role in ROLES:
        with pytest.raises(Disagreement, match="newest file of marks: number 1 in the database, none remembered"):
            role(other_process(site))


def test_tokens_that_are_gone_from_the_database_are_a_contradiction(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: a copy from before the first update, or another metastore under the same name."""
    insert(site, table, [1])
    initiate(site)
    with site.metastore.database.write() as conn:
        conn.execute(delete(AUX_TABLE).where(OF_MEMORY))
    with pytest.raises(Disagreement, match="newest token: none in the database, number 1 remembered"):
        clean(site)


def test_two_databases_in_one_place_stop_both(site: Site, table: Table, backup: Backup) -> None:
    """PROTOCOL 11.2: a copy that goes on beside the original, over the same files."""
    initiate(site)
    backup.take()
    insert(site, table, [1])
    initiate(site)
    original = Backup(site.metastore.database.path)
    original.take()
    backup.restore()
    newest = place_of(site) / marks(site)[-1]
    newest.rename(newest.with_suffix(".aside"))
    site.metastore.transactions.open("ann", "h")
    initiate(other_process(site))
    newest.with_suffix(".aside").rename(newest)
    with pytest.raises(Disagreement, match="token 2: "):
        clean(other_process(site))
    original.restore()
    with pytest.raises(Disagreement, match="token 2: "):
        clean(other_process(site))


class Away(LocalStorage):
    """A store that does not answer where the memory is; ``reads`` lets it answer what only reads."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        if self._reads:
            return super().children(path, prefix)
        raise StorageError(f"cannot list {path}: Host is down")

    def write(self, path: str, content: bytes) -> None:
        raise StorageError(f"cannot write {path}: No space left on device")


@pytest.mark.parametrize("reads", [False, True])
def test_a_memory_that_is_away_stops_what_removes_and_nothing_else(
    site: Site, table: Table, warehouse: Path, reads: bool
) -> None:
    """PROTOCOL 11.2: by name; requests, and what only shows, go on."""
    insert(site, table, range(10))
    away = replace(site, memory=MarkFiles(Away(reads=reads), str(warehouse / "m"), site.name, str(warehouse)))
    for role in (clean, keep_house, ROLES[1]):
        with pytest.raises(StorageError, match=r"/warehouse/m/default"):
            role(away)
    assert [one.outcome for one in initiate(away).considered] == ["notneeded"]
    assert request_compaction(away, table="default.t")[0].entry_id is not None
    assert [bool(sentences_about(away)), bool(explain(away, "default.t").doubt)] == [not reads, not reads]


@pytest.mark.parametrize("content", ['{"format": 1, "number"', "[" * 100_000, "[]"])
def test_a_damaged_file_is_named(site: Site, table: Table, content: str) -> None:
    """PROTOCOL 11.2: fail closed, with four parts."""
    insert(site, table, [1])
    initiate(site)
    (name,) = marks(site)
    (place_of(site) / name).write_text(content)
    with pytest.raises(
        StorageError, match=rf"{name}: what is remembered .* wanted is .* put the file back from a copy"
    ):
        clean(other_process(site))


@pytest.mark.parametrize("mode", ["observe", "request"])
def test_modes_below_compact_write_nothing(site: Site, table: Table, mode: str) -> None:
    """PROTOCOL 11.2."""
    insert(site, table, [1])
    every_role(with_settings(site, compactor_mode=mode))
    assert not place_of(site).exists()
    assert site.metastore.marks.tokens(site.name) == ()


def test_a_pass_writes_once_and_only_if_something_has_changed(site: Site, table: Table) -> None:
    """PROTOCOL 11.2: the number of files and tokens is bounded."""
    insert(site, table, [1])
    for _ in range(3):
        clean(site)
        assert len(marks(site)) == 1
    for _ in range(40):
        (txn,) = site.metastore.transactions.open("ann", "h")
        site.metastore.transactions.commit(txn)
        clean(site)
    assert [name[:26] for name in marks(site)] == [f"marks-{number:020d}" for number in (39, 40, 41)]
    assert len(site.metastore.marks.tokens(site.name)) == KEPT_TOKENS


def test_a_caller_that_polls_asks_for_the_tokens_only_and_writes_once_a_minute(site: Site, table: Table) -> None:
    """The idle worker looks every second."""
    must_be_newest(site, polling=True)
    insert(site, table, [1])
    must_be_newest(site, polling=True)
    assert len(marks(site)) == 1
    assert site.memory is not None
    site.memory.checked_at = None
    must_be_newest(site, polling=True)
    assert len(marks(site)) == 1
    with site.metastore.database.write() as conn:
        conn.execute(delete(AUX_TABLE).where(OF_MEMORY))
    must_still_be_newest(site)  # within seconds of the last check nothing is asked
    with pytest.raises(Disagreement):
        must_be_newest(site, polling=True)
    with pytest.raises(Disagreement):
        must_still_be_newest(site)


def test_many_processes_at_once_never_contradict_each_other(site: Site) -> None:
    """PROTOCOL 11.2: each reads the files first and the database afterwards."""
    must_be_newest(site)

    def pass_after_pass(number: int) -> None:
        mine = other_process(site)
        for _ in range(10):
            (txn,) = site.metastore.transactions.open(f"user {number}", "h")
            must_be_newest(mine)
            site.metastore.transactions.commit(txn)
            must_be_newest(mine)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pass_after_pass, range(4)))
    assert doubt_of(other_process(site)) is None
    assert len(marks(site)) <= 6


@pytest.mark.usefixtures("restored")
def test_a_site_without_a_place_is_as_before(site: Site) -> None:
    without = replace(site, memory=None)
    assert doubt_of(without) is None
    assert sentences_about(without) == ()
    must_be_newest(without)
