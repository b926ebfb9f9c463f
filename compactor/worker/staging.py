"""Runs plans until their output is complete, proven and durable in the staging directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from compactor.base.errors import CompactorError
from compactor.base.ids import WriteId
from compactor.base.steps import Step, reach
from compactor.metastore.queue.worker_claims import Work
from compactor.rewrite.plan.chunks import completed_chunks, replace_by_slices
from compactor.rewrite.plan.unit import UnitResult
from compactor.rewrite.publish import stage
from compactor.rewrite.publish.unchanged_inputs import unchanged_inputs
from compactor.rewrite.run.runner import Runner
from compactor.site.heartbeat import Heartbeat
from compactor.site.site import Site, claims_of
from compactor.worker.bounded_requests import Budget, bound_of
from compactor.worker.claimed_entries import ClaimedEntries, GroupChecks
from compactor.worker.compaction_phases import Opened, Planned, StagedEntry
from compactor.worker.under_way import Options


def work_of(member: Opened, highest: WriteId, *, component: bool, job: str | None = None) -> Work:
    """Returns the record of a compaction up to write ID ``highest``.

    Args:
        component: adds a row to TXN_COMPONENTS.
        job: the application that runs the compaction.
    """
    return Work(
        entry=member.entry,
        worker_id=member.worker_id,
        txn=member.txn,
        run_as=member.run_as,
        highest_write_id=highest,
        component=component,
        job=job,
    )


def record_alone(site: Site, work: Work) -> None:
    """Records the work of one entry.

    Raises:
        LostClaim: the row is no longer this worker's.
    """
    for error in site.metastore.claims.record_all([work]).values():
        raise error
    reach(Step.RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stager:
    """Stages the planned entries of a group."""

    site: Site
    group: ClaimedEntries
    runner: Runner
    options: Options
    heart: Heartbeat

    def stage(self, planned: Sequence[Planned]) -> list[StagedEntry]:
        """Runs the units and proves their output.

        On return all output is durable, and nothing has its final name.
        """
        threads = self.options.threads
        prepared = self.group.each(self._prepare, self._claim(planned), threads)
        checks = GroupChecks(self.site, self.heart, prepared)
        ready = self._merge_slices(prepared, checks)
        jobs = [checks.job(member, self._budget(member), self.options.under_way) for member in ready]
        answers = self.runner.run(jobs)
        results: dict[int, list[UnitResult]] = {}
        for member, answer in zip(ready, answers, strict=True):
            if isinstance(answer, CompactorError):
                self.group.fail(member, answer)
            else:
                results[member.entry.id] = answer
        done = [member for member in ready if member.entry.id in results]
        staged = self.group.advance(lambda member: self._prove(member, results[member.entry.id]), done, threads)
        return self._make_durable(staged)

    def _claim(self, planned: Sequence[Planned]) -> list[Planned]:
        """Claims each directory that has no claim yet. The new claims become durable together."""
        claims, threads = claims_of(self.site), self.options.threads
        paths: dict[int, str] = {}

        def write(member: Planned) -> None:
            target = member.target
            path = claims.write(target.table, target.location, member.scope.view.listing)
            if path is not None:
                paths[member.entry.id] = path

        written = self.group.each(write, planned, threads)
        if not paths:
            return written
        failed = self.site.storage.sync(list(paths.values()))

        def confirm(member: Planned) -> None:
            path = paths.get(member.entry.id)
            if path is not None:
                claims.confirm(member.target.table, member.target.location, failed.get(path))

        return self.group.each(confirm, written, threads)

    def _prepare(self, member: Planned) -> None:
        stage.prepare(self.site.storage, member.plan)

    def _merge_slices(self, prepared: Sequence[Planned], checks: GroupChecks) -> list[Planned]:
        """Merges the slices of plans that have some, and returns all plans that did not fail.

        A plan whose slices were merged reads fewer files from here on; see ``rewrite.plan.slices``.
        """
        sliced = [member for member in prepared if member.plan.slices]
        units = [[unit for plan_slice in member.plan.slices for unit in plan_slice.units] for member in sliced]
        under_way = self.options.under_way
        jobs = [
            checks.job(member, self._budget(member), under_way, member_units)
            for member, member_units in zip(sliced, units, strict=True)
        ]
        merged: dict[int, Planned] = {}
        for member, answer in zip(sliced, self.runner.run(jobs) if jobs else [], strict=True):
            if isinstance(answer, CompactorError):
                self.group.fail(member, answer)
                continue
            for after in self.group.advance(partial(_condense, results=answer), [member]):
                merged[after.entry.id] = after
        return [merged.get(member.entry.id, member) for member in self.group.remaining(prepared)]

    def _budget(self, member: Planned) -> Budget:
        bound = bound_of(member.target.settings)
        return Budget(bound=bound, elapsed_s=lambda: time.monotonic() - member.started, stops=self.options.stops)

    def _prove(self, member: Planned, results: list[UnitResult]) -> StagedEntry:
        """Collects the output of the units in complete directories, proves it and writes its manifest."""
        storage, recorded = self.site.storage, member.plan.highest_write_id
        plan, results = completed_chunks(member.plan, results)
        if plan.highest_write_id != recorded:
            record_alone(self.site, work_of(member, plan.highest_write_id, component=False))
        staged = stage.accept(storage, plan, results)
        stage.check_staged(storage, plan, staged)
        inputs = unchanged_inputs(plan, member.scope.view.listing, storage.listing(plan.location))
        stage.write_manifest(storage, plan, staged, inputs, entry_id=member.entry.id)
        return member.replanned(plan).staged_as(staged)

    def _make_durable(self, staged: Sequence[StagedEntry]) -> list[StagedEntry]:
        """Makes all staged output durable, and drops the entries for which that fails."""
        failed = stage.make_durable(self.site.storage, [member.plan for member in staged])
        return self.group.fail_each(lambda member: failed.get(member.plan.staging), staged)


def _condense(member: Planned, results: list[UnitResult]) -> Planned:
    return member.replanned(replace_by_slices(member.plan, results))
