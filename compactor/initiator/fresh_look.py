"""Considers some tables and partitions between two passes of the initiator.

The result replaces the earlier condition, so that people see the state after a commit or a cleaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.outdated import record_conditions
from compactor.initiator.past_compactions import PastCompactions
from compactor.site.site import Site
from compactor.site.threads import SideBySide, run_best_effort
from compactor.state.decisions import LOOK
from compactor.state.seen_conditions import SeenEntity

#: The most entities considered after one pass, since each costs a listing: enough for a person's request. The initiator's
#: next pass considers the others.
MOST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLook:
    """The initiator's present decision about one entity, and the row that people see from now on."""

    considered: Considered
    seen: SeenEntity


def look_at(site: Site, entity: Entity) -> FreshLook:
    """Returns the initiator's present decision about one entity, and records it in the state.

    Requests nothing.
    """
    scan = _scan(site, [entity])
    considered = _consider(scan, entity)
    run_best_effort("recording a look", lambda: _record(scan, [considered]))
    return FreshLook(considered=considered, seen=scan.as_seen(considered))


def look_at_changed(site: Site, changed: Iterable[Entity]) -> None:
    """Considers and records up to ``MOST`` entities that a pass has changed.

    A failure has no effect on the pass.
    """
    entities = list(dict.fromkeys(changed))[:MOST]
    if site.state is not None and entities:
        run_best_effort("looking at what has changed", lambda: _look_at(site, entities))


def _look_at(site: Site, entities: Collection[Entity]) -> None:
    scan = _scan(site, entities)
    with SideBySide(min(site.settings.integer("compactor.store.threads"), len(entities)), "look") as threads:
        _record(scan, threads.map(partial(_consider, scan), entities))


def _consider(scan: CandidateScan, entity: Entity) -> Considered:
    """Returns the decision with present figures, even for a skipped entity."""
    considered = scan.consider(entity)
    return scan.measure(considered) if considered.decision is None else considered


def _scan(site: Site, entities: Collection[Entity]) -> CandidateScan:
    scan = CandidateScan(site, write=False)
    scan.turn_to(scan.fresh_tables(), PastCompactions(site, {entity.partition for entity in entities}))
    scan.tables.expect(entities)
    scan.past.expect({(entity.database, entity.table) for entity in entities})
    return scan


def _record(scan: CandidateScan, considered: Sequence[Considered]) -> None:
    state = scan.site.state
    if state is not None:
        there = [candidate.as_decided(LOOK) for candidate in considered if scan.tables.exists(candidate.entity)]
        state.decisions.record(scan.site.name, there, at=scan.now_ms)
        record_conditions(scan, state, considered)
