"""Entries that take their steps together, and what happens to one of them alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.listing import Listing
from compactor.base.errors import CommitUnknown, LostClaim, StorageError
from compactor.batches import driver
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.commit_section import Commits, Committing, EntryCommit
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker import compaction_group
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from compactor.worker.worker import work_together
from tests.support.committing import watched_sections
from tests.support.far_store import OthersMeet, count_as_far
from tests.support.passes import clean_all
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, names_in

NAMES = ("a", "b", "c")


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def tables(site: Site, warehouse: Path) -> list[Table]:
    made = [make_table(site, warehouse, name) for name in NAMES]
    for table in made:
        insert(site, table, range(10))
        insert(site, table, range(10, 20))
    return made


def asked(site: Site, kind: str = "major") -> list[int]:
    for name in NAMES:
        request_compaction(site, table=name, type=kind)
    return list_claimable_ids(site)


def worked(site: Site, runner: Interrupted | InProcessRunner | None = None, kind: str = "major") -> dict[str, Outcome]:
    ids = asked(site, kind)
    outcomes: list[Outcome] = []
    assert work_together(site, ids, runner or InProcessRunner(), Options(), outcomes.append) == ()
    return {outcome.entry.entity.table: outcome for outcome in outcomes}


def assert_nothing_left(site: Site) -> None:
    assert site.metastore.transactions.open_transactions() == []
    assert site.metastore.locks.show() == []


def test_each_has_its_worker_its_transaction_and_its_commit(site: Site, tables: list[Table]) -> None:
    wanted = [rows_of(site, table) for table in tables]
    done = worked(site)
    assert [done[name].result for name in NAMES] == [Result.COMPACTED] * 3
    assert len({outcome.worker_id for outcome in done.values()}) == 3
    assert len({outcome.txn for outcome in done.values()}) == 3
    entries = site.metastore.entries.queue(states=(State.READY_FOR_CLEANING,))
    assert {e.entity.table: e.txn_id for e in entries} == {name: done[name].txn for name in NAMES}
    assert [rows_of(site, table) for table in tables] == wanted
    assert_nothing_left(site)
    clean_all(site)
    assert [len(names_in(Path(table.location))) for table in tables] == [1, 1, 1]


def test_what_only_the_store_is_asked_for_is_done_side_by_side(
    site: Site, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that answers slowly is waited for once for several entries, not once for each."""
    count_as_far(monkeypatch)
    meetings = {name: OthersMeet(len(NAMES)) for name in ("list", "prepare", "name")}
    met: set[tuple[str, str]] = set()

    def meet(what: str, place: str) -> None:
        if (what, place) not in met:
            met.add((what, place))
            meetings[what].wait()

    class Meeting(LocalStorage):
        def listing(self, path: str) -> Listing:
            if Path(path).name in NAMES:
                meet("list", path)
            return super().listing(path)

        def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
            meet("prepare", path)
            super().make_private(path, inside)

        def rename(self, source: str, target: str, *, durable: bool = True) -> None:
            if "base_" in Path(target).name and Path(target).parent.name in NAMES:
                meet("name", target)
            super().rename(source, target, durable=durable)

    done = run_entries(replace(site, storage=Meeting()), asked(site), InProcessRunner())
    assert [outcome.result for outcome in done.outcomes] == [Result.COMPACTED] * len(NAMES)
    assert len(met) == len(meetings) * len(NAMES)


def test_one_whose_file_is_broken_falls_out_alone(site: Site, tables: list[Table]) -> None:
    broken = Path(tables[1].location) / "delta_0000001_0000001_0000" / "bucket_00000"
    broken.write_bytes(b"no ORC")
    before = names_in(Path(tables[1].location))
    done = worked(site)
    assert [done[name].result for name in NAMES] == [Result.COMPACTED, Result.FAILED, Result.COMPACTED]
    assert "bucket_00000" in done["b"].message
    assert names_in(Path(tables[1].location)) == before
    assert site.metastore.entries.get(done["b"].entry.id).state is State.FAILED
    assert_nothing_left(site)


def test_one_that_a_person_aborts_falls_out_alone(site: Site, tables: list[Table]) -> None:
    def abort() -> None:
        (entry,) = site.metastore.entries.queue(table="c")
        site.metastore.claims.abort_running(entry.id)

    done = worked(site, Interrupted(before=abort))
    assert [done[name].result for name in NAMES] == [Result.COMPACTED, Result.COMPACTED, Result.ABORTED]
    assert not any(name.startswith(".compactor") for name in names_in(Path(tables[2].location)))
    assert_nothing_left(site)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_one_whose_transaction_is_lost_falls_out_alone(site: Site, tables: list[Table], moment: str) -> None:
    """PROTOCOL 5: a lost worker can't name."""

    def lose() -> None:
        (entry,) = site.metastore.entries.queue(table="a")
        assert entry.txn_id is not None
        site.metastore.transactions.abort(entry.txn_id, "timed out")

    before = names_in(Path(tables[0].location))
    done = worked(site, Interrupted(**{moment: lose}))
    assert [done[name].result for name in NAMES] == [Result.LOST, Result.COMPACTED, Result.COMPACTED]
    assert names_in(Path(tables[0].location)) == before
    assert_nothing_left(site)


def test_a_worker_of_ours_fails_what_takes_longer_than_hives_time_out(site: Site, tables: list[Table]) -> None:
    """hive.compactor.worker.timeout: Hive's own worker gives up, too."""
    before = [names_in(Path(table.location)) for table in tables]
    done = worked(with_settings(site, hive_compactor_worker_timeout="1ms"))
    assert {outcome.result for outcome in done.values()} == {Result.FAILED}
    assert "longer than hive.compactor.worker.timeout, 1 ms" in done["a"].message
    assert [names_in(Path(table.location)) for table in tables] == before
    assert_nothing_left(site)


def test_one_that_somebody_holds_exclusively_waits_alone(site: Site, tables: list[Table]) -> None:
    ids = asked(site)
    (txn,) = site.metastore.transactions.open("ann", "h")
    target = site.target(entity_of(tables[1]))
    site.metastore.locks.acquire(txn, [target.lock(LockType.EXCLUSIVE)], "ann", "h")
    outcomes: list[Outcome] = []
    work_together(site, ids, InProcessRunner(), Options(), outcomes.append)
    fates = {outcome.entry.entity.table: outcome.result for outcome in outcomes}
    assert fates == {"a": Result.COMPACTED, "b": Result.WAITING, "c": Result.COMPACTED}
    site.metastore.transactions.commit(txn)
    assert [o.result for o in run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes] == [
        Result.COMPACTED
    ]


def test_one_for_whose_table_somebody_waits_yields_alone(site: Site, tables: list[Table]) -> None:
    """PROTOCOL 3.2: where an EXCLUSIVE request waits behind it, it yields at the next unit."""

    def wait() -> None:
        (txn,) = site.metastore.transactions.open("ann", "h")
        target = site.target(entity_of(tables[0]))
        assert not site.metastore.locks.acquire(txn, [target.lock(LockType.EXCLUSIVE)], "ann", "h").is_acquired

    done = worked(site, Interrupted(before=wait))
    assert [done[name].result for name in NAMES] == [Result.WAITING, Result.COMPACTED, Result.COMPACTED]


def test_a_pair_that_cannot_have_its_table_alone_becomes_a_major_alone(site: Site, tables: list[Table]) -> None:
    """PROTOCOL 5: readers without visibility never meet half of a pair."""
    impatient = with_settings(site, compactor_lock_wait="0s", hive_txn_opentxn_timeout="1ms")
    worked(impatient)
    clean_all(impatient)
    for table in tables:
        insert(impatient, table, range(30, 34))
        insert(impatient, table, range(34, 36))
        delete(impatient, table, [3, 12])
    (txn,) = site.metastore.transactions.open("ann", "h")
    reads = site.target(entity_of(tables[1])).lock(LockType.SHARED_READ)
    site.metastore.locks.acquire(txn, [reads], "ann", "h")
    wanted = [rows_of(site, table) for table in tables]
    done = worked(impatient, kind="minor")
    assert [done[name].result for name in NAMES] == [Result.COMPACTED] * 3
    assert [len(done[name].output) for name in NAMES] == [2, 1, 2]
    assert "minor became major" in done["b"].message
    site.metastore.transactions.commit(txn)
    assert [rows_of(site, table) for table in tables] == wanted
    assert_nothing_left(site)


def test_what_is_too_large_to_go_with_others_goes_alone(
    site: Site, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {t.name: sum(f.length for f in site.storage.listing(t.location).files) for t in tables}
    insert(site, tables[1], range(100, 10_000))
    monkeypatch.setattr(compaction_group, "TOGETHER_BYTES", 2 * max(sizes.values()))
    ids = asked(site)
    outcomes: list[Outcome] = []
    (left,) = work_together(site, ids, InProcessRunner(), Options(), outcomes.append)
    assert {o.entry.entity.table for o in outcomes} == {"a", "c"}
    entry = site.metastore.entries.get(left)
    assert (entry.entity.table, entry.state, entry.worker_id) == ("b", State.INITIATED, None)
    assert_nothing_left(site)
    (alone,) = run_entries(site, [left], InProcessRunner()).outcomes
    assert alone.result is Result.COMPACTED


@pytest.mark.parametrize(("together", "bytes_together", "open_at_once"), [(2, 1 << 20, [2, 1]), (3, 0, [0, 1, 1, 1])])
def test_transactions_are_open_of_one_group_at_a_time(
    site: Site,
    tables: list[Table],
    monkeypatch: pytest.MonkeyPatch,
    together: int,
    bytes_together: int,
    open_at_once: list[int],
) -> None:
    """PROTOCOL 3.2: not those of a whole batch, which would hold back every cleaner; what is large is open alone."""
    monkeypatch.setattr(driver, "MAX_GROUP_SIZE", together)
    monkeypatch.setattr(compaction_group, "TOGETHER_BYTES", bytes_together)
    found: list[int] = []
    runner = Interrupted(before=lambda: found.append(len(site.metastore.transactions.open_transactions())))
    assert [o.result for o in run_entries(site, asked(site), runner).outcomes] == [Result.COMPACTED] * 3
    assert found == open_at_once


def test_a_pass_takes_up_again_what_left_its_group(
    site: Site, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_group, "TOGETHER_BYTES", 0)
    done = run_entries(site, asked(site), InProcessRunner())
    assert [o.result for o in done.outcomes] == [Result.COMPACTED] * 3
    assert_nothing_left(site)


class _Breaking(LocalStorage):
    """A store with a bug in what concerns one table."""

    def __init__(self, place: str) -> None:
        self._place = place

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        if os.path.dirname(target) == self._place:
            raise ZeroDivisionError("a bug")
        super().rename(source, target, durable=durable)


class _Undurable(LocalStorage):
    """A disk that loses what is staged of one table, and remembers what it has kept and what got its final name."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.kept: set[str] = set()
        self.named_early: list[str] = []
        self.undurable: set[str] = set()

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        staged = [path for path in paths if "/.compactor_v" in path]
        lost = {path: StorageError(f"cannot sync {path}: I/O error") for path in staged if path.startswith(self._place)}
        self.kept |= {path for path in staged if path not in lost}
        return {**super().sync([path for path in paths if path not in lost]), **lost}

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        out = os.path.dirname(source)
        is_named = "/.compactor_v" in source and "/.compactor_v" not in target
        if is_named and not {out, f"{os.path.dirname(out)}/manifest.json"} <= self.kept:
            self.named_early.append(target)
        if is_named and not durable:
            self.undurable.add(target)
        super().rename(source, target, durable=durable)

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        self.undurable -= set(paths)
        return super().sync_names(paths)


def test_all_is_durable_before_the_first_is_named_and_what_is_not_falls_out_alone(
    site: Site, tables: list[Table]
) -> None:
    """PROTOCOL 3.3, 4: data and manifest are fsynced before the commit; a name is durable with it."""
    disk = _Undurable(tables[1].location)
    before = names_in(Path(tables[1].location))
    done = worked(replace(site, storage=disk))
    assert [done[name].result for name in NAMES] == [Result.COMPACTED, Result.FAILED, Result.COMPACTED]
    assert "cannot sync" in done["b"].message
    assert names_in(Path(tables[1].location)) == before
    assert (len(disk.kept), disk.named_early, disk.undurable) == (4, [], set())
    assert_nothing_left(site)


class _NotNaming(LocalStorage):
    """A store that cannot name in one place: the rename fails, or its name cannot be made durable, as a disk says once."""

    def __init__(self, place: str, at: str) -> None:
        self._place, self._at = place, at
        self._said: set[str] = set()

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        if self._at == "rename" and os.path.dirname(target) == self._place:
            raise StorageError(f"{target}: no room")
        super().rename(source, target, durable=durable)

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        here = {path for path in paths if self._at == "sync" and os.path.dirname(path) == self._place}
        lost = here - self._said
        self._said |= lost
        return {**super().sync_names(paths), **{path: StorageError(f"{path}: no room") for path in lost}}


@pytest.mark.parametrize("at", ["rename", "sync"])
def test_one_that_cannot_be_named_falls_out_alone(site: Site, tables: list[Table], at: str) -> None:
    """PROTOCOL 5: the others are committed all the same, those too that had their names when it failed. A name that was
    not durable once is not asked for again."""
    place = tables[1].location
    wanted = [rows_of(site, table) for table in tables]
    done = worked(replace(site, storage=_NotNaming(place, at)))
    assert [done[name].result for name in NAMES] == [Result.COMPACTED, Result.FAILED, Result.COMPACTED]
    assert "no room" in done["b"].message
    assert not [name for name in names_in(Path(place)) if name.startswith(("base", ".compactor_v"))]
    assert [rows_of(site, table) for table in tables] == wanted
    assert_nothing_left(site)


def test_while_names_are_given_no_database_is_asked_anything(site: Site, tables: list[Table]) -> None:
    """PROTOCOL 5: one critical section for all, which touches no other connection."""
    with watched_sections() as seen:
        done = worked(site)
    assert [done[name].result for name in NAMES] == [Result.COMPACTED] * 3
    assert (seen.entries, seen.asked) == ([3], [])


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_became_of_a_commit_without_an_answer_is_asked_of_each(
    site: Site, tables: list[Table], monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """PROTOCOL 5: nobody removes anything before TXNS has been read."""
    committing_all = Commits.committing_all

    @contextmanager
    def unanswered(self: Commits, commits: Sequence[EntryCommit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        try:
            with committing_all(self, commits) as found:
                yield found
                if not is_committed:
                    raise ConnectionError
        except ConnectionError:
            pass
        raise CommitUnknown("the connection was lost")

    monkeypatch.setattr(Commits, "committing_all", unanswered)
    wanted = [rows_of(site, table) for table in tables]
    if is_committed:
        done = worked(site)
        assert [done[name].result for name in NAMES] == [Result.COMPACTED] * 3
        assert_nothing_left(site)
    else:
        with pytest.raises(CommitUnknown):
            worked(site)
        assert [e.entity.table for e in site.metastore.entries.working()] == list(NAMES)
        assert all(any(n.startswith("base") for n in names_in(Path(table.location))) for table in tables)
    assert [rows_of(site, table) for table in tables] == wanted


def test_a_bug_that_one_meets_ends_that_one_alone(site: Site, tables: list[Table]) -> None:
    """PROTOCOL 10: by name, and it is recorded as its failure."""
    place = tables[0].location
    before = names_in(Path(place))
    ids = asked(site)
    outcomes: list[Outcome] = []
    odd = replace(site, storage=_Breaking(place))
    work_together(odd, ids, InProcessRunner(), Options(), outcomes.append)
    done = {o.entry.entity.table: o.result for o in outcomes}
    assert done == {"a": Result.FAILED, "b": Result.COMPACTED, "c": Result.COMPACTED}
    (ended,) = site.metastore.entries.history()
    assert (ended.state, ended.entity.table) == (State.FAILED, "a")
    assert "default.a: ZeroDivisionError: a bug; this error was not expected" in (ended.error or "")
    assert names_in(Path(place)) == before
    assert_nothing_left(site)


def test_who_interrupts_the_worker_puts_all_back(site: Site, tables: list[Table]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = [names_in(Path(table.location)) for table in tables]
    ids = asked(site)
    with pytest.raises(KeyboardInterrupt):
        work_together(site, ids, Interrupted(after=interrupt), Options(), lambda outcome: None)
    assert [e.id for e in site.metastore.entries.queue(states=(State.INITIATED,))] == ids
    assert [names_in(Path(table.location)) for table in tables] == before
    assert_nothing_left(site)
