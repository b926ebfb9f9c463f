from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from compactor.compaction.decision import Facts, decide
from compactor.compaction.economy import HOUR_MS, Order, Policy
from compactor.compaction.states import CompactionType
from compactor.insight.arrivals import Content, Looked, Ran, Recorded
from compactor.insight.simulator import Decide, Frame, Tally, count, replay
from compactor.settings.precedence import Layer, Settings

MINUTE, DAY = 60_000, 86_400_000
END = 30 * DAY
PASSES = range(0, END, 30 * MINUTE)


def policy(**values: str) -> Decide:
    settings = Settings.of([Layer(name="flag", values={k.replace("_", "."): v for k, v in values.items()})])
    return lambda facts: decide(facts, settings)


@dataclass
class World:
    """A partition as it really is: writes at any time, the initiator's passes, runs that begin and end when they do. Only
    what looks and runs tell is recorded."""

    chance: random.Random
    decide: Decide
    writes_a_day: float
    base: int = 0
    deltas: list[int] = field(default_factory=list)
    looks: list[Looked] = field(default_factory=list)
    runs: list[Ran] = field(default_factory=list)

    def live(self) -> Recorded:
        """Lives for a month."""
        writes = self.writes()
        asked: CompactionType | None = None
        began = ended = 0
        taken: list[int] = []
        for at in sorted([*PASSES, *(w for w, _ in writes), *range(5 * MINUTE, END, 5 * MINUTE)]):
            if asked is not None and not taken and at >= began:
                taken = list(self.deltas)
            if asked is not None and taken and at >= ended:
                self.end(asked, taken, began, at)
                asked, taken = None, []
            while writes and writes[0][0] <= at:
                self.deltas.append(writes.pop(0)[1])
            if at % (30 * MINUTE) == 0:
                kind = self.look(at, is_free=asked is None)
                if kind is not None:
                    asked, began = kind, at + self.chance.randint(1, 9) * MINUTE
                    ended = began + self.chance.randint(1, 15) * MINUTE
        return Recorded(looks=tuple(self.looks), runs=tuple(self.runs))

    def writes(self) -> list[tuple[int, int]]:
        found, at = [], 0.0
        while (at := at + self.chance.expovariate(self.writes_a_day / DAY)) < END:
            found.append((int(at), int(10 ** self.chance.uniform(4, 7))))
        return found

    def content(self) -> Content:
        return Content(deltas=len(self.deltas), delta_bytes=sum(self.deltas), base_bytes=self.base)

    def look(self, at: int, *, is_free: bool) -> CompactionType | None:
        now = self.content()
        facts = Facts(
            base_bytes=now.base_bytes, delta_bytes=now.delta_bytes, deltas=now.deltas, has_base=now.base_bytes > 0
        )
        kind = self.decide(facts).type if is_free else None
        if not self.looks or self.looks[-1].content != now:
            self.looks.append(Looked(at=at, content=now, is_due=kind is not None))
        return kind

    def end(self, kind: CompactionType, taken: list[int], began: int, at: int) -> None:
        major = kind is CompactionType.MAJOR
        read = sum(taken) + (self.base if major else 0)
        written = int(read * self.chance.uniform(0.9, 1.0))
        self.deltas = [*([] if major else [written]), *self.deltas[len(taken) :]]
        directories = len(taken) + (major and self.base > 0)
        if major:
            self.base = written
        seconds = read / 1e6 * self.chance.lognormvariate(0, 0.3)
        self.runs.append(
            Ran(
                began=began,
                ended=at,
                major=major,
                directories_read=directories,
                bytes_read=read,
                bytes_written=written,
                core_seconds=seconds,
            )
        )
        self.looks.append(Looked(at=at, content=self.content()))


def month(decided: Decide, seed: int = 1) -> list[Recorded]:
    chance = random.Random(seed)
    rates = [chance.uniform(2, 40) for _ in range(12)]
    return [
        World(chance=random.Random(seed * 1000 + n), decide=decided, writes_a_day=rate).live()
        for n, rate in enumerate(rates)
    ]


def tallies(recorded: list[Recorded], decided: Decide) -> tuple[Tally, Tally]:
    """Returns what happened, and what is foretold of ``decided``."""
    real, foretold, frame = Tally(), Tally(), Frame.from_passes(PASSES, END, recorded)
    for one in recorded:
        count(one, END, real)
        replay([(one, decided)], frame, foretold)
    return real, foretold


@pytest.mark.parametrize("given", [{}, {"hive_compactor_delta_num_threshold": "4"}])
def test_of_the_policy_that_really_ran_it_is_within_a_tenth(given: dict[str, str]) -> None:
    decided = policy(**given)
    real, foretold = tallies(month(decided), decided)
    assert real.runs > 300
    assert foretold.runs == pytest.approx(real.runs, rel=0.1)
    assert foretold.core_seconds == pytest.approx(real.core_seconds, rel=0.1)
    assert foretold.mean == pytest.approx(real.mean, rel=0.1)
    assert abs(foretold.worst - real.worst) <= max(2, 0.1 * real.worst)


def test_of_another_policy_it_is_near_what_that_would_have_done() -> None:
    """The same month, lived again under the other settings."""
    ran, other = policy(), policy(hive_compactor_delta_num_threshold="3", hive_compactor_delta_pct_threshold="0.5")
    _, foretold = tallies(month(ran), other)
    lived, _ = tallies(month(other), other)
    assert foretold.runs == pytest.approx(lived.runs, rel=0.15)
    assert foretold.core_seconds == pytest.approx(lived.core_seconds, rel=0.2)
    assert foretold.mean == pytest.approx(lived.mean, rel=0.15)


def test_a_reader_meets_what_is_there_for_as_long_as_it_is() -> None:
    looks = [
        Looked(at=0, content=Content(deltas=2, delta_bytes=2)),
        Looked(at=60, content=Content(deltas=4, delta_bytes=4)),
    ]
    tally = Tally()
    count(Recorded(looks=looks), 100, tally)
    assert (tally.mean, tally.worst, tally.runs) == (2 * 0.6 + 4 * 0.4, 4, 0)


def test_nothing_is_foretold_after_the_end() -> None:
    looks = [Looked(at=0, content=Content(deltas=20, delta_bytes=20), is_due=True)]
    tally = Tally()
    replay([(Recorded(looks=looks), policy())], Frame(passes=[0], end=100, lag_ms=50, run_ms=100), tally)
    assert (tally.runs, tally.worst) == (0, 20)
    replay([(Recorded(looks=looks), policy())], Frame(passes=[0], end=100, lag_ms=50, run_ms=50), tally)
    assert tally.majors == 1


def busy(size: int, deltas: int = 20) -> Recorded:
    looks = [Looked(at=0, content=Content(deltas=deltas, delta_bytes=size), is_due=True)]
    before = Ran(
        began=-9, ended=-1, major=True, directories_read=20, bytes_read=100, bytes_written=100, core_seconds=1.0
    )
    return Recorded(looks=looks, runs=[before])  # a core-second for each 100 bytes


def test_a_budget_lets_what_is_worth_less_wait() -> None:
    """Ten of a core-second each; of five in an hour the second five wait for the second hour."""
    frame = Frame(passes=range(0, 3 * HOUR_MS, HOUR_MS // 2), end=3 * HOUR_MS)
    every = [(busy(100), policy()) for _ in range(10)]
    free, bound = Tally(), Tally()
    replay(every, frame, free)
    replay(every, frame, bound, Policy(order=Order.BENEFIT, budget=5))
    assert (free.runs, bound.runs) == (10, 10)
    assert (free.core_seconds, bound.core_seconds) == (10, 10)
    assert bound.mean > free.mean
    few = Tally()
    replay(every, replace(frame, end=HOUR_MS - 1, passes=[0, HOUR_MS // 2]), few, Policy(budget=5))
    assert few.runs == 5


def test_with_a_budget_benefit_leaves_readers_less_than_thresholds() -> None:
    frame = Frame(passes=range(0, 10 * HOUR_MS, HOUR_MS), end=10 * HOUR_MS)
    every = [(busy(size, deltas), policy()) for size, deltas in ((900, 12), (800, 12), (100, 80), (100, 90))]
    found = {}
    for order in Order:
        replay(every, frame, tally := Tally(), Policy(order=order, budget=2))
        found[order] = tally.mean
    assert found[Order.BENEFIT] < 0.8 * found[Order.THRESHOLDS]


def test_benefit_asks_first_for_what_is_read() -> None:
    """As the initiator does, whose order is weighed by reads a day."""
    frame = Frame(passes=range(0, 10 * HOUR_MS, HOUR_MS), end=10 * HOUR_MS)
    every = [(replace(busy(200), reads=reads), policy()) for reads in (0.1, 0.1, 0.1, 50.0)]
    found = {}
    for order in Order:
        replay(every, frame, tally := Tally(), Policy(order=order, budget=1))
        found[order] = tally
    assert found[Order.BENEFIT].mean == found[Order.THRESHOLDS].mean
    assert found[Order.BENEFIT].mean_of_reads < 0.5 * found[Order.THRESHOLDS].mean_of_reads


def test_who_is_told_of_no_reads_meets_what_there_is() -> None:
    tally = Tally()
    count(Recorded(looks=[Looked(at=0, content=Content(deltas=4))]), 10, tally)
    assert tally.mean_of_reads == tally.mean == 4
    assert Tally().mean_of_reads == 0
