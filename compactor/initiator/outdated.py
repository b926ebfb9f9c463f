"""Updates the shown conditions of entities that were compacted or dropped, and are no candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compactor.initiator import unrecorded
from compactor.initiator.candidate_scan import Considered, Scan
from compactor.state.seen_conditions import Seen
from compactor.state.state_database import OwnState

_OVERLAP_MS = 600_000  #: a row of the history may be committed this long after its time


def reconsider(scan: Scan, looked_at: int | None) -> None:
    """Considers entities again that were compacted or dropped since, and are no longer candidates.

    Nothing is due for them. Recording that once replaces the outdated condition.

    Args:
        looked_at: the time of the last pass, epoch ms. Entities that ended long before it were reconsidered then; a full
            sweep finds the others.
    """
    state, site = scan.site.state, scan.site
    if state is None:
        return
    there = {(database.lower(), table.lower()) for database, table in site.metastore.catalog.names()}
    stored = state.conditions.tables(site.name)
    state.conditions.forget_tables(
        site.name, [name for name in stored if (name[0].lower(), name[1].lower()) not in there]
    )
    if unrecorded.is_due(site, state, scan.now_ms):
        known: Iterable[Seen] = state.conditions.unsettled(site.name, scan.now_ms)
    elif looked_at is not None:
        ended = site.metastore.entries.ended_since(looked_at - _OVERLAP_MS)
        known = state.conditions.for_entities(site.name, ended).values()
    else:
        return
    _consider_again(scan, state, [seen for seen in known if seen.at < scan.now_ms and not seen.is_settled])


def _consider_again(scan: Scan, state: OwnState, known: Sequence[Seen]) -> None:
    if not known:
        return
    fresh = Scan(scan.site, write=False)
    fresh.tables.expect(seen.entity for seen in known)
    fresh.past.expect({(seen.entity.database, seen.entity.table) for seen in known})
    outdated = [
        seen.entity
        for seen in known
        if not fresh.tables.exists(seen.entity) or fresh.past.ended(seen.entity).at > seen.at
    ]
    if outdated:
        record_conditions(fresh, state, [fresh.consider(entity) for entity in outdated])


def record_conditions(scan: Scan, state: OwnState, considered: Sequence[Considered]) -> None:
    """Stores the shown conditions of entities, and forgets dropped entities."""
    there = [c for c in considered if scan.tables.exists(c.entity)]
    gone = [c.entity for c in considered if not scan.tables.exists(c.entity)]
    state.conditions.record(scan.site.name, [scan.as_seen(c) for c in there], gone)
