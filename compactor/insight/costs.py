"""Estimates the core-seconds of a compaction from a look at its directory."""

from __future__ import annotations

from compactor.compaction.economy import plain_cost
from compactor.compaction.states import CompactionType
from compactor.insight.estimates import EstimatedWork, Estimator, PastRun, past_runs
from compactor.state.state_database import OwnState


class Costs:
    """Estimates from the runs that have ended, read once for each store."""

    def __init__(self, state: OwnState | None, metastore: str) -> None:
        self._state, self._metastore = state, metastore
        self._known: dict[str, tuple[Estimator, float]] = {}

    def estimate(self, store: str, kind: CompactionType, *, files: int, size: int) -> float:
        """Returns the expected core-seconds of compacting ``size`` bytes in ``files``.

        Assumes that the same share of bytes is copied as in earlier runs.
        """
        if store not in self._known:
            past = past_runs(self._state, self._metastore, store)
            self._known[store] = Estimator(past), _copied_share(past)
        estimator, share = self._known[store]
        copied = round(share * size)
        work = EstimatedWork(
            store=store, type=kind.label, files=files, bytes_copied=copied, bytes_reencoded=max(0, size - copied)
        )
        expected = estimator.estimate(work)
        return plain_cost(size) if expected is None or expected.core_seconds is None else expected.core_seconds


def _copied_share(past: list[PastRun]) -> float:
    copied = sum(run.work.bytes_copied for run in past)
    total = copied + sum(run.work.bytes_reencoded for run in past)
    return copied / total if total else 1.0
