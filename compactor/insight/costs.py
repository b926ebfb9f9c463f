"""The core-seconds that a compaction will take, of which only the figures of a look at its directory are known."""

from __future__ import annotations

from compactor.compaction.economy import plain_cost
from compactor.compaction.states import CompactionType
from compactor.insight.estimates import Estimator, Past, Work
from compactor.insight.past_runs import past_runs
from compactor.state.store import OwnState


class Costs:
    """Estimates by the runs that have ended, read once for each store."""

    def __init__(self, state: OwnState | None, metastore: str) -> None:
        self._state, self._metastore = state, metastore
        self._known: dict[str, tuple[Estimator, float]] = {}

    def of(self, store: str, kind: CompactionType, *, files: int, size: int) -> float:
        """Returns the core-seconds expected of a compaction of ``size`` bytes in ``files``; as many of them are copied as of
        the runs before."""
        if store not in self._known:
            past = past_runs(self._state, self._metastore, store)
            self._known[store] = Estimator(past), _copied_share(past)
        estimator, share = self._known[store]
        copied = round(share * size)
        work = Work(
            store=store, type=kind.label, files=files, bytes_copied=copied, bytes_reencoded=max(0, size - copied)
        )
        expected = estimator.estimate(work)
        return plain_cost(size) if expected is None or expected.core_seconds is None else expected.core_seconds


def _copied_share(past: list[Past]) -> float:
    copied = sum(one.work.bytes_copied for one in past)
    return copied / every if (every := copied + sum(one.work.bytes_reencoded for one in past)) else 1.0
