"""The requests that a pass of the initiator keeps back until it has seen all candidates: then those that are worth most are
made, and what the budget does not allow waits for a later pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compactor.compaction.decision import Major, Minor
from compactor.compaction.economy import BUDGET, HOUR_MS, Policy, Purse, Wish, benefit, choose
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_scan import Considered, Scan
from compactor.insight.reads_a_day import ReadsADay
from compactor.state.decisions import Decided

if TYPE_CHECKING:
    from compactor.insight.costs import Costs

CORE_SECONDS = "core_seconds"  #: the number of a decision that says what its request was expected to cost
_LATELY = 7  #: days whose reads are counted
#: Reasons that are no thresholds of size: readers see wrong rows, or aborts pile up. These never wait.
_NEVER_WAIT = ("compactor.readers", "hive.compactor.abortedtxn.threshold", "hive.compactor.aborted.txn.time.threshold")


class Saving:
    """The due compactions of one pass that may have to wait, and what each is expected to cost."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._policy = Policy.of(scan.site.settings)
        self._costs: Costs | None = None
        self._reads: ReadsADay | None = None
        self._wishes: list[Wish[Considered]] = []

    def keep_back(self, judged: Sequence[Considered]) -> list[Considered]:
        """Takes from ``judged`` what may have to wait, and returns the others."""
        if not self._policy.chooses:
            return list(judged)
        others = []
        for one in judged:
            wish = self._wish(one)
            if wish is None:
                others.append(one)
            else:
                self._wishes.append(wish)
        return others

    def chosen(self) -> tuple[list[Considered], list[Considered]]:
        """Returns what is to be requested now, in its order, and what waits, with the reason."""
        if not self._wishes:
            return [], []
        now = self._scan.now_ms
        chosen, later = choose(self._wishes, self._policy.order, self._purse(now), now)
        because = f"waits, since the requests of an hour may take {self._policy.budget} core-seconds ({BUDGET})"
        # the next pass looks again, whatever has changed: time has
        waiting = [replace(one.key, because=f"{one.key.because}; {because}", basis=None) for one in later]
        return [_with_cost(one.key, one.cost) for one in chosen], waiting

    def _wish(self, considered: Considered) -> Wish[Considered] | None:
        decision, kind = considered.decision, None
        if isinstance(decision, Major | Minor) and not any(name in decision.because for name in _NEVER_WAIT):
            kind = decision.type
        if (
            decision is None
            or kind is None
            or "deltas" not in decision.numbers
            or not self._scan.would_request(considered)
        ):
            return None
        figures = {name: int(decision.numbers[name]) for name in ("deltas", "delete_bytes", "files")}
        size = int(decision.numbers["delta_bytes"])
        if kind is not CompactionType.MINOR:
            size += int(decision.numbers["base_bytes"])
        found = self._scan.tables.found(considered.entity)
        return Wish(
            key=considered,
            benefit=benefit(
                kind,
                deltas=figures["deltas"],
                delete_bytes=figures["delete_bytes"],
                reads=self._reads_a_day(considered),
            ),
            cost=self._cost("" if found is None else found.table.location or "", kind, figures["files"], size),
        )

    def _reads_a_day(self, considered: Considered) -> float:
        if self._reads is None:
            site = self._scan.site
            self._reads = ReadsADay.since(site.state, site.name, self._scan.now_ms, _LATELY)
        return self._reads.of(considered.entity.database, considered.entity.table)

    def _cost(self, location: str, kind: CompactionType, files: int, size: int) -> float:
        from compactor.insight.costs import Costs  # with numpy, which most passes do not need
        from compactor.insight.past_runs import store_of

        self._costs = self._costs or Costs(self._scan.site.state, self._scan.site.name)
        return self._costs.of(store_of(location), kind, files=files, size=size)

    def _purse(self, now: int) -> Purse:
        state = self._scan.site.state
        if self._policy.budget is None or state is None:
            return Purse(self._policy.budget)
        spent = state.decisions.since(self._scan.site.name, now - HOUR_MS)
        return Purse(self._policy.budget, [paid for one in spent if (paid := _paid(one)) is not None])


def _with_cost(considered: Considered, cost: float) -> Considered:
    assert considered.decision is not None
    numbers: Mapping[str, int | float] = {**considered.decision.numbers, CORE_SECONDS: round(cost, 3)}
    return replace(considered, decision=replace(considered.decision, numbers=numbers))


def without_cost(considered: Considered) -> Considered:
    """Returns a decision whose request was not made, without the cost of it."""
    decision = considered.decision
    if decision is None or considered.entry_id is not None or CORE_SECONDS not in decision.numbers:
        return considered
    numbers = {name: number for name, number in decision.numbers.items() if name != CORE_SECONDS}
    return replace(considered, decision=replace(decision, numbers=numbers))


def _paid(one: Decided) -> tuple[int, float] | None:
    cost = one.numbers.get(CORE_SECONDS)
    return (one.at, float(cost)) if one.at is not None and isinstance(cost, int | float) else None
