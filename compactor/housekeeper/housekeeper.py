"""The housekeeper: time-outs, history retention, and the purge of superfluous rows (PROTOCOL 8)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compactor.acid import txn_states
from compactor.base.errors import LockNotGranted, NotFound
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.history_retention import SETTINGS, RetentionPolicy, choose_purged
from compactor.compaction.queue_entry import Entity, Entry
from compactor.metastore.row_removal import Forgettable
from compactor.metastore.transactions.open_limits import OPEN_TXN_TIMEOUT_MS
from compactor.settings.precedence import Settings
from compactor.settings.table_properties import parameters_naming
from compactor.site import lost_workers, quarantine
from compactor.site.abort_grace import AbortGrace
from compactor.site.heartbeat import heartbeat_period_ms
from compactor.site.mode import Mode, may, may_somewhere
from compactor.site.proof_of_removal import RemovalProof
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site

log = logging.getLogger(__name__)
_HOUR_MS = 3_600_000
_QUARANTINE_MS = 300_000
_PLACES_MS = 366 * 24 * _HOUR_MS  #: long, since a mount may be away for long, and forgetting aborts is never urgent
_PROGRESS_MS = 30 * 24 * _HOUR_MS  #: long, since a unit may take long and the row is small


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeeperPass:
    """The counts of one pass.

    ``tasks`` are the names of the tasks that ran. ``kept`` lists the aborted transactions that stay, each with the reason;
    ``timed_out`` lists the transactions that were aborted because they had no heartbeat.
    """

    acted: bool
    tasks: tuple[str, ...] = ()
    repaired: int = 0
    history_purged: int = 0
    write_set_purged: int = 0
    write_ids_purged: int = 0
    min_history_purged: int = 0
    components_purged: int = 0
    rebuild_locks_purged: int = 0
    transactions_forgotten: int = 0
    state_purged: int = 0
    quarantines_erased: int = 0
    kept: tuple[str, ...] = ()
    timed_out: tuple[TxnId, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """The work of one of Hive's housekeeping threads. It runs every ``interval_ms``."""

    name: str
    interval_ms: Callable[[Settings], int]
    run: Callable[[Site], Mapping[str, Any]]


def keep_house(site: Site, *, due_only: bool = False) -> HousekeeperPass:
    """Runs one pass.

    In a mode below ``clean`` Hive does its own housekeeping, and only our own state is purged. If the mode of some database
    is ``clean``, due quarantines are erased as well.

    With ``due_only``, a task is skipped until its interval since its last run is over. Runs of other housekeepers count,
    since several may run at the same time.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
        StorageError: the files that would show an older copy cannot be read.
    """
    if not may(site.settings, Mode.CLEAN):
        kept = _quarantine(site) if may_somewhere(site.settings, Mode.CLEAN) else {}
        return HousekeeperPass(acted=False, **_own_state(site), **kept)
    must_be_newest(site)
    figures: dict[str, Any] = {}
    ran: list[str] = []
    for task in CHORES:
        if due_only and not _is_due(site, task):
            continue
        figures |= task.run(site)
        ran.append(task.name)
    return HousekeeperPass(acted=True, tasks=tuple(ran), **figures)


def shortest_interval_ms(settings: Settings) -> int:
    """Returns how often a continuous housekeeper has to check which tasks are due."""
    return max(1, min(task.interval_ms(settings) for task in CHORES))


def _is_due(site: Site, task: Chore) -> bool:
    """Takes the task's mutex, which no housekeeper gets again before the interval is over."""
    try:
        site.metastore.mutexes.take(
            f"housekeeper:{task.name}", site.identity("housekeeper"), task.interval_ms(site.settings)
        )
    except LockNotGranted:
        return False
    return True


def _acid(site: Site) -> dict[str, Any]:
    """Does the work of Hive's AcidHouseKeeperService, such as time-outs, and forgets aborted transactions."""
    timed_out = lost_workers.time_out(site)
    repaired = lost_workers.repair(site)
    keeping, timeout = site.metastore.housekeeping, _settled_ms(site)
    aborted = [ended for ended in keeping.forgettable(timeout) if ended.state == txn_states.ABORTED]
    kept = _find_unforgettable(site, aborted)
    must_be_newest(site, polling=True)  # looking through storage may take long
    return {
        "repaired": len(repaired),
        "timed_out": timed_out,
        "write_set_purged": keeping.purge_write_set(open_txn_timeout_ms=timeout),
        "write_ids_purged": keeping.purge_write_ids(open_txn_timeout_ms=timeout),
        "min_history_purged": keeping.purge_min_history(open_txn_timeout_ms=timeout),
        "transactions_forgotten": keeping.forget_transactions(
            {ended.id for ended in aborted} - kept.keys(), open_txn_timeout_ms=timeout
        ),
        "kept": tuple(f"{txn}: {why}" for txn, why in sorted(kept.items())),
    }


def _compactions(site: Site) -> dict[str, Any]:
    """Does the work of Hive's CompactionHouseKeeperService: purges the history and redundant components."""
    keeping, outdated = site.metastore.housekeeping, _find_outdated(site, site.metastore.now_ms())
    purged = keeping.purge_history(outdated)
    if outdated:
        site.metastore.queue.forget_extra_columns(outdated)
    return {"history_purged": purged, "components_purged": keeping.purge_components()}


def _rebuild_locks(site: Site) -> dict[str, Any]:
    """Does the work of Hive's MaterializationsRebuildLockCleanerTask."""
    timeout = site.settings.milliseconds("hive.txn.timeout")
    return {"rebuild_locks_purged": site.metastore.housekeeping.purge_rebuild_locks(timeout)}


def _quarantine(site: Site) -> dict[str, Any]:
    """Erases quarantines that are due or exceed the site's limit of bytes."""
    return {"quarantines_erased": len(quarantine.erase_due(site))}


def _own_state(site: Site) -> dict[str, Any]:
    """Purges our own state.

    Old decisions and conditions, figures of old runs, and what old runs waited for.
    """
    if site.state is None:
        return {}
    seen = site.settings.milliseconds("compactor.decisions.retention")
    runs = site.settings.milliseconds("compactor.runs.retention")
    purged = site.state.decisions.purge(seen) + site.state.conditions.purge(seen) + site.state.runs.purge(runs)
    purged += site.state.sightings.purge_locations(_PLACES_MS) + site.state.runs.purge_progress(_PROGRESS_MS)
    purged += site.state.awaited.purge(runs) + site.state.removals.purge(runs)
    purged += site.state.reads.purge(site.name, site.settings.milliseconds("compactor.reads.retention"))
    return {"state_purged": purged}


def _settled_ms(site: Site) -> int:
    """Returns the age from which a gap in transaction ids no longer counts as an open transaction."""
    return max(site.settings.milliseconds("hive.txn.opentxn.timeout"), OPEN_TXN_TIMEOUT_MS)


#: The first one includes Hive's AcidTxnCleanerService. Before an aborted transaction is forgotten, storage is searched for
#: its directories (PROTOCOL 8). Every ten seconds, that would cost more than keeping the rows.
CHORES = (
    Chore(
        name="acid",
        interval_ms=lambda settings: max(
            settings.milliseconds("hive.metastore.acid.housekeeper.interval"),
            settings.milliseconds("hive.metastore.acid.txn.cleaner.interval"),
        ),
        run=_acid,
    ),
    Chore(
        name="compactions",
        interval_ms=lambda settings: settings.milliseconds("hive.metastore.compaction.housekeeper.interval"),
        run=_compactions,
    ),
    Chore(
        name="rebuild-locks",
        interval_ms=heartbeat_period_ms,
        run=_rebuild_locks,
    ),
    Chore(name="state", interval_ms=lambda settings: _HOUR_MS, run=_own_state),
    Chore(name="quarantine", interval_ms=lambda settings: _QUARANTINE_MS, run=_quarantine),
)


def _find_outdated(site: Site, now_ms: int) -> list[int]:
    policies = _Policies(site)
    history: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.entries.history():
        history[entry.entity].append(entry)
    return [
        number
        for entity, entries in history.items()
        for number in choose_purged(entries, policies.policy_of(entity), now_ms)
    ]


class _Policies:
    """The history policy of each table: the site's, unless parameters or an override differ."""

    def __init__(self, site: Site) -> None:
        self._site, self._usual = site, RetentionPolicy.from_settings(site.settings)
        self._own = site.metastore.catalog.tables_setting({name for key in SETTINGS for name in parameters_naming(key)})
        if site.state is not None:
            overrides = site.state.overrides
            self._own |= {
                (override.database, override.table) for key in SETTINGS for override in overrides.of_key(site.name, key)
            }
        self._known: dict[tuple[str, str], RetentionPolicy] = {}

    def policy_of(self, entity: Entity) -> RetentionPolicy:
        table = (entity.database, entity.table)
        if table not in self._own:
            return self._usual
        if table not in self._known:
            self._known[table] = RetentionPolicy.from_settings(self._site.settings_of(entity))
        return self._known[table]


def _find_unforgettable(site: Site, ended: Iterable[Forgettable]) -> dict[TxnId, str]:
    """Returns the aborted transactions that may not be forgotten yet, each with the reason.

    A transaction is too young, or its data is still in storage, or storage cannot be searched.
    """
    grace = AbortGrace.recorded(site)
    txns = {transaction.id for transaction in ended}
    kept = {txn: "first seen aborted within compactor.forget.grace" for txn in txns if not grace.is_over(txn)}
    by_table: dict[tuple[str, str], dict[WriteId, TxnId]] = defaultdict(dict)
    for txn, database, name, write_id in site.metastore.write_ids.allocated_to_all(txns - kept.keys()):
        by_table[(database, name)][write_id] = txn
    proof = RemovalProof(site)
    for (database, name), aborted in by_table.items():
        kept.update(_in_storage(site, proof, database, name, aborted))
    proof.remember()
    return kept


def _in_storage(
    site: Site, proof: RemovalProof, database: str, name: str, aborted: Mapping[WriteId, TxnId]
) -> dict[TxnId, str]:
    try:
        table = site.metastore.catalog.table(database, name)
    except NotFound:
        if not _is_gone(site, database, name, aborted):
            return dict.fromkeys(aborted.values(), f"{database}.{name} is being renamed, or is in another catalog")
        return {}  # the table was dropped with its directories
    return {aborted[w]: why for w, why in proof.of_table(table, aborted).items()}


def _is_gone(site: Site, database: str, name: str, aborted: Mapping[WriteId, TxnId]) -> bool:
    """Returns true if the table was dropped: no catalog has it, and its write IDs were not renamed."""
    named = {
        (txn, of_database, of_table)
        for txn, of_database, of_table, _ in site.metastore.write_ids.allocated_to_all(aborted.values())
    }
    return not site.metastore.catalog.is_known(database, name) and all(
        (txn, database, name) in named for txn in aborted.values()
    )
