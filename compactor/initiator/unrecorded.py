"""Finds tables and partitions without a recorded write, which people want to see too.

The initiator has no reason to consider them. Each is considered once, so that people see it until
``compactor.decisions.retention`` has passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compactor.compaction.entry import Entity
from compactor.initiator.candidate_scan import sweep_ms
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.state.decisions import Decided
from compactor.state.state_database import OwnState

MAX_PER_PASS = 1000  #: the most entities that one pass considers; the next pass continues
ROLE = "sweep"
_EVERYTHING = Entity(database="", table="")


def is_due(site: Site, state: OwnState, now_ms: int) -> bool:
    """Returns true if a sweep is due or unfinished."""
    last = state.decisions.newest(site.name, ROLE)
    return last is None or now_ms >= last + sweep_ms(site.settings)


def find_next_unrecorded(site: Site, state: OwnState, now_ms: int) -> list[Entity] | None:
    """Returns at most ``MAX_PER_PASS`` entities that were never considered, by name.

    Returns None before the next sweep.

    A sweep reads the whole catalog, so it runs only every ``compactor.full.sweep`` check intervals.
    """
    if not is_due(site, state, now_ms):
        return None
    known = state.conditions.entities(site.name)
    tables = [table for table in site.metastore.catalog.tables() if table.is_transactional]
    names = site.metastore.catalog.partition_names([table for table in tables if table.partition_keys])
    entities = [entity for table in tables for entity in _entities(table, names) if entity not in known]
    return entities[:MAX_PER_PASS]


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
