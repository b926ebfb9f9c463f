"""From a plan to output that is complete, proven and durable in the staging directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from compactor.base.errors import CompactorError
from compactor.rewrite.plan.chunks import completed_chunks
from compactor.rewrite.plan.slices import replace_by_slices
from compactor.rewrite.plan.unit import UnitResult
from compactor.rewrite.publish import stage
from compactor.rewrite.publish.unchanged_inputs import unchanged_inputs
from compactor.rewrite.run.runner import Runner
from compactor.site.heartbeat import Heartbeat
from compactor.site.site import Site, claims_of
from compactor.worker.bounded_requests import Budget, bound_of
from compactor.worker.group import Group, Watch
from compactor.worker.phases import Planned, StagedEntry
from compactor.worker.recording import record_alone, work_of
from compactor.worker.worker_options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Stager:
    """Stages the planned entries of a group."""

    site: Site
    group: Group
    runner: Runner
    options: Options
    heart: Heartbeat

    def stage(self, planned: Sequence[Planned]) -> list[StagedEntry]:
        """Runs the units and proves their output; on return all of it is durable and nothing is named."""
        threads = self.options.threads
        prepared = self.group.advance_together(self._prepared, planned, threads)
        watch = Watch(self.site, self.heart, prepared)
        ready = self._merge_slices(prepared, watch)
        jobs = [watch.job(one, self._budget(one), self.options.under_way) for one in ready]
        answers = self.runner.run(jobs)
        results: dict[int, list[UnitResult]] = {}
        for one, answer in zip(ready, answers, strict=True):
            if isinstance(answer, CompactorError):
                self.group.drop(one, answer)
            else:
                results[one.entry.id] = answer
        done = [one for one in ready if one.entry.id in results]
        staged = self.group.advance_together(lambda one: self._proven(one, results[one.entry.id]), done, threads)
        return self._durable(staged)

    def _prepared(self, one: Planned) -> Planned:
        claims_of(self.site).take(one.target.table, one.target.location, one.scope.view.listing)
        stage.prepare(self.site.storage, one.plan)
        return one

    def _merge_slices(self, prepared: Sequence[Planned], watch: Watch) -> list[Planned]:
        """Merges the slices of plans that have some, and returns all plans that are to go on; those with slices read fewer
        files from here on. See ``rewrite.plan.slices``."""
        sliced = [one for one in prepared if one.plan.slices]
        units = [[unit for of_slice in one.plan.slices for unit in of_slice.units] for one in sliced]
        told = self.options.under_way
        jobs = [watch.job(one, self._budget(one), told, of_one) for one, of_one in zip(sliced, units, strict=True)]
        merged: dict[int, Planned] = {}
        for one, answer in zip(sliced, self.runner.run(jobs) if jobs else [], strict=True):
            if isinstance(answer, CompactorError):
                self.group.drop(one, answer)
                continue
            for after in self.group.advance(partial(_condensed, results=answer), [one]):
                merged[after.entry.id] = after
        return [merged.get(one.entry.id, one) for one in self.group.still(prepared)]

    def _budget(self, one: Planned) -> Budget:
        bound = bound_of(one.target.settings)
        return Budget(bound=bound, elapsed_s=lambda: time.monotonic() - one.started, stops=self.options.stops)

    def _proven(self, one: Planned, results: list[UnitResult]) -> StagedEntry:
        """Takes the output of the units into complete directories, proves it and writes its manifest."""
        storage, recorded = self.site.storage, one.plan.highest_write_id
        plan, results = completed_chunks(one.plan, results)
        if plan.highest_write_id != recorded:
            record_alone(self.site, work_of(one, plan.highest_write_id, component=False))
        staged = stage.accept(storage, plan, results)
        stage.check_staged(storage, plan, staged)
        inputs = unchanged_inputs(plan, one.scope.view.listing, storage.listing(plan.location))
        stage.write_manifest(storage, plan, staged, inputs, entry_id=one.entry.id)
        return one.replanned(plan).staged_as(staged)

    def _durable(self, staged: Sequence[StagedEntry]) -> list[StagedEntry]:
        """Makes all that is staged durable, and drops the entries for which that failed."""
        failed = stage.make_durable(self.site.storage, [one.plan for one in staged])
        for one in staged:
            if one.plan.staging in failed:
                self.group.drop(one, failed[one.plan.staging])
        return self.group.still(staged)


def _condensed(one: Planned, results: list[UnitResult]) -> Planned:
    return one.replanned(replace_by_slices(one.plan, results))
