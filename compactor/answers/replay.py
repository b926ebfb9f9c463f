"""Replays the last days under other settings, from the decisions and runs that our state recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from compactor.base.errors import NotSupported
from compactor.compaction.decision import decide
from compactor.compaction.economy import BUDGET, ORDER, Order, Policy
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.insight.arrivals import Content, Curve, Looked, Ran, Recorded
from compactor.insight.read_returns import ReadsADay
from compactor.insight.simulator import Decide, Frame, Tally, count, replay
from compactor.settings.catalogue import CATALOGUE
from compactor.settings.precedence import Settings, with_override
from compactor.settings.setting import parse
from compactor.site.site import Site, own_state
from compactor.state.decisions import Decided
from compactor.state.runs import DAY_MS, Run

_NO_MINOR = (
    "no minor compaction of"  #: in the reason of a major one that replaces a minor one (``compaction.decision``)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The figures of the last ``days``: as they ``happened``, and two predictions.

    ``present`` is predicted for the current settings, to check the model; ``other`` for the given settings. ``entities`` is
    the number of tables and partitions that were looked at.
    """

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


def simulate(site: Site, days: int, overrides: Mapping[str, str]) -> Simulation:
    """Replays what was written in the last ``days``.

    Args:
        overrides: values for settings of tables, which replace the value of every table, and for ``compactor.order``
            and ``compactor.budget``.

    Raises:
        BadSetting: a key is not another setting of a table, or its value is bad.
        NotSupported: the site has no state, or its state has no records.
    """
    state = own_state(site)
    site_overrides = {key: value for key, value in overrides.items() if key in (ORDER, BUDGET)}
    table_overrides = {key: value for key, value in overrides.items() if key not in site_overrides}
    with_override(site.settings, table_overrides, strict=True)
    policy = _policy(Policy.from_settings(site.settings), site_overrides)
    now = site.metastore.now_ms()
    since = now - days * DAY_MS
    runs = _runs_by_entity(state.runs.since(site.name, since))
    reads = ReadsADay.since(state, site.name, now, days)
    recorded = {
        entity: Recorded(looks=looks, runs=runs.get(entity, ()), reads=reads.for_table(entity.database, entity.table))
        for entity, looks in _group_looks(state.decisions.since(site.name, since))
    }
    passes = state.decisions.passes(site.name, since)
    if not recorded or not passes:
        raise NotSupported(
            f"metastore {site.name}: no pass of the last {days} days is recorded; let the initiator run first, and see "
            "compactor.decisions.retention"
        )
    frame = Frame.from_passes(passes, now, list(recorded.values()))
    happened, present, other = (Tally(curve=Curve(since, now)) for _ in range(3))
    settings_of = cache(lambda database, table: site.settings_of(Entity(database=database, table=table)))
    as_is, as_given = [], []
    for entity, history in recorded.items():
        settings = settings_of(entity.database, entity.table)
        count(history, now, happened)
        as_is.append((history, _decider(settings)))
        as_given.append((history, _decider(with_override(settings, table_overrides))))
    replay(as_is, frame, present, Policy.from_settings(site.settings))
    replay(as_given, frame, other, policy)
    return Simulation(
        days=days, entities=len(recorded), passes=len(passes), happened=happened, present=present, other=other
    )


def _policy(present: Policy, overrides: Mapping[str, str]) -> Policy:
    """Returns the policy with ``overrides`` applied.

    Raises:
        BadSetting: a value is bad.
    """
    values = {key: parse(CATALOGUE[key], text) for key, text in overrides.items()}
    order, budget = values.get(ORDER, present.order.value), values.get(BUDGET, present.budget)
    return Policy(order=Order(order), budget=int(str(budget)) if budget else None)


def _decider(settings: Settings) -> Decide:
    return lambda facts: decide(facts, settings)


def _group_looks(decisions: Iterable[Decided]) -> Iterator[tuple[Entity, tuple[Looked, ...]]]:
    """Yields the looks at each entity, oldest first.

    A decision without figures did not list the directory.
    """
    looks_of: defaultdict[Entity, list[Looked]] = defaultdict(list)
    for decision in decisions:
        if "files" in decision.numbers and decision.at is not None:
            looks_of[decision.entity].append(_parse_look(decision, decision.at))
    for entity, looks in looks_of.items():
        yield entity, tuple(looks)


def _parse_look(decision: Decided, at: int) -> Looked:
    figures = {name: int(str(decision.numbers.get(name, 0))) for name in Content.__slots__}
    return Looked(
        at=at,
        content=Content(**figures),
        is_due=decision.outcome in ("major", "minor"),
        no_minor=_NO_MINOR in decision.because,
    )


def _runs_by_entity(runs: Iterable[Run]) -> dict[Entity, list[Ran]]:
    runs_of: defaultdict[Entity, list[Ran]] = defaultdict(list)
    for run in runs:
        runs_of[run.entity].append(_describe_run(run))
    return runs_of


def _describe_run(run: Run) -> Ran:
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
