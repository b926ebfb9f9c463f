"""Decides about an entry that is ready for cleaning, by the gate and by the entry's own row.

See PROTOCOL 7.
"""

from __future__ import annotations

from compactor.acid import txn_states
from compactor.acid.names import Base, parse_directory
from compactor.cleaner.gate import Gate
from compactor.compaction.cleaning import Clean, CleaningFacts, Drop, Wait, may_clean
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_requests import LockRequest, LockType, conflicts
from compactor.rewrite.publish import naming
from compactor.settings.precedence import Settings
from compactor.site.site import Site, Target
from compactor.state.sightings import Sighting


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
