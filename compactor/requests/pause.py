"""Pauses a table for the initiator, and resumes it.

The initiator skips a table or partition after ``hive.compactor.initiator.failed.compacts.threshold`` failures in a row.
Resuming also removes these rows from the history, and the 'did not initiate' rows that they caused. Failures before the last
success stay.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.requests.overrides import find_changeable_table, override, remove_override
from compactor.site.site import PAUSED, Site, paused_tables
from compactor.state.stored_overrides import Override


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The failures of one table or partition that were removed from the history.

    ``paused_by`` is the user who had paused the table.
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


def pause(site: Site, table: str, by: str) -> Override:
    """Stops the initiator from requesting compactions of the table until it is resumed.

    See ``compactor.paused``.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows no changes, or the site has no state.
    """
    return override(site, table, PAUSED, "true", by)


def resume(site: Site, name: str) -> list[Resumed]:
    """Ends a pause, and removes the failures since the last success of every partition of the table.

    Raises:
        NotFound: there is no such table.
        Refused: the mode allows no changes.
    """
    table = find_changeable_table(site, name)
    history: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.entries.history():
        if (entry.entity.database, entry.entity.table) == (table.database, table.name):
            history[entry.entity].append(entry)
    resumed = [
        Resumed(entity=entity, forgotten=streak)
        for entity, entries in sorted(history.items(), key=lambda item: str(item[0]))
        if (streak := failures_since_success(entries))
    ]
    site.metastore.housekeeping.purge_history([e.id for r in resumed for e in r.forgotten])
    if (table.database, table.name) in paused_tables(site):
        removed = remove_override(site, str(table), PAUSED)
        resumed.insert(0, Resumed(entity=Entity(database=table.database, table=table.name), paused_by=removed.by))
    return resumed


def failures_since_success(entries: list[Entry]) -> tuple[Entry, ...]:
    """Returns the failed and 'did not initiate' rows that are newer than the last success, newest first."""
    streak: list[Entry] = []
    for entry in sorted(entries, key=lambda e: -e.id):
        if entry.state is State.SUCCEEDED:
            break
        if entry.state in (State.FAILED, State.DID_NOT_INITIATE):
            streak.append(entry)
    return tuple(streak)
