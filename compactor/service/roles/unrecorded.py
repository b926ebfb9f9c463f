"""Tables and partitions that no write is recorded of: no candidates of the initiator's, but people want to see them too.

Each is looked at once, so that it stands among what people are told of until ``compactor.decisions.retention`` has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from compactor.compaction.entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.service.site import Site
from compactor.state.decisions import Decided
from compactor.state.store import OwnState

LOOKS = 1000  #: at most in one pass of the initiator; the next one goes on
ROLE = "sweep"
_EVERYTHING = Entity(database="", table="")


def unseen(site: Site, state: OwnState, now_ms: int) -> list[Entity] | None:
    """Those that nobody has looked at, by name, at most ``LOOKS``; None until the next sweep is due.

    A sweep reads the catalog, so it comes every ``compactor.full.sweep`` check intervals only.
    """
    last = state.decisions.newest(site.name, ROLE)
    wait = site.settings.milliseconds("hive.compactor.check.interval") * site.settings.integer("compactor.full.sweep")
    if last is not None and now_ms < last + wait:
        return None
    known = state.conditions.entities(site.name)
    tables = [table for table in site.metastore.catalog.tables() if table.is_transactional]
    found = [entity for table in tables for entity in _entities(site, table) if entity not in known]
    return found[:LOOKS]


def seen(site: Site, state: OwnState, looks: int, now_ms: int) -> None:
    """What ``unseen`` gave is looked at; unless there may be more, the next sweep is due after its time."""
    if looks < LOOKS:
        done = Decided(entity=_EVERYTHING, outcome="swept", because=f"{looks} were looked at", role=ROLE)
        state.decisions.record(site.name, [done], at=now_ms)


def _entities(site: Site, table: Table) -> Iterator[Entity]:
    if not table.partition_keys:
        yield Entity(database=table.database, table=table.name)
        return
    for partition in site.metastore.catalog.partitions(table):
        yield Entity(database=table.database, table=table.name, partition=partition.name)
