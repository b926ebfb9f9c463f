"""Makes the requests of one run of a program once, however often the run is retried.

The initiator's id in a row of the queue or the history names the run that requested it. So a retry after a lost process
recognizes the earlier requests. A request that failed, was refused or was aborted is repeated.
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
]  #: the reason, and the type that the initiator would choose
_UNDER_WAY = (State.INITIATED, State.WORKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOnce:
    """A table or partition with the id of its request, and the reason for the request."""

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


def request_once(site: Site, words: RequestWords, run: str, *, only_if_due: bool = True) -> list[RequestedOnce]:
    """Makes the requests of ``run`` that it has not made yet, and returns all of them.

    None if nothing is due.

    A partition that somebody else has queued is not queued twice: the existing row is returned.

    Args:
        words: the type may be ``auto``.
        only_if_due: requests only entities over a threshold.

    Raises:
        NotFound: no such table or partition.
        Refused: the table is never compacted, or a request is refused.
        CompactorError: a directory cannot be looked at.
    """
    table = find_table(site.metastore.catalog, words.table)
    reasons, initiator = _find_reasons(site, table, words, only_if_due=only_if_due), _initiator(run)
    earlier = _requests_of_run(site, table, initiator)
    kept = [_kept_request(entry) for entry in earlier.values() if entry.state not in ENDED_BADLY]
    repeated: _Reasons = {
        entity: ("it was asked for again", entry.type)
        for entity, entry in earlier.items()
        if entry.state in ENDED_BADLY
    }
    new = {
        entity: why
        for entity, why in (repeated | reasons).items()
        if entity not in {request.entity for request in kept}
    }
    return [*kept, *(_request(site, words, initiator, entity, *why) for entity, why in new.items())]


def _initiator(run: str) -> str:
    return f"run.{hashlib.sha256(run.encode()).hexdigest()[:_DIGITS]}"


def _requests_of_run(site: Site, table: Table, who: str) -> Mapping[Entity, Entry]:
    """Returns the newest request of the run for each entity."""
    entries = site.metastore.entries
    name = (table.database, table.name)
    every = [*entries.queue(database=table.database, table=table.name), *entries.history(table=name)]
    mine = sorted((e for e in every if (e.initiator_id or "").endswith(f"-{who}")), key=lambda entry: entry.id)
    return {entry.entity: entry for entry in mine}


def _kept_request(entry: Entry) -> RequestedOnce:
    because = "it was asked for already"
    return RequestedOnce(entity=entry.entity, entry_id=entry.id, type=entry.type.label.lower(), because=because)


def _find_reasons(site: Site, table: Table, words: RequestWords, *, only_if_due: bool) -> _Reasons:
    """Returns the entities to compact, with the reason and the initiator's type, if any."""
    partition = None
    if words.partition is not None:
        [partition] = [entity.partition for entity in entities_of(site, table, words.partition)]
    due = due_in_table(site, table, partition) if only_if_due or words.type == AUTO else []
    reasons: _Reasons = {
        due_entity.entity: (due_entity.because, due_entity.type)
        for due_entity in due
        if due_entity.type is not CompactionType.ABORT_CLEANUP
    }
    if only_if_due:
        return reasons
    return {entity: reasons.get(entity, ("it was asked for", None)) for entity in entities_of(site, table, partition)}


def _request(
    site: Site, words: RequestWords, who: str, entity: Entity, because: str, chosen: CompactionType | None
) -> RequestedOnce:
    kind = words.type if words.type != AUTO else (chosen or CompactionType.MAJOR).label.lower()
    try:
        (enqueued,) = request_as(site, replace(words, partition=entity.partition, type=kind), who)
    except Refused:
        entry = _find_queued(site, entity)
        if entry is None:
            raise
        by = f"it is queued already: {entry.initiator_id or 'by somebody'} asked for it"
        return RequestedOnce(entity=entity, entry_id=entry.id, type=entry.type.label.lower(), because=by)
    assert enqueued.entry_id is not None  # a refusal of the only one is raised
    return RequestedOnce(entity=entity, entry_id=enqueued.entry_id, type=kind, because=because)


def _find_queued(site: Site, entity: Entity) -> Entry | None:
    entries = site.metastore.entries.queue(database=entity.database, table=entity.table, states=_UNDER_WAY)
    return next((entry for entry in entries if entry.entity == entity), None)
