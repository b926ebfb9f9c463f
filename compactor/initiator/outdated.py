"""Updates the shown conditions of entities that were compacted or dropped, and are no candidates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan, Considered, sweep_ms
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.decisions import Decided
from compactor.state.seen_conditions import SeenEntity
from compactor.state.state_database import OwnState

_OVERLAP_MS = 600_000  #: a row of the history may be committed this long after its time
_SECOND_MS = 1000
MAX_PER_PASS = 1000  #: the most entities that one pass considers; the next pass continues
ROLE = "sweep"
_EVERYTHING = Entity(database="", table="")


def reconsider(scan: CandidateScan, looked_at: int | None) -> None:
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
    if is_due(site, state, scan.now_ms):
        known: Iterable[SeenEntity] = state.conditions.unsettled(site.name, scan.now_ms)
    elif looked_at is not None:
        ended = site.metastore.entries.ended_since(looked_at - _OVERLAP_MS)
        known = state.conditions.for_entities(site.name, ended).values()
    else:
        return
    _consider_again(scan, state, [seen for seen in known if seen.at < scan.now_ms and not seen.is_settled])


def _consider_again(scan: CandidateScan, state: OwnState, known: Sequence[SeenEntity]) -> None:
    if not known:
        return
    fresh = CandidateScan(scan.site, write=False)
    fresh.tables.expect(seen.entity for seen in known)
    fresh.past.expect({(seen.entity.database, seen.entity.table) for seen in known})
    outdated = [
        seen.entity
        for seen in known
        if not fresh.tables.exists(seen.entity) or fresh.past.ended(seen.entity).at > seen.at
    ]
    if outdated:
        record_conditions(fresh, state, [fresh.consider(entity) for entity in outdated])


def record_conditions(
    scan: CandidateScan, state: OwnState, considered: Sequence[Considered], writer: str | None = None
) -> None:
    """Stores the shown conditions of entities, and forgets dropped entities; see ``Conditions.record``."""
    there = [c for c in considered if scan.tables.exists(c.entity)]
    gone = [c.entity for c in considered if not scan.tables.exists(c.entity)]
    state.conditions.record(scan.site.name, [scan.as_seen(c) for c in there], gone, writer)


def is_due(site: Site, state: OwnState, now_ms: int) -> bool:
    """Returns true if a sweep is due or unfinished."""
    last = state.decisions.newest(site.name, ROLE)
    return last is None or now_ms >= last + sweep_ms(site.settings)


def find_next_unrecorded(
    site: Site, state: OwnState, now_ms: int, candidates: Collection[Entity] = ()
) -> list[Entity] | None:
    """Returns entities that were not considered since their table was altered, by name.

    There are at most ``MAX_PER_PASS``, without the ``candidates`` of this pass: their tables may have been altered in the
    same second, or later than now if the clock was set back.

    Returns None before the next sweep.

    A sweep reads the whole catalog, so it runs only every ``compactor.full.sweep`` check intervals.
    """
    if not is_due(site, state, now_ms):
        return None
    looks = state.conditions.looks(site.name)
    tables = [table for table in site.metastore.catalog.tables() if table.is_transactional]
    names = site.metastore.catalog.partition_names([table for table in tables if table.partition_keys])
    unseen = [
        entity
        for table in tables
        for entity in _entities(table, names)
        if entity not in candidates and (entity not in looks or looks[entity] < table.altered_at + _SECOND_MS)
    ]
    return unseen[:MAX_PER_PASS]


def record_sweep(site: Site, state: OwnState, looks: int, now_ms: int) -> None:
    """Records that a pass has considered ``looks`` entities.

    The sweep ends if there were fewer than the maximum.
    """
    if looks < MAX_PER_PASS:
        done = Decided(entity=_EVERYTHING, outcome="swept", because=f"{looks} were considered", role=ROLE)
        state.decisions.record(site.name, [done], at=now_ms)


def _entities(table: Table, names: Mapping[int, Sequence[str]]) -> Iterator[Entity]:
    if not table.partition_keys:
        yield Entity(database=table.database, table=table.name)
        return
    for name in names[table.id]:
        yield Entity(database=table.database, table=table.name, partition=name)
