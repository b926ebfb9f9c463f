"""The decision about an entry that is ready for cleaning, by the gate and by what only its own row can tell (PROTOCOL 7)."""

from __future__ import annotations

from compactor.acid import txn_states
from compactor.acid.names import Base, parse_directory
from compactor.cleaner.gate import Gate
from compactor.compaction.cleaning import Clean, CleaningFacts, Drop, Wait, may_clean
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_requests import LockRequest
from compactor.locking.lock_types import LockType, conflicts
from compactor.rewrite.publish import naming
from compactor.settings.precedence import Settings
from compactor.site.site import Site, Target
from compactor.state.sightings import Sighting


def verdict(gate: Gate, target: Target | None, entry: Entry, settings: Settings) -> Clean | Wait | Drop:
    """Returns what may happen to an entry that is ready for cleaning; ``target`` is None if its table or partition is
    gone."""
    site = gate.site
    if target is not None and (why := target.table.refusal(target.partition)) is not None:
        return Drop(state=State.REFUSED, error=f"{why}; nothing is removed there")
    parameters = target.partition.parameters if target and target.partition else {}
    txn_state = gate.txn_state(entry)
    # before the commit is too soon: a transaction opened meanwhile does not see the compaction either
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
    held = _held_by_lock(site, entry, seen) if isinstance(answer, Clean) else None
    return held or answer


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
