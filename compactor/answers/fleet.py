"""The health of all tables in one answer, from our own state and the queue.

It takes a fixed number of statements; the databases do the counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compactor.answers.alarms import Alarm, raised_alarms
from compactor.answers.readings import Readings, readings_of
from compactor.answers.running_compactions import Running, running
from compactor.answers.survey import DUE
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.insight.estimates import ERRORS_OF, error_of
from compactor.site.site import Site
from compactor.state.decisions import PASS
from compactor.state.runs import DAY_MS, Run
from compactor.state.seen_conditions import Share, WorstTable
from compactor.state.state_database import OwnState

STEPS = ("below 20", "20 to 39", "40 to 59", "60 to 79", "80 and more")  #: of health
WEEK, MONTH = 7, 30  #: periods, in days, of the returns
_FEW = 10  #: running and failed compactions that are shown


class Day(NamedTuple):
    """The runs and removals of one day (UTC), with the sums of ``Returns``.

    It begins at ``day`` (epoch ms).
    """

    day: int
    runs: int = 0
    fewer_directories: int = 0
    fewer_files: int = 0
    removed_directories: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    opening: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """Sums over some days: what runs moved, cost and spare readers, and what cleaners removed.

    From the commit of a run on, readers have ``fewer_files`` and ``fewer_directories`` to read. Cleaners removed
    ``removed_files`` and ``removed_directories`` later, or not yet.
    """

    days: int
    runs: int = 0
    fewer_directories: int = 0
    fewer_files: int = 0
    removed_directories: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    opening: float = 0.0

    @classmethod
    def sum_up(cls, days: int, since: int, history: Sequence[Day]) -> Returns:
        """Sums up the days that begin at ``since`` or later."""
        names = [name for name in Day._fields if name != "day"]
        recent = [day for day in history if day.day >= since]
        return cls(days=days, **{name: sum(getattr(day, name) for day in recent) for name in names})

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All tables of a metastore.

    ``counted_at`` is when the databases counted (epoch ms); the queue's part may be newer. ``outcomes`` counts tables and
    partitions by their last decision. ``running`` are the first few compactions at work, ``at_work`` their progress, and
    ``failures`` the first few that failed within ``LATELY_DAYS`` days. ``run_seconds`` is the mean time of the newest runs
    (None: there was none), ``estimate_error`` the median relative error of their estimates.
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
    days: tuple[Day, ...] = ()

    @property
    def due(self) -> int:
        """The number of tables and partitions that are due."""
        return sum(self.outcomes.get(outcome, 0) for outcome in DUE)

    @property
    def expected_seconds(self) -> float | None:
        """The time of all waiting compactions, one after the other, at the mean time of the newest runs."""
        return None if self.run_seconds is None else self.readings.initiated * self.run_seconds

    @property
    def health_rows(self) -> list[dict[str, object]]:
        """The number of tables and partitions of each database at each step of health."""
        return [
            {"database": name, **{step: counts[number] for number, step in enumerate(STEPS)}, "unknown": counts[None]}
            for name, counts in self.health.items()
        ]

    def to_json(self) -> dict[str, object]:
        return {
            "counted_at": self.counted_at,
            "health": self.health_rows,
            "worst": [table._asdict() for table in self.worst],
            "outcomes": dict(self.outcomes),
            "due": self.due,
            "looked_at": self.looked_at,
            "alarms": [alarm.to_json() for alarm in self.alarms],
            "readings": self.readings.to_json(),
            "waiting": self.readings.initiated,
            "expected_seconds": self.expected_seconds,
            "estimate_error": self.estimate_error,
            "working": self.readings.working,
            "running": [{**_row(entry), **self.at_work[entry.id].to_json()} for entry in self.running],
            "ready_for_cleaning": self.readings.ready_for_cleaning,
            "failed": self.readings.failed_lately,
            "failures": [_row(entry) for entry in self.failures],
            "returns": [returns.to_json() for returns in self.returns],
            "days": [day._asdict() for day in self.days],
        }


def fleet(site: Site, worst: int = 10) -> Fleet:
    """Returns the overview of a metastore with its ``worst`` tables.

    Without a state, only the queue's part.
    """
    return with_queue(site, count_fleet(site, worst))


def count_fleet(site: Site, worst: int = 10) -> Fleet:
    """Returns the overview without the running compactions, which ``with_queue`` adds.

    The databases scan everything that they have of the fleet and its history, so the time grows with it.
    """
    entries, now = site.metastore.entries, site.metastore.now_ms()
    spread = [] if site.state is None else site.state.conditions.spread(site.name)
    outcomes = _outcomes(spread)
    readings = readings_of(site, outcomes)
    failed = readings.failed_lately
    overview = Fleet(
        counted_at=now,
        health=_health(spread),
        outcomes=outcomes,
        readings=readings,
        alarms=raised_alarms(readings, site.settings),
        failures=entries.history_page(states=(State.FAILED,), limit=min(failed, _FEW)).entries if failed else (),
    )
    return overview if site.state is None else _with_state(site, site.state, overview, now=now, worst=worst)


def with_queue(site: Site, overview: Fleet) -> Fleet:
    """Updates an overview, however old, with what waits, runs and is to be cleaned now."""
    queued = site.metastore.entries.count_queued()
    readings = replace(
        overview.readings,
        initiated=queued.get(State.INITIATED, 0),
        working=queued.get(State.WORKING, 0),
        ready_for_cleaning=queued.get(State.READY_FOR_CLEANING, 0),
    )
    working: tuple[Entry, ...] = ()
    if readings.working:
        working = site.metastore.entries.queue_page(states=(State.WORKING,), limit=_FEW).entries
    return replace(overview, readings=readings, running=working, at_work=running(site, working))


def _with_state(site: Site, state: OwnState, overview: Fleet, *, now: int, worst: int) -> Fleet:
    today = now // DAY_MS * DAY_MS
    since = {days: today - (days - 1) * DAY_MS for days in (WEEK, MONTH)}
    days, newest = list_days(site.name, state, since[MONTH]), state.runs.latest(site.name, ERRORS_OF)
    return replace(
        overview,
        worst=tuple(state.conditions.worst_tables(site.name, worst)),
        looked_at=state.decisions.newest(site.name, PASS),
        run_seconds=_mean_seconds(newest),
        estimate_error=error_of(newest),
        returns=tuple(Returns.sum_up(number, begin, days) for number, begin in since.items()),
        days=tuple(days),
    )


def list_days(metastore: str, state: OwnState, since: int) -> list[Day]:
    """Returns each day with runs or removals since ``since`` (epoch ms), oldest first."""
    days = {sums.day: Day(**sums._asdict()) for sums in state.runs.days(metastore, since)}
    for sums in state.removals.days(metastore, since):
        removed = {f"removed_{name}": value for name, value in sums._asdict().items() if name != "day"}
        days[sums.day] = days.get(sums.day, Day(sums.day))._replace(**removed)
    return [day for _, day in sorted(days.items())]


def _health(spread: Sequence[Share]) -> dict[str, Counter[int | None]]:
    counts: dict[str, Counter[int | None]] = {}
    for share in spread:
        counts.setdefault(share.database, Counter())[share.step] += share.rows
    return counts


def _outcomes(spread: Sequence[Share]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for share in spread:
        counts[share.outcome] += share.rows
    return counts


def _mean_seconds(newest: Sequence[Run]) -> float | None:
    """Returns the mean time of a run; runs that went together shared their time."""
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
