"""The cleaner: removes directories that no snapshot needs, then forgets their transactions.

See PROTOCOL 7, 8.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from compactor.acid import txn_states
from compactor.acid.names import Base, parse_directory
from compactor.base.errors import CompactorError, NotFound, failing_alone
from compactor.cleaner.aborted_writes import AbortedWrites, abort_candidates, within_grace
from compactor.cleaner.blockers import blockers_of
from compactor.cleaner.cleaner_pass import Cleaned, CleanerPass, EndedUncleaned, PassLog, Waiting
from compactor.cleaner.cleaning_group import CleaningGroup
from compactor.cleaner.cleaning_phases import Chosen
from compactor.cleaner.gate import GROUP_SIZE, Gate
from compactor.compaction.cleaning import Clean, CleaningFacts, Drop, Wait, describe_back_off, may_clean
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_types import LockRequest, LockType, conflicts
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.cleaning_rows import next_cleaning
from compactor.rewrite.publish import naming
from compactor.settings.precedence import Settings
from compactor.site import leftovers, lost_workers
from compactor.site.mode import Mode, may
from compactor.site.restored_database import must_be_newest, must_still_be_newest
from compactor.site.site import Site, Target, must_lie_in_no_other
from compactor.site.threads import SideBySide
from compactor.state.sightings import Sighting

log = logging.getLogger(__name__)
_THREADS = "hive.compactor.cleaner.threads.num"
_GROUPS = 4  #: under way at once: while one asks the database, the threads work for another


def clean(site: Site) -> CleanerPass:
    """Runs one pass over entries ready for cleaning, then over aborts past their threshold.

    An entry that cannot be cleaned backs off and keeps its row; the others continue. A caller that shows conditions to
    people looks again at ``CleanerPass.changed``.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
        StorageError: the files that would show an older copy cannot be read.
    """
    must_be_newest(site)
    site = site.for_a_pass()
    repaired = lost_workers.repair(site)
    pass_log = PassLog(site)
    count = site.settings.integer(_THREADS)
    with SideBySide(count, "cleaner") as threads, SideBySide(min(count, _GROUPS), "cleaning", at_once=True) as groups:
        aborts = AbortedWrites(site, threads)

        def clean_group(entries: Sequence[Entry]) -> None:
            must_still_be_newest(site)
            _clean_group(Gate(site, entries), aborts, threads, pass_log)

        for together in _rounds(site.metastore.cleaning.ready_for_cleaning(site.metastore.now_ms())):
            groups.map(clean_group, together)
        for entity in abort_candidates(site):
            must_still_be_newest(site)
            _clean_aborted(aborts, entity, pass_log)
        aborts.remember()
    waiting = [waits for waits in _backing_off(site) if waits.entry_id not in pass_log.tried]
    return pass_log.done(repaired, waiting)


def _rounds(entries: Sequence[Entry]) -> Iterator[list[list[Entry]]]:
    """Yields rounds of groups that may be cleaned at the same time.

    A round has at most one entry of each table or partition: its second entry is in the second round.
    """
    seen: Counter[Entity] = Counter()
    rounds: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        rounds[seen[entry.entity]].append(entry)
        seen[entry.entity] += 1
    for _, every in sorted(rounds.items()):
        yield [every[start : start + GROUP_SIZE] for start in range(0, len(every), GROUP_SIZE)]


def _clean_group(gate: Gate, aborts: AbortedWrites, threads: SideBySide, pass_log: PassLog) -> None:
    choose = partial(_choose, aborts, pass_log)
    chosen = [decision for entry in gate.entries if (decision := choose(gate, entry)) is not None]
    if chosen:
        CleaningGroup(gate, aborts, threads, pass_log, choose).clean(chosen)


def _choose(aborts: AbortedWrites, pass_log: PassLog, gate: Gate, entry: Entry) -> Chosen | None:
    """Returns the entry if it may be cleaned now; any other outcome goes to ``pass_log``."""
    try:
        with failing_alone(f"{entry.entity} entry {entry.id}"):
            decision = _decide(gate, aborts, entry)
    except CompactorError as error:
        pass_log.fail(entry, error)
        return None
    if decision is None or isinstance(decision, Chosen):
        return decision
    pass_log.add(decision)
    return None


def _decide(gate: Gate, aborts: AbortedWrites, entry: Entry) -> Chosen | Waiting | EndedUncleaned | None:
    site, target = gate.site, gate.target(entry)
    settings = site.settings_of(entry.entity) if target is None else target.settings
    if not may(settings, Mode.CLEAN):
        return None  # only Hive's own cleaner removes directories of this table
    match verdict(gate, target, entry, settings):
        case Wait(because=because):
            return Waiting(entity=entry.entity, entry_id=entry.id, because=because, blockers=blockers_of(site, entry))
        case Drop() as drop:
            return _drop(site, aborts, target, entry, drop)
        case Clean():
            assert target is not None  # the verdict on a missing table is Drop
            must_lie_in_no_other(site, target)
            return Chosen(entry=entry, target=target)


def _drop(site: Site, aborts: AbortedWrites, target: Target | None, entry: Entry, drop: Drop) -> EndedUncleaned:
    """Moves the row to the history. Only a compaction that is known to be aborted loses its directories."""
    if drop.aborted and target is not None and entry.txn_id is not None:
        leftovers.clear_aborted(site, target, entry.txn_id)
    if drop.state is State.SUCCEEDED:
        table = _table(site, entry.entity)
        forgotten = [] if table is None else aborts.forgettable_in_table(table, entry)
        site.metastore.cleaning.mark_cleaned(entry, forgotten, all_below=table is None)
    else:
        site.metastore.claims.finish(entry, drop.state, drop.error)
    because = drop.error or "the table or partition is gone"
    return EndedUncleaned(entity=entry.entity, entry_id=entry.id, state=drop.state, because=because)


def _table(site: Site, entity: Entity) -> Table | None:
    try:
        return site.metastore.catalog.table(entity.database, entity.table)
    except NotFound:
        return None


def _clean_aborted(aborts: AbortedWrites, entity: Entity, pass_log: PassLog) -> None:
    try:
        with failing_alone(entity):
            done = aborts.clean(entity)
    except CompactorError as error:
        log.warning("%s: aborted transactions cannot be cleaned: %s", entity, error)
        pass_log.failed.append(Waiting(entity=entity, entry_id=0, because=str(error)))
        return
    if done.removed:
        pass_log.add(Cleaned(entity=entity, entry_id=None, removed=done.removed, bytes_freed=done.bytes_freed))
    elif done.in_grace:
        pass_log.add(Waiting(entity=entity, entry_id=0, because=within_grace(done.in_grace)))


def _backing_off(site: Site) -> Iterator[Waiting]:
    """Yields the entries that were skipped because they wait, or because their cleaning has just failed."""
    for entry in site.metastore.cleaning.backing_off(site.metastore.now_ms()):
        because = describe_back_off(entry, next_cleaning(entry))
        yield Waiting(entity=entry.entity, entry_id=entry.id, because=because)


def verdict(gate: Gate, target: Target | None, entry: Entry, settings: Settings) -> Clean | Wait | Drop:
    """Returns whether an entry is cleaned, waits or is dropped.

    ``target`` is None for a dropped table or partition.
    """
    site = gate.site
    if target is not None and (why := target.table.refusal(target.partition)) is not None:
        return Drop(state=State.REFUSED, error=f"{why}; nothing is removed there")
    parameters = target.partition.parameters if target and target.partition else {}
    txn_state = gate.txn_state(entry)
    # A sighting before the commit is too early: a transaction opened in between does not see the compaction.
    seen = None if txn_state == txn_states.OPEN else _first_sight(site, entry)
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
    waits = _wait_for_locks(site, entry, seen) if isinstance(answer, Clean) else None
    return waits or answer


def _first_sight(site: Site, entry: Entry) -> Sighting | None:
    """Returns the newest ids when the row was first seen, in place of a missing or unreliable stamp.

    Hive writes no stamp for a rebalance and in Hive 3, and stamps too early in Hive 4.2. The sighting is kept in our own
    state; without a state, such rows wait for Hive.
    """
    goes_by_locks = not site.metastore.dialect.layout.has_visibility
    is_exact = entry.next_txn_id is not None and not goes_by_locks and not site.stamps_early(entry)
    if site.state is None or is_exact:
        return None
    locks = [row.id for row in site.metastore.locks.show(entry.entity.database)] if goes_by_locks else []
    now = Sighting(newest=site.metastore.transactions.newest(), newest_lock=max(locks, default=0))
    return site.state.sightings.first(site.name, entry.id, now)


def _wait_for_locks(site: Site, entry: Entry, seen: Sighting | None) -> Wait | None:
    """Returns a wait while a conflicting lock remains that is older than our first sight of the entry.

    Readers of Hive 3.1 may hold locks without a transaction. Hive 3.1's ``Cleaner`` only checks locks on the entry itself;
    this also checks locks on its table and database.
    """
    if seen is None or site.metastore.dialect.layout.has_visibility:
        return None
    here = entry.entity
    names = site.metastore.dialect.recorded_names(here.partition)
    requests = [
        LockRequest(database=here.database, table=here.table, partition=name, type=LockType.EXCLUSIVE) for name in names
    ]
    for row in site.metastore.locks.show(here.database):
        if row.id <= seen.newest_lock and any(conflicts(request, row, semi_shared=True) for request in requests):
            return Wait(
                because=f"{row} was there when the entry was first seen; its reader may read the replaced directories"
            )
    return None


def _rebalance_committed(site: Site, target: Target, entry: Entry) -> bool:
    """Returns true if a rebalance whose row in TXNS is gone did commit, by its WRITE_SET or its base.

    See PROTOCOL 7.4.

    The components of an aborted rebalance would keep that row as long as its base is there.
    """
    if entry.type is not CompactionType.REBALANCE or entry.txn_id is None:
        return False
    named = naming.names_of(site.storage, target.location, entry.txn_id)
    is_there = any(isinstance(parse_directory(name), Base) for name in named)
    return is_there or site.metastore.commits.rebalance_committed(entry.txn_id)
