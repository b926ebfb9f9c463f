"""The cleaner: removes directories that no snapshot can need any longer, and only then forgets their transactions
(PROTOCOL 7, 8)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from compactor.acid.directory import acid_directory
from compactor.acid.names import Base, parse_directory, parse_hidden, parse_staging
from compactor.compaction.cleaning import (
    Clean,
    CleaningFacts,
    Drop,
    Wait,
    is_output,
    may_clean,
    removable,
    retry_retention,
)
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import (
    BadName,
    CompactorError,
    LockNotGranted,
    LostClaim,
    NotFound,
    NotSupported,
    StorageError,
    failing_alone,
)
from compactor.ids import WriteId
from compactor.locking.lock_types import LockType, conflicts
from compactor.locking.requests import LockRequest
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.cleaning import next_cleaning
from compactor.rewrite.publish import naming
from compactor.service import leftovers, lost_workers, quarantine
from compactor.service.agreement import Given
from compactor.service.memory import must_be_newest, must_still_be_newest
from compactor.service.mode import Mode, may
from compactor.service.roles.aborted_writes import GRACE, AbortedWrites, abort_candidates
from compactor.service.roles.blockers import Blocker, blockers_of
from compactor.service.roles.gate import GROUP_SIZE, Gate
from compactor.service.roles.removing import remove_directories
from compactor.service.site import Site, Target, View, must_have_its_own_ground
from compactor.settings.precedence import Settings
from compactor.state.sightings import Sighting
from compactor.steps import Step, reach

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """An entry (None: only aborted transactions) whose directories were removed, with their names and bytes, or moved into
    quarantine."""

    entity: Entity
    entry_id: int | None
    removed: tuple[str, ...]
    bytes_freed: int
    quarantined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An entry that cannot be cleaned yet, the reason, and the transactions that hold it."""

    entity: Entity
    entry_id: int
    because: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedUncleaned:
    """An entry that left the queue without being cleaned."""

    entity: Entity
    entry_id: int
    state: State
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPass:
    repaired: tuple[lost_workers.Repaired, ...]
    cleaned: tuple[Cleaned, ...]
    waiting: tuple[Waiting, ...]
    ended: tuple[EndedUncleaned, ...]
    failed: tuple[Waiting, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "cleaned": [
                {
                    "table": str(c.entity),
                    "compaction": c.entry_id,
                    "removed": list(c.removed),
                    "bytes_freed": c.bytes_freed,
                    "quarantined": list(c.quarantined),
                }
                for c in self.cleaned
            ],
            "waiting": [
                {
                    "table": str(w.entity),
                    "compaction": w.entry_id,
                    "because": w.because,
                    "blockers": [b.to_json() for b in w.blockers],
                }
                for w in self.waiting
            ],
            "ended": [
                {"table": str(e.entity), "compaction": e.entry_id, "state": e.state.label, "because": e.because}
                for e in self.ended
            ],
            "failed": [{"table": str(w.entity), "compaction": w.entry_id, "because": w.because} for w in self.failed],
        }


def clean(site: Site) -> CleanerPass:
    """Runs one pass over everything that is ready for cleaning, then over aborted transactions past their threshold.

    An entry that cannot be cleaned backs off and keeps its row; the others continue.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
        StorageError: whether it is cannot be known now.
    """
    must_be_newest(site)
    site = site.for_a_pass()
    repaired = lost_workers.repair(site)
    aborts = AbortedWrites(site)
    results: list[Cleaned | Waiting | EndedUncleaned] = []
    failed: list[Waiting] = []
    for gate, entry in _gated(site, site.metastore.cleaning.ready_for_cleaning(site.metastore.now_ms())):
        must_still_be_newest(site)
        try:
            with failing_alone(f"{entry.entity} entry {entry.id}"):
                result = _clean_entry(gate, aborts, entry)
        except CompactorError as error:
            waits = _back_off(site, entry, error)
            if waits is not None:
                failed.append(waits)
        else:
            if result is not None:
                results.append(result)
    for entity in abort_candidates(site):
        must_still_be_newest(site)
        try:
            with failing_alone(entity):
                aborted = _clean_aborted(aborts, entity)
        except CompactorError as error:
            log.warning("%s: aborted transactions cannot be cleaned: %s", entity, error)
            failed.append(Waiting(entity=entity, entry_id=0, because=str(error)))
        else:
            if aborted is not None:
                results.append(aborted)
    aborts.remember()
    tried = {one.entry_id for one in (*results, *failed)}
    results += [waits for waits in _backing_off(site) if waits.entry_id not in tried]
    return CleanerPass(
        repaired=repaired,
        cleaned=tuple(r for r in results if isinstance(r, Cleaned)),
        waiting=tuple(r for r in results if isinstance(r, Waiting)),
        ended=tuple(r for r in results if isinstance(r, EndedUncleaned)),
        failed=tuple(failed),
    )


def _gated(site: Site, entries: Sequence[Entry]) -> Iterator[tuple[Gate, Entry]]:
    """Yields each entry with the gate of its group, which is read again if the group takes long."""
    for start in range(0, len(entries), GROUP_SIZE):
        group = entries[start : start + GROUP_SIZE]
        gate = Gate(site, group)
        for number, entry in enumerate(group):
            if not gate.is_fresh:
                gate = Gate(site, group[number:])
            yield gate, entry


def _clean_entry(gate: Gate, aborts: AbortedWrites, entry: Entry) -> Cleaned | Waiting | EndedUncleaned | None:
    site, target = gate.site, gate.target(entry)
    settings = site.settings_of(entry.entity) if target is None else target.settings
    if not may(settings, Mode.CLEAN):
        return None  # there, only Hive's own cleaner removes directories, if it runs
    match _verdict(gate, target, entry, settings):
        case Wait(because=because):
            return Waiting(entity=entry.entity, entry_id=entry.id, because=because, blockers=blockers_of(site, entry))
        case Drop() as drop:
            return _drop(site, aborts, target, entry, drop)
        case Clean(location=str() as elsewhere):
            raise NotSupported(
                f"{entry.entity} entry {entry.id}: soft-deleted data at {elsewhere} is not removed by this release; let "
                "Hive's cleaner do it"
            )
        case Clean():
            assert target is not None  # if it were gone, the entry would have been dropped above
            must_have_its_own_ground(site, target)
            site.metastore.cleaning.mark_cleaner_start(entry)
            try:
                return _remove(gate, aborts, target, entry)
            except LockNotGranted as error:  # only where directories cannot vanish in one step: not a failure
                site.metastore.cleaning.back_off(entry, 0, str(error))
                return Waiting(entity=entry.entity, entry_id=entry.id, because=str(error))


def _verdict(gate: Gate, target: Target | None, entry: Entry, settings: Settings) -> Clean | Wait | Drop:
    site = gate.site
    if target is not None and (why := target.table.refusal(target.partition)) is not None:
        return Drop(state=State.REFUSED, error=f"{why}; nothing is removed there")
    parameters = target.partition.parameters if target and target.partition else {}
    txn_state = gate.txn_state(entry)
    # before the commit is too soon: a transaction opened meanwhile does not see the compaction either
    seen = None if txn_state == "o" else _first_sight(site, entry)
    facts = CleaningFacts(
        lowest_open=gate.lowest,
        txn_state=txn_state,
        now_ms=gate.now_ms,
        exists=target is not None,
        forbidden_by=no_cleanup(target.table.parameters, parameters) if target else None,
        rebalance_committed=target is not None and _rebalance_committed(site, target, entry),
        newest_at_first_sight=None if seen is None else seen.newest,
        stamped_early=site.stamps_early(entry),
    )
    answer = may_clean(entry, facts, settings)
    held = _held_by_lock(site, entry, seen) if isinstance(answer, Clean) else None
    return held or answer


def _drop(site: Site, aborts: AbortedWrites, target: Target | None, entry: Entry, drop: Drop) -> EndedUncleaned:
    """Moves the row to the history. Only a compaction that is known to be aborted loses its directories."""
    if drop.aborted and target is not None and entry.txn_id is not None:
        must_have_its_own_ground(site, target)
        leftovers.clear_aborted(site, target, entry.txn_id)
    if drop.state is State.SUCCEEDED:
        table = _table(site, entry.entity)
        forgotten = [] if table is None else aborts.forgettable_in_table(table, entry)
        site.metastore.cleaning.mark_cleaned(entry, forgotten, all_below=table is None)
    else:
        site.metastore.endings.finish(entry, drop.state, drop.error)
    because = drop.error or "the table or partition is gone"
    return EndedUncleaned(entity=entry.entity, entry_id=entry.id, state=drop.state, because=because)


def _first_sight(site: Site, entry: Entry) -> Sighting | None:
    """Returns the substitute for a stamp that Hive did not write (its rebalance, Hive 3's rows) or wrote too early (Hive
    4.2): the newest ids when the row was first seen. Without our own state to keep it in, such rows wait for Hive."""
    goes_by_locks = not site.metastore.dialect.layout.has_visibility
    is_exact = entry.next_txn_id is not None and not goes_by_locks and not site.stamps_early(entry)
    if site.state is None or is_exact:
        return None
    locks = [row.id for row in site.metastore.locks.show(entry.entity.database)] if goes_by_locks else []
    now = Sighting(newest=site.metastore.transactions.newest(), newest_lock=max(locks, default=0))
    return site.state.sightings.first(site.name, entry.id, now)


def _held_by_lock(site: Site, entry: Entry, seen: Sighting | None) -> Wait | None:
    """Returns a wait while a lock from before the entry was first seen, on it or around it, is still there: readers of
    Hive 3.1 may hold locks without a transaction (Hive 3.1's ``Cleaner``, which only checks locks on the entry itself)."""
    if seen is None or site.metastore.dialect.layout.has_visibility:
        return None
    here = entry.entity
    names = site.metastore.dialect.recorded_names(here.partition)
    wanted = [
        LockRequest(database=here.database, table=here.table, partition=name, type=LockType.EXCLUSIVE) for name in names
    ]
    for row in site.metastore.locks.show(here.database):
        if row.id <= seen.newest_lock and any(conflicts(request, row, semi_shared=True) for request in wanted):
            return Wait(
                because=f"{row} was there when the entry was first seen; its reader may read the replaced directories"
            )
    return None


def _rebalance_committed(site: Site, target: Target, entry: Entry) -> bool:
    """Returns true if a rebalance whose row in TXNS is gone committed, by its WRITE_SET or its base (PROTOCOL 7.4). If it
    had aborted, its components would keep that row as long as the base is there."""
    if entry.type is not CompactionType.REBALANCE or entry.txn_id is None:
        return False
    named = naming.names_of(site.storage, target.location, entry.txn_id)
    is_there = any(isinstance(parse_directory(name), Base) for name in named)
    return is_there or site.metastore.commits.rebalance_committed(entry.txn_id)


def _remove(gate: Gate, aborts: AbortedWrites, target: Target, entry: Entry) -> Cleaned | Waiting:
    site = gate.site
    view = _view(gate, target, entry.highest_write_id if entry.highest_write_id is not None else WriteId(0))
    obsolete = removable(view.directory)
    if any(map(is_output, view.directory.aborted)):
        leftovers.clear_leftovers(site, target)  # first, since nothing is cleaned beside one that may be the only copy
    held = aborts.held(target, obsolete, view.write_ids.aborted)
    kept = quarantine.keep_obsolete(site, target, entry, view)
    names = [name for name in obsolete if name not in kept.names and name not in held]
    freed = remove_directories(
        site, target, view.listing, names, still=partial(site.metastore.cleaning.must_be_ready, entry)
    )
    swept = leftovers.clear_leftovers(site, target)
    quarantine.record_kept(site, target, entry, kept)
    reach(Step.REMOVED)
    after = acid_directory(site.storage.listing(target.location), view.write_ids, view.txns)
    left = set(removable(after)) - held
    waiting = _hidden_left(site, target)
    if left or waiting:
        because = f"still there: {', '.join((*sorted(left), *waiting))}"
        site.metastore.cleaning.back_off(entry, 0, because)
        return Waiting(entity=entry.entity, entry_id=entry.id, because=because)
    if shared := held.intersection(after.obsolete):  # what only aborted transactions wrote goes without a request
        because = _within_grace(shared)
        site.metastore.cleaning.back_off(entry, site.settings.milliseconds(GRACE), because)
        return Waiting(entity=entry.entity, entry_id=entry.id, because=because)
    if forgotten := aborts.forgettable(target, entry):
        must_be_newest(site, polling=True)  # looking through storage may take long
    site.metastore.cleaning.mark_cleaned(entry, forgotten, all_below=False)
    reach(Step.CLEANED)
    log.info("%s entry %d: cleaned, %d directories, %d bytes", entry.entity, entry.id, len(names), freed)
    removed = tuple(sorted({*names, *swept}))
    return Cleaned(entity=entry.entity, entry_id=entry.id, removed=removed, bytes_freed=freed, quarantined=kept.names)


def _view(gate: Gate, target: Target, highest: WriteId) -> View:
    """Returns the directory as every snapshot that the gate admits sees it, up to the entry's highest write ID: nobody reads
    what is obsolete there."""
    site, txns = gate.site, gate.txns
    write_ids = gate.write_ids(target.table).for_cleaner(highest)
    listing = site.storage.listing(target.location)
    Given(site, [target.table], listing.directories).must_explain(target, listing.directories)
    directory = acid_directory(listing, write_ids, txns)
    if (name := leftovers.not_for_hive_3(site, target)) is not None:
        raise BadName(
            f"{target.location}: {name} contains a transaction, which Hive 3.1 cannot read; nothing is removed beside it; "
            "find out who wrote it and move it away"
        )
    if directory.unparsable:
        raise BadName(
            f"{target.location}: the name of {', '.join(directory.unparsable)} begins like a base or delta but is not one; "
            "nothing is removed beside it; find out who wrote it and move it away"
        )
    return View(txns=txns, write_ids=write_ids, listing=listing, directory=directory)


def _hidden_left(site: Site, target: Target) -> tuple[str, ...]:
    children = site.storage.children(target.location)
    return tuple(c for c in children if parse_hidden(c) or parse_staging(c))


def _table(site: Site, entity: Entity) -> Table | None:
    try:
        return site.metastore.catalog.table(entity.database, entity.table)
    except NotFound:
        return None


def _clean_aborted(aborts: AbortedWrites, entity: Entity) -> Cleaned | Waiting | None:
    done = aborts.clean(entity)
    if done.removed:
        return Cleaned(entity=entity, entry_id=None, removed=done.removed, bytes_freed=done.bytes_freed)
    if done.held:
        return Waiting(entity=entity, entry_id=0, because=_within_grace(done.held))
    return None


def _within_grace(names: Collection[str]) -> str:
    return f"{', '.join(sorted(names))}: written by transactions that were first seen aborted within {GRACE}"


def _backing_off(site: Site) -> Iterator[Waiting]:
    """Yields the entries that were skipped because cleaning them failed not long ago."""
    now = site.metastore.now_ms()
    for entry in site.metastore.cleaning.backing_off(now):
        seconds = (next_cleaning(entry) - now) // 1000
        because = f"cleaning failed ({entry.error or 'the reason is not known'}); tried again in {seconds} s"
        yield Waiting(entity=entry.entity, entry_id=entry.id, because=because)


def _back_off(site: Site, entry: Entry, error: CompactorError) -> Waiting | None:
    """Makes a row that cannot be cleaned wait, twice as long each time; it never leaves the queue by itself (PROTOCOL 6).

    Returns None if another cleaner, perhaps Hive's, has meanwhile removed the row and its directories.

    Raises:
        Disagreement: a row that is gone, and the error, come from an older database that was put back meanwhile.
    """
    must_still_be_newest(site)
    retention = retry_retention(entry.retry_retention, site.settings)
    try:
        site.metastore.cleaning.back_off(entry, retention, str(error))
    except LostClaim:
        log.info("%s entry %d: another cleaner was faster: %s", entry.entity, entry.id, error)
        return None
    level = logging.WARNING if isinstance(error, StorageError) else logging.ERROR
    log.log(level, "%s entry %d: cleaning failed, next try in %d ms: %s", entry.entity, entry.id, retention, error)
    return Waiting(entity=entry.entity, entry_id=entry.id, because=str(error))
