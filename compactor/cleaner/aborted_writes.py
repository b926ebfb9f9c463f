"""The writes of aborted transactions: which tables have too many, their removal and forgetting."""

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
from compactor.compaction.cleaning import check_names, is_compaction_output
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.queue_entry import Entity, Entry
from compactor.metastore.catalog.values import Table
from compactor.site import leftovers
from compactor.site.abort_grace import AbortGrace
from compactor.site.files_and_metastore import AllocatedIds
from compactor.site.mode import Mode, may
from compactor.site.proof_of_removal import RemovalProof
from compactor.site.removal_records import count_removal, record_removals
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, Target, claims_of, must_lie_in_no_other, path_of
from compactor.site.surveyed_tables import SurveyedTables
from compactor.site.threads import SideBySide
from compactor.state.removals import Cause

GRACE = "compactor.forget.grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortsCleaned:
    """The removed directories with their bytes, and those that stay until their grace time is over."""

    removed: tuple[str, ...] = ()
    bytes_freed: int = 0
    in_grace: tuple[str, ...] = ()


def within_grace(names: Collection[str]) -> str:
    """Returns the reason why these directories stay for now."""
    return f"{few(names)}: written by transactions that were first seen aborted within {GRACE}"


def abort_candidates(site: Site) -> tuple[Entity, ...]:
    """Returns the entities whose aborted transactions are past Hive's threshold of number or age."""
    threshold = site.settings.integer("hive.compactor.abortedtxn.threshold")
    age = site.settings.milliseconds("hive.compactor.aborted.txn.time.threshold")
    now = site.metastore.now_ms()
    recorded = [
        entity
        for entity, aborts in sorted(site.metastore.components.aborts().items(), key=lambda item: str(item[0]))
        if aborts.count > threshold or (age >= 0 and now - aborts.oldest_start > age)
    ]
    if not recorded:
        return ()
    return tuple(SurveyedTables(site, site.metastore.transactions.snapshot(), site.moment()).resolve_recorded(recorded))


class AbortedWrites:
    """The aborted writes of a metastore in one pass of the cleaner.

    A lock serves groups of entries one at a time.
    """

    def __init__(self, site: Site, threads: SideBySide) -> None:
        self._site = site
        self._threads = threads
        self._proof = RemovalProof(site)
        self._grace = AbortGrace.recorded(site)
        self._lock = threading.Lock()

    def clean(self, entity: Entity) -> AbortsCleaned:
        """Removes directories whose write IDs are all aborted.

        No snapshot ever read them, so no gate is needed.

        An aborted dynamic-partition write is recorded with a NULL partition. It may have written to any partition of the
        table, and to directories below the table that never became a partition (PROTOCOL 11.11).
        """
        site = self._site
        table = site.metastore.catalog.table(entity.database, entity.table)
        if table.refusal() is not None:
            return AbortsCleaned()
        names: Sequence[str | None] = [entity.partition]
        if entity.partition is None and table.partition_keys:
            names = sorted(site.metastore.catalog.locations(table))
        removed: list[str] = []
        kept_for_now: list[str] = []
        freed = 0
        highest = site.metastore.write_ids.next(table.database, table.name)
        old = self._old(entity, highest)
        for name in names:
            target = site.target(Entity(database=entity.database, table=entity.table, partition=name))
            partition_parameters = target.partition.parameters if target.partition else {}
            if not may(target.settings, Mode.CLEAN) or no_cleanup(table.parameters, partition_parameters):
                return AbortsCleaned()
            must_lie_in_no_other(site, target)
            listing = site.storage.listing(target.location)
            claims_of(site).must_be_free(target.table, target.location, listing)
            leftovers.clear_leftovers(site, target)  # includes directories that a dead pass had only hidden
            doomed, young = self._aborted(target, listing)
            kept_for_now += young
            if doomed:
                self._proof.look(target.location)
                remove_directories(site, target, doomed, self._threads)
                removal = count_removal(target.entity, listing, doomed, Cause.ABORTED)
                record_removals(site, [removal])
                freed += removal.bytes
                removed += doomed
        if entity.partition is None and table.partition_keys:
            self._sweep_unregistered(table)
        proof = self._proof
        kept = proof.of_table(table, old) if entity.partition is None else self._somewhere(target, old)
        if forgotten := old - kept.keys():
            must_be_newest(site, polling=True)  # looking through storage may take long
            site.metastore.components.forget_aborted(entity, forgotten)
        return AbortsCleaned(removed=tuple(removed), bytes_freed=freed, in_grace=tuple(kept_for_now))

    def _sweep_unregistered(self, table: Table) -> None:
        """Removes staging directories of dead writers from directories that never became a partition."""
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

    def names_in_grace(self, target: Target, names: Collection[str], aborted: Collection[WriteId]) -> frozenset[str]:
        """Returns the names that must stay for now; see ``AbortGrace.names_in_grace``."""
        if not names or not aborted:
            return frozenset()
        with self._lock:
            return self._grace.names_in_grace(target.table.database, target.table.name, names, aborted)

    def forgettable(self, target: Target, entry: Entry) -> list[WriteId]:
        """Returns the aborted write IDs up to the entry's highest of which nothing remains on disk."""
        with self._lock:
            old = self._old(entry.entity, entry.highest_write_id or WriteId(0))
            return sorted(old - self._somewhere(target, old).keys())

    def _somewhere(self, target: Target, write_ids: Collection[WriteId]) -> Mapping[WriteId, str]:
        """Returns the write IDs of which files may remain, each with the reason.

        Where several partitions share a recorded name, the whole table is searched.
        """
        if write_ids and self._site.metastore.components.are_shared(target.entity):
            return self._proof.of_table(target.table, write_ids)
        return self._proof.of_target(target, write_ids)

    def forgettable_in_table(self, table: Table, entry: Entry) -> list[WriteId]:
        """Returns the same for a dropped partition: nothing may remain anywhere in its table."""
        with self._lock:
            old = self._old(entry.entity, entry.highest_write_id or WriteId(0))
            return sorted(old - self._proof.of_table(table, old).keys())

    def remember(self) -> None:
        """Stores the locations that this pass has seen, for the next pass."""
        self._proof.remember()

    def _old(self, entity: Entity, highest: WriteId) -> set[WriteId]:
        """Returns the aborted write IDs of ``entity`` whose grace time is over."""
        writes = self._site.metastore.components.aborted_writes(entity)
        return {w.write_id for w in writes if w.write_id <= highest and self._grace.is_over(w.txn)}

    def _aborted(self, target: Target, listing: Listing) -> tuple[list[str], list[str]]:
        """Returns directories that only aborted transactions wrote: those to remove, and those to keep."""
        site = self._site
        txns = site.metastore.transactions.snapshot()
        write_ids = site.write_ids(target.table, txns)
        AllocatedIds(site, [target.table], listing.directories).must_explain(target, listing.directories)
        directory = acid_directory(listing, write_ids, txns)
        check_names(directory)
        aborted = [name for name in directory.aborted if not is_compaction_output(name)]
        in_grace = self.names_in_grace(target, aborted, write_ids.aborted)
        return [name for name in aborted if name not in in_grace], sorted(in_grace)
