"""The writes of aborted transactions: tables to be cleaned of them, their removal, and those that may be forgotten."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compactor.acid.directory import acid_directory
from compactor.acid.listing import Listing
from compactor.acid.names import parse_staging
from compactor.base.ids import WriteId
from compactor.base.printable import few
from compactor.cleaner.removing import remove_directories
from compactor.compaction.cleaning import is_output, must_be_understood
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.entry import Entity, Entry
from compactor.metastore.catalog.values import Table
from compactor.site import leftovers
from compactor.site.abort_grace import AbortGrace
from compactor.site.files_and_metastore import Given
from compactor.site.mode import Mode, may
from compactor.site.proof_of_removal import Absence
from compactor.site.restored_database import must_be_newest
from compactor.site.side_by_side import SideBySide
from compactor.site.site import Site, Target, claims_of, must_have_its_own_ground, path_of
from compactor.site.surveyed_tables import SurveyedTables

GRACE = "compactor.forget.grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortsCleaned:
    """The directories that were removed, with their bytes, and those that stay, since their time is not over yet."""

    removed: tuple[str, ...] = ()
    bytes_freed: int = 0
    held: tuple[str, ...] = ()


def within_grace(names: Collection[str]) -> str:
    """Returns why these directories stay for now."""
    return f"{few(names)}: written by transactions that were first seen aborted within {GRACE}"


def abort_candidates(site: Site) -> tuple[Entity, ...]:
    """Returns the entities whose aborted transactions are past hive.compactor.abortedtxn.threshold or its time threshold."""
    threshold = site.settings.integer("hive.compactor.abortedtxn.threshold")
    age = site.settings.milliseconds("hive.compactor.aborted.txn.time.threshold")
    now = site.metastore.now_ms()
    recorded = [
        entity
        for entity, aborts in sorted(site.metastore.candidates.aborts().items(), key=lambda item: str(item[0]))
        if aborts.count > threshold or (age >= 0 and now - aborts.oldest_start > age)
    ]
    if not recorded:
        return ()
    return tuple(SurveyedTables(site, site.metastore.transactions.snapshot(), site.moment()).meant(recorded))


class AbortedWrites:
    """One pass over the aborted writes of a metastore. It answers groups of entries one after the other."""

    def __init__(self, site: Site, threads: SideBySide) -> None:
        self._site = site
        self._threads = threads
        self._absence = Absence(site)
        self._grace = AbortGrace.recorded(site)
        self._lock = threading.Lock()

    def clean(self, entity: Entity) -> AbortsCleaned:
        """Removes directories whose write IDs are all aborted: no snapshot ever read them, so no gate is needed.

        A NULL partition on a partitioned table (a dynamic-partition write that aborted) may be any of its partitions, and
        any directory below the table that is none yet (PROTOCOL 11.11).
        """
        site = self._site
        table = site.metastore.catalog.table(entity.database, entity.table)
        if table.refusal() is not None:
            return AbortsCleaned()
        names: Sequence[str | None] = [entity.partition]
        if entity.partition is None and table.partition_keys:
            names = sorted(site.metastore.catalog.locations(table))
        removed: list[str] = []
        held: list[str] = []
        freed = 0
        highest = site.metastore.write_ids.next(table.database, table.name)
        old = self._old(entity, highest)
        for name in names:
            target = site.target(Entity(database=entity.database, table=entity.table, partition=name))
            partition_parameters = target.partition.parameters if target.partition else {}
            if not may(target.settings, Mode.CLEAN) or no_cleanup(table.parameters, partition_parameters):
                return AbortsCleaned()
            must_have_its_own_ground(site, target.table, target.partition)
            claims_of(site).must_be_free_above(target.table, target.location)
            listing = site.storage.listing(target.location)
            claims_of(site).must_be_free(target.table, target.location, listing)
            leftovers.clear_leftovers(site, target)  # also what a pass had only hidden when it died
            doomed, young = self._aborted(target, listing)
            held += young
            if doomed:
                self._absence.look(target.location)
                freed += remove_directories(site, target, listing, doomed, self._threads)
                removed += doomed
        if entity.partition is None and table.partition_keys:
            self._sweep_unregistered(table)
        absence = self._absence
        kept = absence.of_table(table, old) if entity.partition is None else self._somewhere(target, old)
        if forgotten := old - kept.keys():
            must_be_newest(site, polling=True)  # looking through storage may take long
            site.metastore.aborts.forget(entity, forgotten)
        return AbortsCleaned(removed=tuple(removed), bytes_freed=freed, held=tuple(held))

    def _sweep_unregistered(self, table: Table) -> None:
        """Removes what writers that died had staged in directories of partitions that were never added."""
        site = self._site
        root = path_of(site.storage, table, None)
        known = {path_of(site.storage, table, part) for part in site.metastore.catalog.partitions(table)}
        tree = site.storage.tree(root)
        places = {
            f"{root}/{os.path.dirname(path)}" for path in tree.directories if parse_staging(os.path.basename(path))
        }
        entity = Entity(database=table.database, table=table.name)
        settings = site.settings_for(table)
        for place in sorted(places - known):
            leftovers.clear_leftovers(
                site, Target(entity=entity, table=table, partition=None, location=place, settings=settings)
            )

    def held(self, target: Target, names: Collection[str], aborted: Collection[WriteId]) -> frozenset[str]:
        """Returns those of ``names`` that must stay for now; see ``AbortGrace.held``."""
        if not names or not aborted:
            return frozenset()
        with self._lock:
            return self._grace.held(target.table.database, target.table.name, names, aborted)

    def forgettable(self, target: Target, entry: Entry) -> list[WriteId]:
        """Returns the aborted write IDs that the entry covers of which nothing is left in its partition or table."""
        with self._lock:
            old = self._old(entry.entity, entry.highest_write_id or WriteId(0))
            return sorted(old - self._somewhere(target, old).keys())

    def _somewhere(self, target: Target, write_ids: Collection[WriteId]) -> Mapping[WriteId, str]:
        """Returns those of ``write_ids`` that may still be in the partition or table, or in another partition that may be
        meant by their records, each with the reason."""
        if write_ids and self._site.metastore.aborts.are_shared(target.entity):
            return self._absence.of_table(target.table, write_ids)
        return self._absence.of_target(target, write_ids)

    def forgettable_in_table(self, table: Table, entry: Entry) -> list[WriteId]:
        """Returns the same for a partition that is gone: nothing may be left anywhere in its table."""
        with self._lock:
            old = self._old(entry.entity, entry.highest_write_id or WriteId(0))
            return sorted(old - self._absence.of_table(table, old).keys())

    def remember(self) -> None:
        """Stores what this pass has seen for the next one."""
        self._absence.remember()

    def _old(self, entity: Entity, highest: WriteId) -> set[WriteId]:
        """Returns the aborted write IDs of ``entity`` whose time is over."""
        writes = self._site.metastore.aborts.writes(entity)
        return {w.write_id for w in writes if w.write_id <= highest and self._grace.is_over(w.txn)}

    def _aborted(self, target: Target, listing: Listing) -> tuple[list[str], list[str]]:
        """Returns the directories that only aborted transactions wrote: those to remove, and those to leave for now."""
        site = self._site
        txns = site.metastore.transactions.snapshot()
        write_ids = site.write_ids(target.table, txns)
        Given(site, [target.table], listing.directories).must_explain(target, listing.directories)
        directory = acid_directory(listing, write_ids, txns)
        must_be_understood(directory)
        aborted = [name for name in directory.aborted if not is_output(name)]
        held = self.held(target, aborted, write_ids.aborted)
        return [name for name in aborted if name not in held], sorted(held)
