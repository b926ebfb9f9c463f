"""The result of one pass of the cleaner, entry by entry."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.cleaner.blockers import Blocker
from compactor.compaction.entry import Entity
from compactor.compaction.states import State
from compactor.site import lost_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """An entity whose directories were removed or moved into quarantine.

    ``entry_id`` is None where only writes of aborted transactions were removed.
    """

    entity: Entity
    entry_id: int | None
    removed: tuple[str, ...]
    bytes_freed: int
    quarantined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An entry that cannot be cleaned yet, the reason, and the transactions that block it."""

    entity: Entity
    entry_id: int
    because: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedUncleaned:
    """An entry that left the queue without being cleaned."""

    entity: Entity
    entry_id: int
    state: State
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPass:
    """One pass, with the outcome of each entry."""

    repaired: tuple[lost_workers.Repaired, ...]
    cleaned: tuple[Cleaned, ...]
    waiting: tuple[Waiting, ...]
    ended: tuple[EndedUncleaned, ...]
    failed: tuple[Waiting, ...]

    @property
    def changed(self) -> list[Entity]:
        """The entities whose directories or rows this pass changed."""
        return [*(done.entity for done in self.cleaned), *(dropped.entity for dropped in self.ended)]

    def to_json(self) -> dict[str, object]:
        return {
            "cleaned": [
                {
                    "table": str(c.entity),
                    "compaction": c.entry_id,
                    "removed": list(c.removed),
                    "bytes_freed": c.bytes_freed,
                    "quarantined": list(c.quarantined),
                }
                for c in self.cleaned
            ],
            "waiting": [
                {
                    "table": str(w.entity),
                    "compaction": w.entry_id,
                    "because": w.because,
                    "blockers": [b.to_json() for b in w.blockers],
                }
                for w in self.waiting
            ],
            "ended": [
                {"table": str(e.entity), "compaction": e.entry_id, "state": e.state.label, "because": e.because}
                for e in self.ended
            ],
            "failed": [{"table": str(w.entity), "compaction": w.entry_id, "because": w.because} for w in self.failed],
        }
