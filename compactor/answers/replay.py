"""The last days again under other settings, from what our own state has recorded of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from compactor.base.errors import NotSupported
from compactor.compaction.decision import decide
from compactor.compaction.economy import BUDGET, ORDER, Order, Policy
from compactor.compaction.entry import Entity
from compactor.compaction.states import CompactionType
from compactor.insight.arrivals import Content, Looked, Ran, Recorded
from compactor.insight.curve import Curve
from compactor.insight.reads_a_day import ReadsADay
from compactor.insight.simulator import Decide, Frame, Tally, count, replay
from compactor.settings.catalogue import CATALOGUE
from compactor.settings.precedence import Settings, with_override
from compactor.settings.setting import parse
from compactor.site.site import Site, own_state
from compactor.state.decisions import Decided
from compactor.state.runs import DAY_MS, Run

_NO_MINOR = "no minor compaction of"  #: in the reason of a major one that is made instead (``compaction.decision``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The figures of the last ``days`` as they happened, those foretold of the settings as they are (by which the others can
    be judged), and of those that were given. ``entities`` are the tables and partitions that were looked at."""

    days: int
    entities: int
    passes: int
    happened: Tally
    present: Tally
    other: Tally

    def to_json(self) -> dict[str, object]:
        return {
            "days": self.days,
            "entities": self.entities,
            "passes": self.passes,
            **{name: getattr(self, name).to_json() for name in ("happened", "present", "other")},
        }


def simulate(site: Site, days: int, given: Mapping[str, str]) -> Simulation:
    """Replays what was written in the last ``days``.

    Args:
        given: values of settings of tables, in place of those of each table, and of ``compactor.order`` and
            ``compactor.budget``.

    Raises:
        BadSetting: one is no other setting of a table, or its value is bad.
        NotSupported: there is no state, or nothing is recorded.
    """
    state = own_state(site)
    of_site = {key: value for key, value in given.items() if key in (ORDER, BUDGET)}
    of_tables = {key: value for key, value in given.items() if key not in of_site}
    with_override(site.settings, of_tables, strict=True)
    policy = _policy(Policy.of(site.settings), of_site)
    now = site.metastore.now_ms()
    since = now - days * DAY_MS
    runs = _runs_by_entity(state.runs.since(site.name, since))
    reads = ReadsADay.since(state, site.name, now, days)
    recorded = {
        entity: Recorded(looks=looks, runs=runs.get(entity, ()), reads=reads.of(entity.database, entity.table))
        for entity, looks in _looks(state.decisions.since(site.name, since))
    }
    passes = state.decisions.passes(site.name, since)
    if not recorded or not passes:
        raise NotSupported(
            f"metastore {site.name}: no look of the last {days} days is recorded; let the initiator run first, and see "
            "compactor.decisions.retention"
        )
    frame = Frame.of(passes, now, list(recorded.values()))
    happened, present, other = (Tally(curve=Curve(since, now)) for _ in range(3))
    settings_of = cache(lambda database, table: site.settings_of(Entity(database=database, table=table)))
    as_is, as_given = [], []
    for entity, one in recorded.items():
        settings = settings_of(entity.database, entity.table)
        count(one, now, happened)
        as_is.append((one, _decider(settings)))
        as_given.append((one, _decider(with_override(settings, of_tables))))
    replay(as_is, frame, present, Policy.of(site.settings))
    replay(as_given, frame, other, policy)
    return Simulation(
        days=days, entities=len(recorded), passes=len(passes), happened=happened, present=present, other=other
    )


def _policy(present: Policy, given: Mapping[str, str]) -> Policy:
    """Returns the policy with what is ``given`` of it.

    Raises:
        BadSetting: a value is bad.
    """
    found = {key: parse(CATALOGUE[key], text) for key, text in given.items()}
    order, budget = found.get(ORDER, present.order.value), found.get(BUDGET, present.budget)
    return Policy(order=Order(order), budget=int(str(budget)) if budget else None)


def _decider(settings: Settings) -> Decide:
    return lambda facts: decide(facts, settings)


def _looks(decisions: Iterable[Decided]) -> Iterator[tuple[Entity, tuple[Looked, ...]]]:
    """Yields the looks at each entity, in the order of time; a decision without figures did not reach the directory."""
    of: defaultdict[Entity, list[Looked]] = defaultdict(list)
    for one in decisions:
        if "files" in one.numbers and one.at is not None:
            of[one.entity].append(_looked(one, one.at))
    for entity, looks in of.items():
        yield entity, tuple(looks)


def _looked(one: Decided, at: int) -> Looked:
    figures = {name: int(str(one.numbers.get(name, 0))) for name in Content.__slots__}
    return Looked(
        at=at,
        content=Content(**figures),
        is_due=one.outcome in ("major", "minor"),
        no_minor=_NO_MINOR in one.because,
    )


def _runs_by_entity(runs: Iterable[Run]) -> dict[Entity, list[Ran]]:
    found: defaultdict[Entity, list[Ran]] = defaultdict(list)
    for run in runs:
        found[run.entity].append(_ran(run))
    return found


def _ran(run: Run) -> Ran:
    ended = run.ended_at or 0
    return Ran(
        began=ended - round(run.seconds * 1000),
        ended=ended,
        major=run.type is not CompactionType.MINOR,
        directories_read=run.directories_before,
        bytes_read=run.bytes_before,
        bytes_written=run.bytes_after,
        core_seconds=run.seconds / run.together if run.core_seconds is None else run.core_seconds,
    )
