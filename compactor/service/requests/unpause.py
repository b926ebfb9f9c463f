"""Lets the initiator consider a table again: it is paused no more, and failed rows that are counted leave the history.

The initiator skips a table or partition whose newest compactions failed as often as
``hive.compactor.initiator.failed.compacts.threshold`` says. Nothing but those rows holds it back, so nothing but them,
and the 'did not initiate' rows that they led to, is removed; older failures than the last success stay.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import State
from compactor.service.requests.overrides import PAUSED, changeable, paused, remove_override
from compactor.service.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The rows of one table or partition that the initiator does not count any more; with them goes their reason.

    ``paused_by`` is who had paused the table until now.
    """

    entity: Entity
    forgotten: tuple[Entry, ...] = ()
    paused_by: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "table": str(self.entity),
            "paused_by": self.paused_by,
            "forgotten": [
                {"compaction": e.id, "state": e.state.label, "errormessage": e.error, "end": e.end}
                for e in self.forgotten
            ],
        }


def resume(site: Site, database: str, table: str) -> list[Resumed]:
    """Ends a pause, and removes the failures since the last success of every partition of the table.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows no writing.
    """
    found = changeable(site, database, table)
    history: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.entries.history():
        if (entry.entity.database, entry.entity.table) == (found.database, found.name):
            history[entry.entity].append(entry)
    resumed = [
        Resumed(entity=entity, forgotten=streak)
        for entity, entries in sorted(history.items(), key=lambda item: str(item[0]))
        if (streak := failures_since_success(entries))
    ]
    site.metastore.housekeeping.purge_history([e.id for r in resumed for e in r.forgotten])
    if (found.database, found.name) in paused(site):
        was = remove_override(site, str(found), PAUSED)
        resumed.insert(0, Resumed(entity=Entity(database=found.database, table=found.name), paused_by=was.by))
    return resumed


def failures_since_success(entries: list[Entry]) -> tuple[Entry, ...]:
    """Failed and 'did not initiate' rows that are newer than the last success, newest first."""
    streak: list[Entry] = []
    for entry in sorted(entries, key=lambda e: -e.id):
        if entry.state is State.SUCCEEDED:
            break
        if entry.state in (State.FAILED, State.DID_NOT_INITIATE):
            streak.append(entry)
    return tuple(streak)
