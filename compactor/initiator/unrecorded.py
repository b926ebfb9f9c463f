"""Tables and partitions without any recorded write: the initiator has no reason to consider them, but people want to see
them too.

Each is considered once, so that people see it until ``compactor.decisions.retention`` has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compactor.compaction.entry import Entity
from compactor.initiator.candidate_scan import sweep_ms
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.decisions import Decided
from compactor.state.store import OwnState

MAX_PER_PASS = 1000  #: the most considered in one pass of the initiator; the next pass continues
ROLE = "sweep"
_EVERYTHING = Entity(database="", table="")


def is_due(site: Site, state: OwnState, now_ms: int) -> bool:
    """Returns true if a sweep is due, or has begun and is not over yet."""
    last = state.decisions.newest(site.name, ROLE)
    return last is None or now_ms >= last + sweep_ms(site.settings)


def next_unrecorded(site: Site, state: OwnState, now_ms: int) -> list[Entity] | None:
    """Returns those that were never considered, by name, at most ``MAX_PER_PASS``; None until the next sweep is due.

    A sweep reads the whole catalog, so it runs only every ``compactor.full.sweep`` check intervals.
    """
    if not is_due(site, state, now_ms):
        return None
    known = state.conditions.entities(site.name)
    tables = [table for table in site.metastore.catalog.tables() if table.is_transactional]
    names = site.metastore.catalog.partition_names([table for table in tables if table.partition_keys])
    found = [entity for table in tables for entity in _entities(table, names) if entity not in known]
    return found[:MAX_PER_PASS]


def record_sweep(site: Site, state: OwnState, looks: int, now_ms: int) -> None:
    """Records that a pass has considered ``looks`` of them. Unless there may be more, the sweep is over."""
    if looks < MAX_PER_PASS:
        done = Decided(entity=_EVERYTHING, outcome="swept", because=f"{looks} were considered", role=ROLE)
        state.decisions.record(site.name, [done], at=now_ms)


def _entities(table: Table, names: Mapping[int, Sequence[str]]) -> Iterator[Entity]:
    if not table.partition_keys:
        yield Entity(database=table.database, table=table.name)
        return
    for name in names[table.id]:
        yield Entity(database=table.database, table=table.name, partition=name)
