"""The budget of a pass of the initiator.

The pass keeps back requests until it has seen all candidates. Then it makes the most valuable ones; requests beyond the
budget wait for a later pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compactor.compaction.decision import Major, Minor
from compactor.compaction.economy import BUDGET, HOUR_MS, Policy, Purse, Wish, benefit, choose
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.insight.read_returns import ReadsADay
from compactor.state.decisions import Decided

if TYPE_CHECKING:
    from compactor.insight.costs import Costs

CORE_SECONDS = "core_seconds"  #: the name of the expected cost among a decision's numbers
_LATELY = 7  #: days whose reads are counted
#: Reasons other than size, such as a pile of aborts. These requests never wait.
_NEVER_WAIT = ("compactor.readers", "hive.compactor.abortedtxn.threshold", "hive.compactor.aborted.txn.time.threshold")


class Saving:
    """The due compactions of one pass that may have to wait, with the expected cost of each."""

    def __init__(self, scan: CandidateScan) -> None:
        self._scan = scan
        self._policy = Policy.from_settings(scan.site.settings)
        self._costs: Costs | None = None
        self._reads: ReadsADay | None = None
        self._wishes: list[Wish[Considered]] = []

    def keep_back(self, judged: Sequence[Considered]) -> list[Considered]:
        """Keeps back the candidates in ``judged`` that may have to wait, and returns the others."""
        if not self._policy.chooses:
            return list(judged)
        others = []
        for candidate in judged:
            wish = self._wish(candidate)
            if wish is None:
                others.append(candidate)
            else:
                self._wishes.append(wish)
        return others

    def choose_requests(self) -> tuple[list[Considered], list[Considered]]:
        """Returns the candidates to request now, most valuable first, and those that wait, with the reason."""
        if not self._wishes:
            return [], []
        now = self._scan.now_ms
        chosen, later = choose(self._wishes, self._policy.order, self._purse(now), now)
        because = f"waits, since the requests of an hour may take {self._policy.budget} core-seconds ({BUDGET})"
        # Without a basis, the next pass decides again even if nothing has changed: the hour's budget has.
        waiting = [replace(wish.key, because=f"{wish.key.because}; {because}", basis=None) for wish in later]
        return [_with_cost(wish.key, wish.cost) for wish in chosen], waiting

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
        surveyed = self._scan.tables.load_table(considered.entity)
        return Wish(
            key=considered,
            benefit=benefit(
                kind,
                deltas=figures["deltas"],
                delete_bytes=figures["delete_bytes"],
                reads=self._reads_a_day(considered),
            ),
            cost=self._cost("" if surveyed is None else surveyed.table.location or "", kind, figures["files"], size),
        )

    def _reads_a_day(self, considered: Considered) -> float:
        if self._reads is None:
            site = self._scan.site
            self._reads = ReadsADay.since(site.state, site.name, self._scan.now_ms, _LATELY)
        return self._reads.for_table(considered.entity.database, considered.entity.table)

    def _cost(self, location: str, kind: CompactionType, files: int, size: int) -> float:
        from compactor.insight.costs import Costs  # with numpy, which most passes do not need
        from compactor.insight.estimates import store_of

        self._costs = self._costs or Costs(self._scan.site.state, self._scan.site.name)
        return self._costs.estimate(store_of(location), kind, files=files, size=size)

    def _purse(self, now: int) -> Purse:
        state = self._scan.site.state
        if self._policy.budget is None or state is None:
            return Purse(self._policy.budget)
        spent = state.decisions.since(self._scan.site.name, now - HOUR_MS)
        return Purse(self._policy.budget, [payment for decided in spent if (payment := _payment(decided)) is not None])


def _with_cost(considered: Considered, cost: float) -> Considered:
    assert considered.decision is not None
    numbers: Mapping[str, int | float] = {**considered.decision.numbers, CORE_SECONDS: round(cost, 3)}
    return replace(considered, decision=replace(considered.decision, numbers=numbers))


def without_cost(considered: Considered) -> Considered:
    """Removes the cost from a decision whose request was not made."""
    decision = considered.decision
    if decision is None or considered.entry_id is not None or CORE_SECONDS not in decision.numbers:
        return considered
    numbers = {name: number for name, number in decision.numbers.items() if name != CORE_SECONDS}
    return replace(considered, decision=replace(decision, numbers=numbers))


def _payment(decided: Decided) -> tuple[int, float] | None:
    cost = decided.numbers.get(CORE_SECONDS)
    return (decided.at, float(cost)) if decided.at is not None and isinstance(cost, int | float) else None
