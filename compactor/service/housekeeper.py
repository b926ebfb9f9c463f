"""The housekeeper: time-outs, history retention, and the purge of what nobody asks for any more (PROTOCOL 8)."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.forgetting import forget_before, shown
from compactor.compaction.retention import Policy, to_purge
from compactor.errors import CompactorError, NotFound
from compactor.ids import TxnId, WriteId
from compactor.metastore.catalog import Table
from compactor.metastore.transactions import OPEN_TXN_TIMEOUT_MS
from compactor.service import repair
from compactor.service.mode import Mode, may
from compactor.service.site import Site

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeeperPass:
    """How many of each were dealt with. ``kept`` says which aborted transactions stay, and where they still show."""

    acted: bool
    repaired: int = 0
    history_purged: int = 0
    write_set_purged: int = 0
    write_ids_purged: int = 0
    components_purged: int = 0
    transactions_forgotten: int = 0
    kept: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def keep_house(site: Site) -> HousekeeperPass:
    """One pass. In a mode below ``clean`` Hive keeps its own house, and nothing is done here."""
    if not may(site.settings, Mode.CLEAN):
        return HousekeeperPass(acted=False)
    repaired = repair.repair(site)
    keeping = site.metastore.housekeeping
    now = site.metastore.now_ms()
    purged = keeping.purge_history(_outdated(site, now))
    # Never younger than what snapshots take for an id that is about to appear: it would count as open to them.
    timeout = max(site.settings.milliseconds("hive.txn.opentxn.timeout"), OPEN_TXN_TIMEOUT_MS)
    kept = _still_needed(site, now, timeout)
    return HousekeeperPass(
        acted=True,
        repaired=len(repaired),
        history_purged=purged,
        write_set_purged=keeping.purge_write_set(),
        write_ids_purged=keeping.purge_write_ids(),
        components_purged=keeping.purge_components(),
        transactions_forgotten=keeping.forget_transactions(kept, open_txn_timeout_ms=timeout),
        kept=tuple(f"{txn}: {why}" for txn, why in sorted(kept.items())),
    )


def _outdated(site: Site, now_ms: int) -> list[int]:
    policy = Policy.of(site.settings)
    history: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.compactions.history():
        history[entry.entity].append(entry)
    return [number for entries in history.values() for number in to_purge(entries, policy, now_ms)]


def _still_needed(site: Site, now_ms: int, timeout_ms: int) -> dict[TxnId, str]:
    """Aborted transactions that may not be forgotten yet, and why: too young, or something of them is in storage.

    What cannot be listed keeps its transactions too.
    """
    horizon = forget_before(now_ms, site.settings)
    kept: dict[TxnId, str] = {}
    by_table: dict[tuple[str, str], dict[WriteId, TxnId]] = defaultdict(dict)
    for ended in site.metastore.housekeeping.forgettable(timeout_ms):
        if ended.state != "a":
            continue
        if ended.last_heartbeat >= horizon:
            kept[ended.id] = "aborted within compactor.forget.grace"
        for database, name, write_id in site.metastore.write_ids.of(ended.id):
            by_table[(database, name)][write_id] = ended.id
    for (database, name), aborted in by_table.items():
        kept.update(_in_storage(site, database, name, aborted))
    return kept


def _in_storage(site: Site, database: str, name: str, aborted: dict[WriteId, TxnId]) -> dict[TxnId, str]:
    try:
        table = site.metastore.catalog.table(database, name)
    except NotFound:
        return {}  # the table is gone, and its directories with it
    kept: dict[TxnId, str] = {}
    for location in _locations(site, table):
        try:
            there = shown(site.storage.listing(site.storage.resolve(location)), aborted)
        except CompactorError as error:
            log.warning("%s: cannot be listed, so its aborted transactions stay: %s", location, error)
            return dict.fromkeys(aborted.values(), f"{location} cannot be listed")
        kept.update((aborted[w], f"{location}/{directory}") for w, directory in there.items())
    return kept


def _locations(site: Site, table: Table) -> list[str]:
    if not table.partition_keys:
        return [table.location]
    return [p.location for p in site.metastore.catalog.partitions(table)]
