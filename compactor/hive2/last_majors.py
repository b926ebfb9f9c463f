"""Runs major compactions for a running Hive 2, as the last step before its upgrade to a later Hive.

Claim a row of its queue -> list under its transactions -> plan -> record -> stage -> verify -> name by one rename and mark
the row ready for cleaning in one database transaction. Hive 2's cleaner removes the replaced directories once no statement
that may read them holds a lock. Nothing is removed here except staged files.

Hive 2's readers use the base as soon as it has its name, and see the same rows as before. The base holds only transactions
that ended below the lowest open one. A snapshot in which some of them were open does not use a base with that number.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import Listing
from compactor.acid.names import Layout
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import CommitUnknown, CompactorError, NotSupported, Refused, StorageError, failing_alone
from compactor.base.identities import HolderProcess, holder_id, process_user
from compactor.base.ids import TxnId, WriteId
from compactor.base.steps import Step, reach
from compactor.compaction.queue_entry import Entity
from compactor.hive2.upgrade_check import OldPartition, check_partition, list_old_partitions, report_nothing_needed
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.hive2_queue import Claim, write_ids
from compactor.orc.format.java_zones import default_zone
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Figures, Shape
from compactor.rewrite.publish import naming, removal, stage
from compactor.rewrite.publish.stage import Staged
from compactor.rewrite.publish.unchanged_inputs import unchanged_inputs
from compactor.rewrite.run.runner import Runner
from compactor.rewrite.run.task_queue import Job
from compactor.settings.precedence import Settings, with_table
from compactor.site.directory_claims import DirectoryClaims
from compactor.site.finding import Finding, Level, ok
from compactor.site.mode import Mode, may
from compactor.site.old_site import OldSite
from compactor.site.overlapping_locations import Ground
from compactor.site.run_as import wanted_user
from compactor.site.site import must_be_compactable, path_of

log = logging.getLogger(__name__)
_ROLE = "hive2"


def compact_before_hive_3(site: OldSite, runner: Runner, *, full_verify: bool = False) -> Iterator[Finding]:
    """Compacts each directory that needs it, one after the other, and yields a finding about each."""
    revoked = _revoke_dead(site)
    ground = Ground(site.metastore.locations, site.storage, site.others)
    claims = DirectoryClaims(site.name, site.metastore.claim_token, site.metastore.locations, site.storage)
    looked_at = done = 0
    for place in list_old_partitions(site.metastore.catalog):
        looked_at += 1
        needed = check_partition(site.storage, place)
        if needed is None and place.entity not in revoked:
            continue
        done += 1
        try:
            with failing_alone(place.entity):
                _check_may_compact(site, place, ground)
                finding = _compact(site, place, claims, runner, full_verify)
            yield finding
        except CompactorError as error:
            log.warning("%s: %s", place.entity, error)
            yield Finding(
                level=Level.FAIL,
                subject=str(place.entity),
                found=str(error),
                wanted="no update or delete event of Hive 2 since the last major compaction",
                fix=f"run this again once the cause is gone, or in Hive 2: {place.statement}",
            )
    if not done:
        yield report_nothing_needed(looked_at)


def _compact(site: OldSite, place: OldPartition, claims: DirectoryClaims, runner: Runner, full_verify: bool) -> Finding:
    entity = place.entity
    claim = site.metastore.claim(entity, holder_id(_ROLE, site.host))
    reach(Step.CLAIMED)
    hold = _Hold(site=site, place=place, claims=claims, claim=claim)
    try:
        return hold.compact(runner, full_verify)
    except CommitUnknown:
        raise
    except BaseException:
        hold.abandon()
        raise


@dataclass(slots=True, kw_only=True)
class _Hold:
    """A claimed row, and the work done for it so far."""

    site: OldSite
    place: OldPartition
    claims: DirectoryClaims
    claim: Claim
    plan: Plan | None = None
    is_named: bool = False

    def compact(self, runner: Runner, full_verify: bool) -> Finding:
        site, entity = self.site, self.claim.entity
        path = path_of(site.storage, self.place.table, self.place.partition)
        run_as = site.storage.owner(path) or self.place.table.owner or site.user
        claims, table = self.claims, self.place.table
        claims.must_be_free_in_and_around(table, path)
        self._clear_leftovers(path)
        seen, listing, directory = _read_view(site, entity, path)
        claims.must_be_free(table, path, listing)
        if not directory.compactable():
            highest = _find_base_to_keep(directory, entity)
            site.metastore.record(self.claim, highest, run_as)
            self._publish(None)
            return ok(
                str(entity),
                f"base_{highest:07d} exists; Hive 2's cleaner removes the directories that it replaced",
            )
        compaction = self.plan = plan(
            directory,
            Shape.MAJOR,
            PlanContext(
                location=path,
                txn=TxnId(self.claim.number),
                token=stage.token(),
                write_ids=seen,
                row_type=self.place.table.row_type,
                layout=Layout.VERSION_1,
                full_verify=full_verify,
                stores=site.storage.options,
                default_zone=default_zone(_read_settings(site, self.place.table)),
            ),
        )
        site.metastore.record(self.claim, compaction.highest_write_id, run_as)
        reach(Step.RECORDED)
        claims.take(table, path, listing)
        staged = self._stage(compaction, listing, runner)
        self._publish(staged)
        reach(Step.COMMITTED)
        self._tidy()
        reach(Step.STAGING_REMOVED)
        return self._make_finding(compaction, staged.figures)

    def _stage(self, planned: Plan, listing: Listing, runner: Runner) -> Staged:
        storage = self.site.storage
        stage.prepare(storage, planned)
        (results,) = runner.run([Job(units=planned.units, check=lambda: None)])
        if isinstance(results, CompactorError):
            raise results
        staged = stage.accept(storage, planned, results)
        stage.check_staged(storage, planned, staged)
        inputs = unchanged_inputs(planned, listing, storage.listing(planned.location))
        stage.write_manifest(storage, planned, staged, inputs, entry_id=self.claim.id)
        for error in stage.make_durable(storage, [planned]).values():
            raise error
        return staged

    def _publish(self, staged: Staged | None) -> None:
        place = self.place
        with self.site.metastore.committing(
            self.claim,
            table_id=place.table.id,
            partition_id=place.partition.id if place.partition else None,
            location=place.location,
        ):
            reach(Step.COMMITTING)
            if staged is not None:
                naming.name_directories(self.site.storage, staged)
                self.is_named = True

    def _make_finding(self, planned: Plan, figures: Figures) -> Finding:
        finding = check_partition(self.site.storage, self.place)
        if finding is not None:
            return Finding(
                level=Level.FAIL,
                subject=finding.subject,
                found=f"compacted up to transaction {planned.highest_write_id}; above it {finding.found}",
                wanted=finding.wanted,
                fix="run this again once the transactions that are open now have ended",
            )
        base = f"base_{planned.highest_write_id:07d}"
        return ok(str(self.claim.entity), f"compacted to {base}: {figures.rows_in} events, {figures.rows_out} rows")

    def abandon(self) -> None:
        """Removes the staged files and releases the row.

        Once the base has its name, base and row stay. The next call sees that the worker is gone, and ends the row.
        """
        if self.is_named:
            return
        self._tidy()
        self.site.metastore.let_go(self.claim)

    def _tidy(self) -> None:
        if self.plan is None:
            return
        try:
            self.site.storage.remove(self.plan.staging)
        except StorageError as error:
            log.warning("%s: the staging directory stays until the next compaction: %s", self.plan.location, error)

    def _clear_leftovers(self, path: str) -> None:
        """Removes leftovers of our dead workers. Only this worker has the directory's row now."""
        removal.remove_leftovers(self.site.storage, path, is_alive=lambda txn: False, lowest_open=TxnId(0))


def _read_view(site: OldSite, entity: Entity, path: str) -> tuple[ValidWriteIdList, Listing, AcidDirectory]:
    """Returns what a compaction may read.

    Reads the transactions before the listing, so that the view is consistent.
    """
    txns = site.metastore.snapshot()
    seen = write_ids(txns, entity).for_compactor()
    listing = site.storage.listing(path)
    return seen, listing, acid_directory(listing, seen, txns)


def _find_base_to_keep(directory: AcidDirectory, entity: Entity) -> WriteId:
    """Returns the write ID of the existing base, for a directory without readable deltas above it.

    Raises:
        Refused: there is no base, or the deltas above it wait for a transaction.
    """
    if directory.base is None or directory.left_out:
        waits = ", ".join(acid.name for acid in directory.left_out)
        raise Refused(f"{entity}: {waits or 'the data there'} may hold rows of transactions that are still open")
    return directory.base.base.write_id


def _read_settings(site: OldSite, table: Table) -> Settings:
    return with_table(site.settings.of_database(table.database), table.parameters, table.database_parameters)


def _check_may_compact(site: OldSite, place: OldPartition, ground: Ground) -> None:
    """Checks that a partition or table can be compacted here.

    Raises:
        CompactorError: it cannot.
    """
    table, entity = place.table, place.entity
    settings = _read_settings(site, table)
    if not may(settings, Mode.COMPACT):
        raise Refused(f"{entity}: compactor.mode is {settings.mode}; compactions need compact or clean")
    must_be_compactable(table, place.partition)
    if (why := ground.refusal_of(table, place.partition)) is not None:
        raise Refused(why)
    path = path_of(site.storage, table, place.partition)
    user = wanted_user(site.settings, site.storage, entity, path, table.owner)
    if user is not None and user != process_user():
        raise Refused(
            f"{entity}: is to be compacted as {user}, and this process runs as {process_user()}; run it as {user}"
        )
    if not site.storage.capabilities(path).renames:
        raise NotSupported(
            f"{entity}: its store has no directory rename, and Hive 2 would read a base that is only half named"
        )


def _revoke_dead(site: OldSite) -> frozenset[Entity]:
    """Puts rows claimed by dead processes of this machine back into the queue, and returns their entities."""
    entities = set()
    for worked in site.metastore.working():
        worker = HolderProcess.from_id(worked.worker_id, _ROLE)
        if worker and worker.is_on(site.host) and not _is_alive(worker.process):
            site.metastore.revoke(worked)
            entities.add(worked.entity)
    return frozenset(entities)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
