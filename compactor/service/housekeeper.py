"""The housekeeper: time-outs, history retention, and the purge of what nobody asks for any more (PROTOCOL 8)."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

from compactor.acid.directory import Listing
from compactor.acid.names import Base, Delta, parse_directory
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.retention import Policy, to_purge
from compactor.errors import BadName, CompactorError, NotFound
from compactor.ids import TxnId, WriteId
from compactor.metastore.catalog import Table
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
    kept = _still_in_storage(site)
    forget_age = site.settings.milliseconds("compactor.forget.grace") + site.settings.milliseconds("hive.txn.timeout")
    return HousekeeperPass(
        acted=True,
        repaired=len(repaired),
        history_purged=purged,
        write_set_purged=keeping.purge_write_set(),
        write_ids_purged=keeping.purge_write_ids(keep=frozenset(kept)),
        components_purged=keeping.purge_components(),
        transactions_forgotten=keeping.forget_transactions(keep=frozenset(kept), aborted_before=now - forget_age),
        kept=tuple(f"{txn}: {where}" for txn, where in sorted(kept.items())),
    )


def _outdated(site: Site, now_ms: int) -> list[int]:
    policy = Policy.of(site.settings)
    history: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.compactions.history():
        history[entry.entity].append(entry)
    return [number for entries in history.values() for number in to_purge(entries, policy, now_ms)]


def _still_in_storage(site: Site) -> dict[TxnId, str]:
    """Aborted transactions with a directory of their write ID, or their number in a directory's name, somewhere.

    Were such a one forgotten, its directory would count as committed: an aborted TRUNCATE's ``base_N`` would empty the
    table [seen]. What cannot be listed keeps its transactions too.
    """
    kept: dict[TxnId, str] = {}
    for (database, name), aborted in site.metastore.write_ids.aborted_by_table().items():
        try:
            table = site.metastore.catalog.table(database, name)
        except NotFound:
            continue  # the table is gone, and its directories with it
        for location in _locations(site, table):
            try:
                shown = _shown(site.storage.listing(site.storage.resolve(location)), aborted)
            except CompactorError as error:
                log.warning("%s: cannot be listed, so its aborted transactions stay: %s", location, error)
                shown = {txn: f"{location} cannot be listed" for txn in aborted.values()}
            kept.update(shown)
    return kept


def _locations(site: Site, table: Table) -> list[str]:
    if not table.partition_keys:
        return [table.location]
    return [p.location for p in site.metastore.catalog.partitions(table)]


def _shown(listing: Listing, aborted: dict[WriteId, TxnId]) -> dict[TxnId, str]:
    shown: dict[TxnId, str] = {}
    for directory in listing.directories:
        try:
            acid = parse_directory(directory)
        except BadName:
            continue
        match acid:
            case Base(write_id=number):
                within = {number}
            case Delta(min_write_id=low, max_write_id=high):
                within = {w for w in aborted if low <= w <= high} if acid.visibility_txn_id == 0 else set()
            case None:
                continue
        for write_id in within & aborted.keys():
            if acid.visibility_txn_id == 0:
                shown[aborted[write_id]] = directory
    return shown
