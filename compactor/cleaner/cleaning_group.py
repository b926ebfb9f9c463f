"""The steps that entries ready for cleaning take together, up to their end (PROTOCOL 7, 8).

Take -> list -> compare with the metastore -> hide -> remove -> sweep -> list again -> forget. What only storage does runs on
threads, and what is asked of the metastore is asked for all of them at once. Each may fail, and then drops out alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from compactor.acid.directory import acid_directory
from compactor.base.errors import BadName, CompactorError, failing_alone
from compactor.base.ids import TxnId, WriteId
from compactor.base.printable import few
from compactor.base.steps import Step, reach
from compactor.cleaner.aborted_writes import GRACE, AbortedWrites, within_grace
from compactor.cleaner.cleaner_pass import Cleaned
from compactor.cleaner.cleaning_phases import Checked, Chosen, Doomed, Listed, Removed, Swept, Viewed
from compactor.cleaner.gate import Gate
from compactor.cleaner.pass_log import PassLog
from compactor.cleaner.removing import bytes_of, remove_all, remove_directories
from compactor.compaction.cleaning import is_output, removable
from compactor.compaction.entry import Entry
from compactor.metastore.queue.cleaning_rows import CleanedEntry, no_longer_ready
from compactor.rewrite.publish.removal import Hiding
from compactor.rewrite.publish.same_directory import identities
from compactor.rewrite.publish.still_needed import must_still_be_needed
from compactor.site import leftovers, quarantine
from compactor.site.exclusive import renames
from compactor.site.files_and_metastore import Given, no_longer_there
from compactor.site.restored_database import must_be_newest
from compactor.site.side_by_side import SideBySide
from compactor.site.site import View, claims_of

log = logging.getLogger(__name__)
_HIDDEN_TOGETHER = 32  #: entries between two looks whether they are still to be cleaned, with few threads
_LEASE = "hive.txn.timeout"  #: a cleaner that has not ended an entry for that long counts as dead
_Before = TypeVar("_Before", bound=Chosen)
_After = TypeVar("_After", bound=Chosen)


class CleaningGroup:
    """Entries of different tables or partitions whose gate is open.

    Args:
        again: decides anew, by a gate that was read since, whether an entry may be cleaned.
    """

    def __init__(
        self,
        gate: Gate,
        aborts: AbortedWrites,
        threads: SideBySide,
        passed: PassLog,
        again: Callable[[Gate, Entry], Chosen | None],
    ) -> None:
        self._site = gate.site
        self._gate = gate
        self._aborts = aborts
        self._threads = threads
        self._passed = passed
        self._again = again
        self._live: dict[int, Entry] = {}

    def clean(self, chosen: Sequence[Chosen]) -> None:
        """Cleans each of ``chosen`` that no other cleaner is at."""
        cleaning = self._site.metastore.cleaning
        lease = self._site.settings.milliseconds(_LEASE)
        self._live = {entry.id: entry for entry in cleaning.take([one.entry for one in chosen], lease)}
        mine = [one for one in chosen if one.entry.id in self._live]
        try:
            with failing_alone(f"{len(mine)} entries that are cleaned together"):
                self._go_on(mine)
        except CompactorError as error:  # of a step that all take together
            for entry in list(self._live.values()):
                self._fail(entry, error)
        except BaseException:
            cleaning.let_go(list(self._live.values()))
            raise

    def _go_on(self, mine: Sequence[Chosen]) -> None:
        listed = self._each(self._listed, mine)
        tables = {one.target.table.id: one.target.table for one in listed}
        names = [name for one in listed for name in one.listing.directories]
        given = Given(self._site, tables.values(), names)  # after the listings (PROTOCOL 11.3)
        self._gate.read_write_ids(tables.values())
        viewed = self._in_turn(partial(self._viewed, given), listed)
        removed = self._removed(self._each(self._doomed, viewed))
        self._end(self._in_turn(self._clean_or_waiting, self._each(self._checked, self._swept(removed))))

    def _each(self, step: Callable[[_Before], _After | None], ones: Iterable[_Before]) -> list[_After]:
        """Takes each of ``ones`` to the phase that ``step`` returns, on threads, and returns those that went on. One whose
        step fails, with whatever error, drops out."""
        every = list(ones)
        return self._went_on(every, self._threads.map(partial(_tried, step), every))

    def _in_turn(self, step: Callable[[_Before], _After | None], ones: Iterable[_Before]) -> list[_After]:
        """Does the same in this thread, for steps that the database answers or that only compute."""
        every = list(ones)
        return self._went_on(every, [_tried(step, one) for one in every])

    def _went_on(self, ones: Sequence[Chosen], results: Sequence[_After | CompactorError | None]) -> list[_After]:
        further: list[_After] = []
        for one, result in zip(ones, results, strict=True):
            if isinstance(result, CompactorError):
                self._fail(one.entry, result)
            elif result is not None:
                further.append(result)
        return further

    def _fail(self, entry: Entry, error: CompactorError) -> None:
        self._live.pop(entry.id, None)
        self._passed.fail(entry, error)

    # one entry: what storage does

    def _listed(self, one: Chosen) -> Listed:
        if (name := leftovers.not_for_hive_3(self._site, one.target)) is not None:
            raise BadName(
                f"{one.target.location}: {name} contains a transaction, which Hive 3.1 cannot read; nothing is removed "
                "beside it; find out who wrote it and move it away"
            )
        listing = self._site.storage.listing(one.target.location)
        claims_of(self._site).must_be_free(one.target.table, one.target.location, listing)
        return one.listed(listing)

    def _doomed(self, one: Viewed) -> Doomed:
        kept = quarantine.keep_obsolete(self._site, one.target, one.entry, one.view)
        names = tuple(name for name in one.obsolete if name not in kept.names and name not in one.held)
        reach(Step.CLEANING)
        there = identities(self._site.storage, one.target.location, names)
        if names and renames(self._site, one.target):  # else that is asked once nobody uses the table any longer
            self._must_be_needed(one)  # so these are the directories that were listed
        return one.doomed(kept, names, there)

    def _must_be_needed(self, one: Viewed) -> None:
        now = self._site.storage.listing(one.target.location)
        must_still_be_needed(one.target.location, one.view.directory, one.listing, now)

    def _removed_alone(self, one: Doomed) -> Removed:
        """Removes directories where they do not vanish in one step."""

        def still() -> None:
            self._site.metastore.cleaning.must_be_ready(one.entry)
            self._must_be_needed(one)

        inline = SideBySide(1, "remove")  # this thread is one of those that it would wait for
        return one.removed(remove_directories(self._site, one.target, one.listing, one.names, inline, still))

    def _sweep(self, scan: leftovers.LeftoverScan, one: Removed) -> Swept:
        swept = scan.clear(one.target)
        quarantine.record_kept(self._site, one.target, one.entry, one.kept)
        reach(Step.REMOVED)
        return one.swept(swept, scan.left(one.target, swept))

    def _checked(self, one: Swept) -> Checked:
        view = one.view
        listing = self._site.storage.listing(one.target.location)
        return one.checked(acid_directory(listing, view.write_ids, view.txns))

    # one entry: what is decided

    def _viewed(self, given: Given, one: Listed) -> Viewed:
        """Returns the directory as every snapshot that the gate admits sees it, up to the entry's highest write ID: nobody
        reads what is obsolete there."""
        target, listing = one.target, one.listing
        given.must_explain(target, listing.directories)
        highest = one.entry.highest_write_id if one.entry.highest_write_id is not None else WriteId(0)
        seen = self._gate.write_ids(target.table).for_cleaner(highest)
        directory = acid_directory(listing, seen, self._gate.txns)
        view = View(txns=self._gate.txns, write_ids=seen, listing=listing, directory=directory)
        obsolete = removable(directory)
        if any(map(is_output, directory.aborted)):
            leftovers.clear_leftovers(self._site, target)  # nothing is cleaned beside one that may be the only copy
        return one.viewed(view, obsolete, self._aborts.held(target, obsolete, seen.aborted))

    def _clean_or_waiting(self, one: Checked) -> Checked | None:
        """Returns the entry if nothing of it is left to be cleaned. If something is, its row waits."""
        left = set(removable(one.after)) - one.held
        if left or one.hidden_left:
            self._wait(one, 0, f"still there: {few((*left, *one.hidden_left))}")
            return None
        if shared := one.held.intersection(one.after.obsolete):  # what only aborted ones wrote goes without a request
            self._wait(one, self._site.settings.milliseconds(GRACE), within_grace(shared))
            return None
        return one

    def _wait(self, one: Chosen, retention_ms: int, because: str) -> None:
        self._passed.wait(one.entry, retention_ms, because)
        self._live.pop(one.entry.id)

    # all entries together

    def _removed(self, doomed: Sequence[Doomed]) -> list[Removed]:
        """Removes what is to go, of a few entries at a time, so that no look at the metastore is old when it counts."""
        removed: list[Removed] = []
        size = max(_HIDDEN_TOGETHER, self._threads.count)
        for start in range(0, len(doomed), size):
            chosen = self._still_chosen(doomed[start : start + size])
            together = [one for one in chosen if renames(self._site, one.target)]
            alone = [one for one in chosen if one not in together]
            removed += self._removed_together(together)
            removed += self._each(self._removed_alone, alone)
        return removed

    def _still_chosen(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """Returns those that may still be cleaned: a gate that is some seconds old is read again, with what else decides
        (PROTOCOL 7.1.5)."""
        if self._gate.is_fresh:
            return list(doomed)
        self._gate = Gate(self._site, [one.entry for one in doomed])
        chosen = self._in_turn(lambda one: one if self._again(self._gate, one.entry) else None, doomed)
        for one in doomed:
            if one not in chosen and self._live.pop(one.entry.id, None) is not None:
                self._site.metastore.cleaning.let_go([one.entry])
        return chosen

    def _removed_together(self, doomed: Sequence[Doomed]) -> list[Removed]:
        if not doomed:
            return []
        gone = no_longer_there(self._site, [one.target for one in doomed])
        there = self._unless(doomed, lambda one: gone.get(one.target.place))
        must_be_newest(self._site, polling=True)  # a pass may have been suspended since it looked
        paths = self._hidden(there)
        unsynced = self._site.storage.sync_names([path for hidden in paths.values() for path in hidden])
        durable = self._unless(
            [one for one in there if one.entry.id in paths], lambda one: _first(unsynced, paths[one.entry.id])
        )
        every = [path for one in durable for path in paths[one.entry.id]]
        stays = remove_all(self._site.storage, every, self._threads)
        cleared = self._unless(durable, lambda one: _first(stays, paths[one.entry.id]))
        return [one.removed(bytes_of(one.listing, one.names)) for one in cleared]

    def _hidden(self, doomed: Sequence[Doomed]) -> dict[int, list[str]]:
        """Hides the directories of each entry that is still ready for cleaning, before and after that (PROTOCOL 11.8.3).

        Returns:
            the paths of the hidden ones, by the entry's id, of those entries that went well.
        """
        ready = self._ready(doomed)
        hidings = {one.entry.id: Hiding(self._site.storage, one.target.location) for one in ready}
        hidden: list[Doomed] = []
        try:
            hidden = self._each(partial(_hide, hidings), ready)
        finally:
            self._put_back_unless_ready(ready, hidings)
        return {one.entry.id: hidings[one.entry.id].paths for one in hidden if one.entry.id in self._live}

    def _ready(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        ids = self._site.metastore.cleaning.still_ready([one.entry for one in doomed])
        return self._unless(doomed, lambda one: None if one.entry.id in ids else no_longer_ready(one.entry))

    def _put_back_unless_ready(self, ready: Sequence[Doomed], hidings: Mapping[int, Hiding]) -> None:
        """Puts back what was hidden of an entry that another cleaner has ended meanwhile, or of all if nobody can tell."""
        hidden = [one for one in ready if hidings[one.entry.id].hidden]
        ids: frozenset[int] = frozenset()
        try:
            ids = self._site.metastore.cleaning.still_ready([one.entry for one in hidden])
        finally:
            lost = [one for one in hidden if one.entry.id not in ids]
            self._each(lambda one: hidings[one.entry.id].put_back(), lost)
        for one in lost:
            if one.entry.id in self._live:
                self._fail(one.entry, no_longer_ready(one.entry))

    def _unless(self, ones: Sequence[_Before], error_of: Callable[[_Before], CompactorError | None]) -> list[_Before]:
        """Returns those of ``ones`` without an error; the others fail."""
        further: list[_Before] = []
        for one in ones:
            error = error_of(one)
            if error is None:
                further.append(one)
            else:
                self._fail(one.entry, error)
        return further

    def _swept(self, removed: Sequence[Removed]) -> list[Swept]:
        scan = leftovers.LeftoverScan(self._site, [one.target for one in removed], threads=self._threads)
        return self._each(partial(self._sweep, scan), removed)

    def _end(self, checked: Sequence[Checked]) -> None:
        """Moves the entries to the history, and forgets what aborted transactions wrote there if nothing of it is left."""
        if not checked:
            return
        written = self._site.metastore.aborts.written_in({one.entry.entity for one in checked})
        ended: dict[int, CleanedEntry] = {}

        def looked(one: Checked) -> Checked:
            aborted = written.get(one.entry.entity, [])
            numbered = any(write_id is not None for write_id in aborted)
            forgotten = self._aborts.forgettable(one.target, one.entry) if numbered else []
            ended[one.entry.id] = CleanedEntry(entry=one.entry, forgotten=forgotten, has_aborted=bool(aborted))
            return one

        done = self._in_turn(looked, checked)
        if any(one.forgotten for one in ended.values()):
            must_be_newest(self._site, polling=True)  # looking through storage may take long
        lost = self._site.metastore.cleaning.mark_all_cleaned([ended[one.entry.id] for one in done])
        for one in self._unless(done, lambda one: lost.get(one.entry.id)):
            self._done(one)

    def _done(self, one: Checked) -> None:
        self._live.pop(one.entry.id)
        reach(Step.CLEANED)
        log.info(
            "%s entry %d: cleaned, %d directories, %d bytes", one.entry.entity, one.entry.id, len(one.names), one.freed
        )
        removed = tuple(sorted({*one.names, *one.swept_names}))
        self._passed.add(
            Cleaned(
                entity=one.entry.entity,
                entry_id=one.entry.id,
                removed=removed,
                bytes_freed=one.freed,
                quarantined=one.kept.names,
            )
        )


def _tried(step: Callable[[_Before], _After | None], one: _Before) -> _After | CompactorError | None:
    try:
        with failing_alone(f"{one.entry.entity} entry {one.entry.id}"):
            return step(one)
    except CompactorError as error:
        return error


def _hide(hidings: Mapping[int, Hiding], one: Doomed) -> Doomed:
    hidings[one.entry.id].hide(one.names, TxnId(0), one.identities)
    return one


def _first(errors: Mapping[str, CompactorError], paths: Iterable[str]) -> CompactorError | None:
    return next((errors[path] for path in paths if path in errors), None)
