"""The health of all tables in one answer: from our own state and the queue, in a fixed number of statements in which the
databases count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from compactor.answers.alarms import Alarm, raised_alarms
from compactor.answers.readings import Readings, readings_of
from compactor.answers.running_compactions import Running, running
from compactor.answers.survey import DUE
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.insight.past_runs import ERRORS_OF, error_of
from compactor.site.site import Site
from compactor.state.decisions import PASS
from compactor.state.runs import DAY_MS, DayOfRuns, Run
from compactor.state.seen_conditions import Share, WorstTable
from compactor.state.store import OwnState

STEPS = ("below 20", "20 to 39", "40 to 59", "60 to 79", "80 and more")  #: of health
WEEK, MONTH = 7, 30  #: days of which the returns are told
_FEW = 10  #: running and failed compactions that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """Sums over the runs of some days: what they removed, moved and took, and how much faster the measured ones open now."""

    days: int
    runs: int = 0
    directories: int = 0
    files: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    opening: float = 0.0

    @classmethod
    def of(cls, days: int, since: int, found: Sequence[DayOfRuns]) -> Returns:
        """Sums up the days that begin at ``since`` or later."""
        names = ("runs", "directories", "files", "bytes_moved", "seconds", "core_seconds", "opening")
        there = [one for one in found if one.day >= since]
        return cls(days=days, **{name: sum(getattr(one, name) for one in there) for name in names})

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All tables of a metastore.

    ``counted_at`` is when the databases counted (epoch ms); what waits and runs may be newer. ``outcomes`` counts tables
    and partitions by the decision of the last look. ``running`` and ``failures`` are the first few that are worked on, and
    that failed within ``LATELY_DAYS`` days; ``at_work`` says how far each of the former is. ``run_seconds`` is the mean time
    of the newest runs (None: there was none), and ``estimate_error`` the median error of what was expected of these, in
    proportion.
    """

    counted_at: int = 0
    health: Mapping[str, Counter[int | None]] = field(default_factory=dict)
    worst: tuple[WorstTable, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    looked_at: int | None = None
    readings: Readings = field(default_factory=Readings)
    alarms: tuple[Alarm, ...] = ()
    running: tuple[Entry, ...] = ()
    at_work: Mapping[int, Running] = field(default_factory=dict)
    run_seconds: float | None = None
    estimate_error: float | None = None
    failures: tuple[Entry, ...] = ()
    returns: tuple[Returns, ...] = ()
    days: tuple[DayOfRuns, ...] = ()

    @property
    def due(self) -> int:
        """The number of tables and partitions that are due."""
        return sum(self.outcomes.get(outcome, 0) for outcome in DUE)

    @property
    def expected_seconds(self) -> float | None:
        """The time of what waits, one after the other, if each takes as long as the newest runs; None if there was none."""
        return None if self.run_seconds is None else self.readings.initiated * self.run_seconds

    @property
    def health_rows(self) -> list[dict[str, object]]:
        """The number of tables and partitions of each database in each step of health."""
        return [
            {"database": name, **{step: found[number] for number, step in enumerate(STEPS)}, "unknown": found[None]}
            for name, found in self.health.items()
        ]

    def to_json(self) -> dict[str, object]:
        return {
            "counted_at": self.counted_at,
            "health": self.health_rows,
            "worst": [one._asdict() for one in self.worst],
            "outcomes": dict(self.outcomes),
            "due": self.due,
            "looked_at": self.looked_at,
            "alarms": [one.to_json() for one in self.alarms],
            "readings": self.readings.to_json(),
            "waiting": self.readings.initiated,
            "expected_seconds": self.expected_seconds,
            "estimate_error": self.estimate_error,
            "working": self.readings.working,
            "running": [{**_row(entry), **self.at_work[entry.id].to_json()} for entry in self.running],
            "ready_for_cleaning": self.readings.ready_for_cleaning,
            "failed": self.readings.failed_lately,
            "failures": [_row(entry) for entry in self.failures],
            "returns": [one.to_json() for one in self.returns],
            "days": [one._asdict() for one in self.days],
        }


def fleet(site: Site, worst: int = 10) -> Fleet:
    """Returns the overview of a metastore, with its ``worst`` tables; only the queue's part without a state."""
    return with_queue(site, counted(site, worst))


def counted(site: Site, worst: int = 10) -> Fleet:
    """Returns the overview but for what is running, which ``with_queue`` adds.

    The databases go through all that they have of the fleet and its history, so it takes the longer the more there is.
    """
    lists, now = site.metastore.compaction_lists, site.metastore.now_ms()
    spread = [] if site.state is None else site.state.conditions.spread(site.name)
    outcomes = _outcomes(spread)
    readings = readings_of(site, outcomes)
    failed = readings.failed_lately
    found = Fleet(
        counted_at=now,
        health=_health(spread),
        outcomes=outcomes,
        readings=readings,
        alarms=raised_alarms(readings, site.settings),
        failures=lists.history(states=(State.FAILED,), limit=min(failed, _FEW)).entries if failed else (),
    )
    return found if site.state is None else _with_state(site, site.state, found, now=now, worst=worst)


def with_queue(site: Site, found: Fleet) -> Fleet:
    """Returns ``found`` with what waits, runs and is to be cleaned now, however long ago the rest of it was counted."""
    queued = site.metastore.figures.queued()
    readings = replace(
        found.readings,
        initiated=queued.get(State.INITIATED, 0),
        working=queued.get(State.WORKING, 0),
        ready_for_cleaning=queued.get(State.READY_FOR_CLEANING, 0),
    )
    working: tuple[Entry, ...] = ()
    if readings.working:
        working = site.metastore.compaction_lists.queue(states=(State.WORKING,), limit=_FEW).entries
    return replace(found, readings=readings, running=working, at_work=running(site, working))


def _with_state(site: Site, state: OwnState, found: Fleet, *, now: int, worst: int) -> Fleet:
    today = now // DAY_MS * DAY_MS
    since = {days: today - (days - 1) * DAY_MS for days in (WEEK, MONTH)}
    days, newest = state.runs.days(site.name, since[MONTH]), state.runs.latest(site.name, ERRORS_OF)
    return replace(
        found,
        worst=tuple(state.conditions.worst_tables(site.name, worst)),
        looked_at=state.decisions.newest(site.name, PASS),
        run_seconds=_mean_seconds(newest),
        estimate_error=error_of(newest),
        returns=tuple(Returns.of(number, begin, days) for number, begin in since.items()),
        days=tuple(days),
    )


def _health(spread: Sequence[Share]) -> dict[str, Counter[int | None]]:
    found: dict[str, Counter[int | None]] = {}
    for one in spread:
        found.setdefault(one.database, Counter())[one.step] += one.rows
    return found


def _outcomes(spread: Sequence[Share]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in spread:
        found[one.outcome] += one.rows
    return found


def _mean_seconds(newest: Sequence[Run]) -> float | None:
    """Returns the mean time of a run; those that went together shared theirs."""
    return sum(run.seconds / run.together for run in newest) / len(newest) if newest else None


def _row(entry: Entry) -> dict[str, object]:
    return {
        "compaction": entry.id,
        "table": str(entry.entity),
        "type": entry.type.label.lower(),
        "started": entry.start,
        "ended": entry.end,
        "error": entry.error,
    }
