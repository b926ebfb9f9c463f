"""Cleans a group of entries together, from taking them to forgetting their transactions.

See PROTOCOL 7, 8.

Take -> list -> compare with the metastore -> hide -> remove -> sweep -> list again -> forget. Steps that only need storage
run on threads; the metastore is asked once for the whole group. An entry whose step fails drops out alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from compactor.acid.directory import acid_directory
from compactor.base.errors import BadName, CompactorError, failing_alone
from compactor.base.ids import TxnId, WriteId
from compactor.base.printable import few
from compactor.base.steps import Step, reach
from compactor.cleaner.aborted_writes import GRACE, AbortedWrites, within_grace
from compactor.cleaner.cleaner_pass import Cleaned, PassLog
from compactor.cleaner.cleaning_phases import Checked, Chosen, Doomed, Listed, Removed, Swept, ViewedForCleaning
from compactor.cleaner.gate import Gate
from compactor.cleaner.removing import remove_all, remove_directories
from compactor.compaction.cleaning import is_compaction_output, list_removable
from compactor.compaction.queue_entry import Entry
from compactor.metastore.queue.cleaning_rows import CleanedEntry, no_longer_ready
from compactor.rewrite.publish.removal import Hiding, identities
from compactor.rewrite.publish.unchanged_inputs import must_still_be_needed
from compactor.site import leftovers, quarantine
from compactor.site.entry_group import EntryGroup
from compactor.site.exclusive import renames
from compactor.site.files_and_metastore import AllocatedIds, no_longer_there
from compactor.site.removal_records import count_removal, record_removals
from compactor.site.restored_database import must_be_newest
from compactor.site.site import claims_of
from compactor.site.threads import SideBySide
from compactor.site.view import View
from compactor.state.removals import Cause

log = logging.getLogger(__name__)
_HIDDEN_TOGETHER = 32  #: entries removed between two checks that they may still be cleaned, with few threads
_LEASE = "hive.txn.timeout"  #: a cleaner that has not ended an entry for that long counts as dead


class CleaningGroup(EntryGroup):
    """Entries of different tables or partitions whose gate is open.

    Args:
        choose: decides by a newer gate whether an entry may still be cleaned.
    """

    def __init__(
        self,
        gate: Gate,
        aborts: AbortedWrites,
        threads: SideBySide,
        pass_log: PassLog,
        choose: Callable[[Gate, Entry], Chosen | None],
    ) -> None:
        super().__init__(())
        self._site = gate.site
        self._gate = gate
        self._aborts = aborts
        self._threads = threads
        self._pass_log = pass_log
        self._choose = choose

    def clean(self, chosen: Sequence[Chosen]) -> None:
        """Cleans each of ``chosen`` that no other cleaner has taken."""
        cleaning = self._site.metastore.cleaning
        lease = self._site.settings.milliseconds(_LEASE)
        taken = {entry.id for entry in cleaning.take([member.entry for member in chosen], lease)}
        mine = [member for member in chosen if member.entry.id in taken]
        self.enter(mine)
        try:
            with failing_alone(f"{len(mine)} entries that are cleaned together"):
                self._clean_taken(mine)
        except CompactorError as error:  # a step of the whole group failed
            for member in self.live:
                self.fail(member, error)
        except BaseException:
            cleaning.release([member.entry for member in self.live])
            raise

    def _clean_taken(self, mine: Sequence[Chosen]) -> None:
        listed = self.advance(self._list, mine, self._threads)
        tables = {member.target.table.id: member.target.table for member in listed}
        names = [name for member in listed for name in member.listing.directories]
        allocated = AllocatedIds(self._site, tables.values(), names)  # after the listings (PROTOCOL 11.3)
        self._gate.read_write_ids(tables.values())
        viewed = self.advance(partial(self._view, allocated), listed)
        removed = self._remove(self.advance(self._select_names, viewed, self._threads))
        self._end_all(self.advance(self._clean_or_wait, self._sweep_all(removed)))

    def _end_failed(self, member: Chosen, error: CompactorError) -> None:
        self._pass_log.fail(member.entry, error)

    # one entry: what storage does

    def _list(self, member: Chosen) -> Listed:
        listing = self._site.storage.listing(member.target.location)
        if (name := leftovers.not_for_hive_3(self._site, listing)) is not None:
            raise BadName(
                f"{member.target.location}: {name} contains a transaction, which Hive 3.1 cannot read; nothing is removed "
                "from that directory; find out who wrote it and move it away"
            )
        claims_of(self._site).must_be_free(member.target.table, member.target.location, listing)
        return member.listed(listing)

    def _select_names(self, member: ViewedForCleaning) -> Doomed:
        kept = quarantine.keep_obsolete(self._site, member.target, member.entry, member.view)
        names = tuple(name for name in member.obsolete if name not in kept.names and name not in member.in_grace)
        reach(Step.CLEANING)
        there = identities(self._site.storage, member.target.location, names)
        if names and renames(self._site, member.target):  # without rename, this is checked under the exclusive lock
            self._must_be_needed(member)  # the identities belong to the directories that were listed
        return member.doomed(kept, names, there)

    def _must_be_needed(self, member: ViewedForCleaning) -> None:
        now = self._site.storage.listing(member.target.location)
        must_still_be_needed(member.target.location, member.view.directory, member.listing, now)

    def _remove_alone(self, member: Doomed) -> Removed:
        """Removes directories from a store without rename, where they do not vanish in one step."""

        def must_still_be_removable() -> None:
            self._site.metastore.cleaning.must_be_ready(member.entry)
            self._must_be_needed(member)

        inline = SideBySide(1, "remove")  # this code runs on a thread of the pool, which must not wait for the pool
        remove_directories(self._site, member.target, member.names, inline, must_still_be_removable)
        return _removed(member)

    def _sweep(self, scan: leftovers.LeftoverScan, member: Removed) -> Swept:
        swept = scan.clear(member.target)
        quarantine.record_kept(self._site, member.target, member.entry, member.kept)
        reach(Step.REMOVED)
        return member.swept(swept, scan.unremoved(member.target, swept))

    def _check(self, scan: leftovers.LeftoverScan, member: Swept) -> Checked:
        view = member.view
        return member.checked(acid_directory(scan.listing(member.target), view.write_ids, view.txns))

    # one entry: what is decided

    def _view(self, allocated: AllocatedIds, member: Listed) -> ViewedForCleaning:
        """Returns the directory as every snapshot that the gate admits sees it.

        The view ends at the entry's highest write ID. Nobody reads what is obsolete in it.
        """
        target, listing = member.target, member.listing
        allocated.must_explain(target, listing.directories)
        highest = member.entry.highest_write_id if member.entry.highest_write_id is not None else WriteId(0)
        seen = self._gate.write_ids(target.table).for_cleaner(highest)
        directory = acid_directory(listing, seen, self._gate.txns)
        view = View(txns=self._gate.txns, write_ids=seen, listing=listing, directory=directory)
        obsolete = list_removable(directory)
        if any(map(is_compaction_output, directory.aborted)):
            leftovers.clear_leftovers(self._site, target)  # raises if an aborted output may be the only copy
        return member.viewed(view, obsolete, self._aborts.names_in_grace(target, obsolete, seen.aborted))

    def _clean_or_wait(self, member: Checked) -> Checked | None:
        """Returns the entry if nothing remains to be cleaned; otherwise its row waits."""
        remaining = set(list_removable(member.after)) - member.in_grace
        if remaining or member.hidden_left:
            self._wait(member, 0, f"still there: {few((*remaining, *member.hidden_left))}")
            return None
        # Directories that only aborted transactions wrote are removed without an entry of the queue.
        if young := member.in_grace.intersection(member.after.obsolete):
            self._wait(member, self._site.settings.milliseconds(GRACE), within_grace(young))
            return None
        return member

    def _wait(self, member: Chosen, retention_ms: int, because: str) -> None:
        self._pass_log.wait(member.entry, retention_ms, because)
        self.leave(member)

    # all entries together

    def _remove(self, doomed: Sequence[Doomed]) -> list[Removed]:
        """Removes directories of a few entries at a time, so that each removal follows a recent check."""
        removed: list[Removed] = []
        size = max(_HIDDEN_TOGETHER, self._threads.count)
        for start in range(0, len(doomed), size):
            chosen = self._still_allowed(doomed[start : start + size])
            together = [member for member in chosen if renames(self._site, member.target)]
            alone = [member for member in chosen if member not in together]
            gone = [*self._remove_together(together), *self.advance(self._remove_alone, alone, self._threads)]
            record_removals(self._site, [member.removal for member in gone])
            removed += gone
        return removed

    def _still_allowed(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """Returns the members that may still be cleaned.

        Reads the gate again if it is some seconds old (PROTOCOL 7.1.5).
        """
        if self._gate.is_fresh:
            return list(doomed)
        self._gate = Gate(self._site, [member.entry for member in doomed])
        chosen = self.advance(lambda member: member if self._choose(self._gate, member.entry) else None, doomed)
        for member in self.remaining(doomed):
            if member not in chosen:
                self.leave(member)
                self._site.metastore.cleaning.release([member.entry])
        return chosen

    def _remove_together(self, doomed: Sequence[Doomed]) -> list[Removed]:
        if not doomed:
            return []
        gone = no_longer_there(self._site, [member.target for member in doomed])
        there = self.fail_each(lambda member: gone.get(member.target.place), doomed)
        must_be_newest(self._site, polling=True)  # a pass may have been suspended since it looked
        paths = self._hide_ready(there)
        unsynced = self._site.storage.sync_names([path for hidden in paths.values() for path in hidden])
        durable = self.fail_each(
            lambda member: _first(unsynced, paths[member.entry.id]),
            [member for member in there if member.entry.id in paths],
        )
        stays = remove_all(self._site.storage, [paths[member.entry.id] for member in durable], self._threads)
        cleared = self.fail_each(lambda member: _first(stays, paths[member.entry.id]), durable)
        return [_removed(member) for member in cleared]

    def _hide_ready(self, doomed: Sequence[Doomed]) -> dict[int, list[str]]:
        """Hides the directories of each entry that is ready for cleaning both before and after.

        See PROTOCOL 11.8.3.

        Returns:
            the hidden paths by entry id, for the entries that did not fail.
        """
        ready = self._ready(doomed)
        hidings = {member.entry.id: Hiding(self._site.storage, member.target.location) for member in ready}
        hidden: list[Doomed] = []
        try:
            hidden = self.advance(partial(_hide_member, hidings), ready, self._threads)
        finally:
            self._put_back_unless_ready(ready, hidings)
        return {member.entry.id: hidings[member.entry.id].paths for member in self.remaining(hidden)}

    def _ready(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        ids = self._site.metastore.cleaning.still_ready([member.entry for member in doomed])
        return self.fail_each(lambda member: None if member.entry.id in ids else no_longer_ready(member.entry), doomed)

    def _put_back_unless_ready(self, ready: Sequence[Doomed], hidings: Mapping[int, Hiding]) -> None:
        """Puts back the hidden directories of entries that another cleaner ended meanwhile.

        If the metastore cannot tell, the directories of all entries come back.
        """
        hidden = [member for member in ready if hidings[member.entry.id].hidden]
        ids: frozenset[int] = frozenset()
        try:
            ids = self._site.metastore.cleaning.still_ready([member.entry for member in hidden])
        finally:
            lost = [member for member in hidden if member.entry.id not in ids]
            self.each(lambda member: hidings[member.entry.id].put_back(), lost, self._threads)
        for member in self.remaining(lost):
            self.fail(member, no_longer_ready(member.entry))

    def _sweep_all(self, removed: Sequence[Removed]) -> list[Checked]:
        """Removes the leftovers of unfinished work, and shows what is there now."""
        targets = [member.target for member in removed]
        scan = leftovers.LeftoverScan(self._site, targets, threads=self._threads, keeps_listings=True)
        swept = self.advance(partial(self._sweep, scan), removed, self._threads)
        return self.advance(partial(self._check, scan), swept, self._threads)

    def _end_all(self, checked: Sequence[Checked]) -> None:
        """Moves the entries to the history, and forgets aborted writes of which nothing remains."""
        if not checked:
            return
        written = self._site.metastore.components.aborted_writes_in({member.entry.entity for member in checked})
        ended: dict[int, CleanedEntry] = {}

        def find_forgotten(member: Checked) -> Checked:
            aborted = written.get(member.entry.entity, [])
            numbered = any(write_id is not None for write_id in aborted)
            forgotten = self._aborts.forgettable(member.target, member.entry) if numbered else []
            ended[member.entry.id] = CleanedEntry(entry=member.entry, forgotten=forgotten, has_aborted=bool(aborted))
            return member

        done = self.advance(find_forgotten, checked)
        if any(member.forgotten for member in ended.values()):
            must_be_newest(self._site, polling=True)  # looking through storage may take long
        lost = self._site.metastore.cleaning.mark_all_cleaned([ended[member.entry.id] for member in done])
        for member in self.fail_each(lambda member: lost.get(member.entry.id), done):
            self._report_cleaned(member)

    def _report_cleaned(self, member: Checked) -> None:
        self.leave(member)
        reach(Step.CLEANED)
        log.info(
            "%s entry %d: cleaned, %d directories, %d bytes",
            member.entry.entity,
            member.entry.id,
            len(member.names),
            member.removal.bytes,
        )
        removed = tuple(sorted({*member.names, *member.swept_names}))
        self._pass_log.add(
            Cleaned(
                entity=member.entry.entity,
                entry_id=member.entry.id,
                removed=removed,
                bytes_freed=member.removal.bytes,
                quarantined=member.kept.names,
            )
        )


def _removed(member: Doomed) -> Removed:
    removal = count_removal(member.entry.entity, member.listing, member.names, Cause.CLEANED, member.entry.id)
    return member.removed(removal)


def _hide_member(hidings: Mapping[int, Hiding], member: Doomed) -> Doomed:
    hidings[member.entry.id].hide(member.names, TxnId(0), member.identities)
    return member


def _first(errors: Mapping[str, CompactorError], paths: Iterable[str]) -> CompactorError | None:
    return next((errors[path] for path in paths if path in errors), None)
