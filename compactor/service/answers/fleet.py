"""The health of all tables in one answer: from our own state and the queue, in a fixed number of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.service.answers.survey import DUE
from compactor.service.site import Site
from compactor.state.conditions import WorstTable
from compactor.state.decisions import PASS
from compactor.state.runs import DAY_MS, DayOfRuns, Run
from compactor.state.store import OwnState

STEPS = ("below 20", "20 to 39", "40 to 59", "60 to 79", "80 and more")  #: of health
WEEK, MONTH = 7, 30  #: days of which the returns are told
_SAMPLE = 50  #: newest runs whose mean duration is expected of the next ones
_FEW = 10  #: failures that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """Sums over the runs of some days: what they removed, moved and took, and how much faster the measured ones open now."""

    days: int
    runs: int = 0
    directories: int = 0
    files: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0
    opening: float = 0.0

    @classmethod
    def of(cls, days: int, since: int, found: Sequence[DayOfRuns]) -> Returns:
        """Sums up the days that begin at ``since`` or later."""
        names = ("runs", "directories", "files", "bytes_moved", "seconds", "opening")
        there = [one for one in found if one.day >= since]
        return cls(days=days, **{name: sum(getattr(one, name) for one in there) for name in names})

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All tables of a metastore. ``outcomes`` counts tables and partitions by the decision of the last look; ``waiting``
    and ``running`` are compactions, and ``expected_seconds`` what the waiting ones take one after the other, if they take as
    long as the newest runs (None: there was none)."""

    health: Mapping[str, Counter[int | None]] = field(default_factory=dict)
    worst: tuple[WorstTable, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    looked_at: int | None = None
    waiting: int = 0
    running: tuple[Entry, ...] = ()
    ready: int = 0
    expected_seconds: float | None = None
    failures: tuple[Entry, ...] = ()
    returns: tuple[Returns, ...] = ()
    days: tuple[DayOfRuns, ...] = ()

    @property
    def due(self) -> int:
        """The number of tables and partitions that are due."""
        return sum(self.outcomes.get(outcome, 0) for outcome in DUE)

    @property
    def health_rows(self) -> list[dict[str, object]]:
        """The number of tables and partitions of each database in each step of health."""
        return [
            {"database": name, **{step: found[number] for number, step in enumerate(STEPS)}, "unknown": found[None]}
            for name, found in self.health.items()
        ]

    def to_json(self) -> dict[str, object]:
        return {
            "health": self.health_rows,
            "worst": [one._asdict() for one in self.worst],
            "outcomes": dict(self.outcomes),
            "due": self.due,
            "looked_at": self.looked_at,
            "waiting": self.waiting,
            "expected_seconds": self.expected_seconds,
            "running": [_row(entry) for entry in self.running],
            "ready_for_cleaning": self.ready,
            "failures": [_row(entry) for entry in self.failures],
            "returns": [one.to_json() for one in self.returns],
            "days": [one._asdict() for one in self.days],
        }


def fleet(site: Site, worst: int = 10) -> Fleet:
    """Returns the overview of a metastore, with its ``worst`` tables; only the queue's part without a state."""
    lists, now = site.metastore.compaction_lists, site.metastore.now_ms()
    states = lists.states()
    running = lists.queue(states=(State.WORKING,), limit=_FEW).entries
    failed = lists.history(states=(State.FAILED,), limit=_FEW).entries
    found = Fleet(
        waiting=states.get(State.INITIATED, 0),
        ready=states.get(State.READY_FOR_CLEANING, 0),
        running=tuple(running),
        failures=tuple(entry for entry in failed if (entry.end or 0) >= now - WEEK * DAY_MS),
    )
    return found if site.state is None else _with_state(site, site.state, found, now=now, worst=worst)


def _with_state(site: Site, state: OwnState, found: Fleet, *, now: int, worst: int) -> Fleet:
    today = now // DAY_MS * DAY_MS
    since = {days: today - (days - 1) * DAY_MS for days in (WEEK, MONTH)}
    days = state.runs.days(site.name, since[MONTH])
    return replace(
        found,
        health=state.conditions.histogram(site.name),
        worst=tuple(state.conditions.worst_tables(site.name, worst)),
        outcomes=state.conditions.outcomes(site.name),
        looked_at=state.decisions.newest(site.name, PASS),
        expected_seconds=_expected(found.waiting, state.runs.latest(site.name, _SAMPLE)),
        returns=tuple(Returns.of(number, begin, days) for number, begin in since.items()),
        days=tuple(days),
    )


def _expected(waiting: int, newest: Sequence[Run]) -> float | None:
    return waiting * sum(run.seconds for run in newest) / len(newest) if newest else None


def _row(entry: Entry) -> dict[str, object]:
    return {
        "compaction": entry.id,
        "table": str(entry.entity),
        "type": entry.type.label.lower(),
        "started": entry.start,
        "ended": entry.end,
        "error": entry.error,
    }
