"""The requests of one run of somebody's program, made once however often the run is tried.

A row of the queue or the history says by its initiator's id which run asked for it, so a try after a lost process finds what
the one before asked for. What a person asks again after a failure is asked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from compactor.base.errors import Refused
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import ENDED_BADLY, CompactionType, State
from compactor.initiator.due import due_in_table
from compactor.metastore.catalog.values import Table
from compactor.requests.request import RequestWords, entities_of, request_as
from compactor.site.named_tables import find_table
from compactor.site.site import Site

AUTO = "auto"  #: the type that the initiator would choose, major where nothing is due
_DIGITS = 24  #: of a run's digest in CQ_INITIATOR_ID, which has 128 characters
_Reasons: TypeAlias = dict[
    Entity, tuple[str, CompactionType | None]
]  #: why, and the type that the initiator would choose
_UNDER_WAY = (State.INITIATED, State.WORKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A table or partition with its request: ``entry_id`` of the row, and why it was asked for."""

    entity: Entity
    entry_id: int
    type: str
    because: str

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "compaction": self.entry_id,
            "type": self.type,
            "because": self.because,
        }


def request_once(site: Site, words: RequestWords, run: str, *, only_if_due: bool = True) -> list[Asked]:
    """Returns the requests of the run ``run``, of which those are made that it has not made yet; none if nothing is due.

    A partition that somebody else has queued is not queued twice: their row is returned.

    Args:
        words: their type may be ``auto``.
        only_if_due: asks only for what is over a threshold.

    Raises:
        NotFound: no such table or partition.
        Refused: the table is never compacted, or a request is refused.
        CompactorError: a directory cannot be looked at.
    """
    table = find_table(site.metastore.catalog, words.table)
    wanted, who = _wanted(site, table, words, only_if_due=only_if_due), _initiator(run)
    made = _made(site, table, who)
    kept = [_kept(entry) for entry in made.values() if entry.state not in ENDED_BADLY]
    again: _Reasons = {
        entity: ("it was asked for again", entry.type) for entity, entry in made.items() if entry.state in ENDED_BADLY
    }
    new = {entity: why for entity, why in (again | wanted).items() if entity not in {one.entity for one in kept}}
    return [*kept, *(_request(site, words, who, entity, *why) for entity, why in new.items())]


def _initiator(run: str) -> str:
    return f"run.{hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]}"


def _made(site: Site, table: Table, who: str) -> Mapping[Entity, Entry]:
    """Returns the newest request of the run for each entity."""
    entries = site.metastore.entries
    name = (table.database, table.name)
    every = [*entries.queue(database=table.database, table=table.name), *entries.history(table=name)]
    mine = sorted((e for e in every if (e.initiator_id or "").endswith(f"-{who}")), key=lambda entry: entry.id)
    return {entry.entity: entry for entry in mine}


def _kept(entry: Entry) -> Asked:
    because = "it was asked for already"
    return Asked(entity=entry.entity, entry_id=entry.id, type=entry.type.label.lower(), because=because)


def _wanted(site: Site, table: Table, words: RequestWords, *, only_if_due: bool) -> _Reasons:
    """Returns what is to be compacted, with the reason and the type that the initiator would choose; None for none."""
    partition = None
    if words.partition is not None:
        [partition] = [entity.partition for entity in entities_of(site, table, words.partition)]
    due = due_in_table(site, table, partition) if only_if_due or words.type == AUTO else []
    of_due: _Reasons = {
        one.entity: (one.because, one.type) for one in due if one.type is not CompactionType.ABORT_CLEANUP
    }
    if only_if_due:
        return of_due
    return {entity: of_due.get(entity, ("it was asked for", None)) for entity in entities_of(site, table, partition)}


def _request(
    site: Site, words: RequestWords, who: str, entity: Entity, because: str, chosen: CompactionType | None
) -> Asked:
    kind = words.type if words.type != AUTO else (chosen or CompactionType.MAJOR).label.lower()
    try:
        (done,) = request_as(site, replace(words, partition=entity.partition, type=kind), who)
    except Refused:
        entry = _queued(site, entity)
        if entry is None:
            raise
        by = f"it is queued already: {entry.initiator_id or 'by somebody'} asked for it"
        return Asked(entity=entity, entry_id=entry.id, type=entry.type.label.lower(), because=by)
    assert done.entry_id is not None  # a refusal of the only one is raised
    return Asked(entity=entity, entry_id=done.entry_id, type=kind, because=because)


def _queued(site: Site, entity: Entity) -> Entry | None:
    found = site.metastore.entries.queue(database=entity.database, table=entity.table, states=_UNDER_WAY)
    return next((entry for entry in found if entry.entity == entity), None)
