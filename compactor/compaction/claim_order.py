"""Decides in which order waiting requests are claimed. Pure.

Urgent requests come first. The others have points: their priority, and one more for each ``compactor.priority.ageing`` that
they have waited, so that none waits for ever. Hive's own workers know no priorities: they take the oldest request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.base.printable import count_text
from compactor.compaction.queue_entry import Entry

PRIORITY, AGEING = "compactor.priority", "compactor.priority.ageing"
GUARD, ERASURE = "guard", "erasure"  #: ends of the initiator ids of urgent requests
_URGENT = {
    f"-{ERASURE}": "it erases rows, which comes first",
    f"-{GUARD}": "Trino reads it wrongly until it is compacted, so it comes first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A waiting request with what decides its place in the order.

    ``source`` is the layer of settings that ``priority`` comes from, ``waited_ms`` the time since the request.
    """

    entry: Entry
    priority: int
    source: str
    waited_ms: int
    ageing_ms: int

    @property
    def points(self) -> float:
        return self.priority + self.waited_ms / self.ageing_ms

    @property
    def because(self) -> str:
        """The reason of its place."""
        urgent = reason_of_urgency(self.entry)
        if urgent is not None:
            return urgent
        waited = count_text(self.waited_ms // 60_000, "minute")
        return f"{self.points:.1f} points: priority {self.priority} ({self.source}) and {waited} of waiting"


def reason_of_urgency(entry: Entry) -> str | None:
    """Returns why a request comes before all priorities; None for an ordinary one."""
    requester = entry.initiator_id or ""
    return next((reason for end, reason in _URGENT.items() if requester.endswith(end)), None)


def order_turns(turns: Iterable[Turn]) -> list[Turn]:
    """Returns ``turns`` in the order in which they are claimed: urgent ones, the most points, the oldest."""
    return sorted(turns, key=lambda turn: (reason_of_urgency(turn.entry) is None, _points(turn), turn.entry.id))


def _points(turn: Turn) -> float:
    """Returns the sort key: urgent requests are taken in the order of their ids."""
    return 0.0 if reason_of_urgency(turn.entry) is not None else -turn.points
