"""Looks at some tables and partitions between two passes of the initiator.

Each is recorded in place of the look before, so that people see what a commit or a cleaning left, not what was there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from compactor.compaction.entry import Entity
from compactor.initiator.candidate_scan import Considered, Scan
from compactor.initiator.outdated import record_conditions
from compactor.initiator.past import Past
from compactor.site.best_effort import beside
from compactor.site.side_by_side import SideBySide
from compactor.site.site import Site
from compactor.state.decisions import LOOK
from compactor.state.seen_conditions import Seen

#: Looked at after one pass, since each costs a listing: all that a person asked for, and little of a fleet's work. What
#: else a pass has changed, the initiator's next one looks at.
MOST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLook:
    """The decision that the initiator would make about one entity now, and the row that people are shown from now on."""

    considered: Considered
    seen: Seen


def look_at(site: Site, entity: Entity) -> FreshLook:
    """Returns what the initiator would do to one entity now, and records it if there is a state; nothing is requested."""
    scan = _scan(site, [entity])
    considered = _considered(scan, entity)
    beside("recording a look", lambda: _record(scan, [considered]))
    return FreshLook(considered=considered, seen=scan.seen(considered))


def look_at_changed(site: Site, changed: Iterable[Entity]) -> None:
    """Looks at what a pass has changed, at most ``MOST`` of it, and records that. A failure has no effect on the pass."""
    entities = list(dict.fromkeys(changed))[:MOST]
    if site.state is not None and entities:
        beside("looking at what has changed", lambda: _look_at(site, entities))


def _look_at(site: Site, entities: Collection[Entity]) -> None:
    scan = _scan(site, entities)
    with SideBySide(min(site.settings.integer("compactor.store.threads"), len(entities)), "look") as threads:
        _record(scan, threads.map(partial(_considered, scan), entities))


def _considered(scan: Scan, entity: Entity) -> Considered:
    """Returns the decision, with figures of now even if the entity is skipped, since its row is said to be of now."""
    considered = scan.consider(entity)
    return scan.measure(considered) if considered.decision is None else considered


def _scan(site: Site, entities: Collection[Entity]) -> Scan:
    scan = Scan(site, write=False)
    scan.turn_to(scan.fresh_tables(), Past(site, {entity.partition for entity in entities}))
    scan.tables.expect(entities)
    scan.past.expect({(entity.database, entity.table) for entity in entities})
    return scan


def _record(scan: Scan, considered: Sequence[Considered]) -> None:
    state = scan.site.state
    if state is not None:
        there = [one.decided(LOOK) for one in considered if scan.tables.exists(one.entity)]
        state.decisions.record(scan.site.name, there, at=scan.now_ms)
        record_conditions(scan, state, considered)
