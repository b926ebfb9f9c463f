"""The result of one pass of the cleaner, entry by entry."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from compactor.base.errors import CompactorError, LockNotGranted, LostClaim, StorageError
from compactor.cleaner.blockers import Blocker
from compactor.compaction.cleaning import retry_retention
from compactor.compaction.queue_entry import WAITS, Entity, Entry
from compactor.compaction.states import State
from compactor.site import lost_workers
from compactor.site.restored_database import must_still_be_newest
from compactor.site.site import Site

log = logging.getLogger(__name__)


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


class PassLog:
    """Collects what happens to each entry. An entry that cannot be cleaned backs off and keeps its row."""

    def __init__(self, site: Site) -> None:
        self.results: list[Cleaned | Waiting | EndedUncleaned] = []
        self.failed: list[Waiting] = []
        self._site = site

    @property
    def tried(self) -> set[int | None]:
        """The ids of all entries with an outcome."""
        return {result.entry_id for result in (*self.results, *self.failed)}

    def done(self, repaired: tuple[lost_workers.Repaired, ...], waiting: Iterable[Waiting]) -> CleanerPass:
        """Returns the result of the pass, including other entries that wait."""
        results = [*self.results, *waiting]
        return CleanerPass(
            repaired=repaired,
            cleaned=tuple(r for r in results if isinstance(r, Cleaned)),
            waiting=tuple(r for r in results if isinstance(r, Waiting)),
            ended=tuple(r for r in results if isinstance(r, EndedUncleaned)),
            failed=tuple(self.failed),
        )

    def add(self, result: Cleaned | Waiting | EndedUncleaned) -> None:
        self.results.append(result)

    def wait(self, entry: Entry, retention_ms: int, because: str) -> None:
        """Leaves an entry in the queue without counting a failure.

        Raises:
            LostClaim: it is no longer ready for cleaning.
        """
        self._site.metastore.cleaning.back_off(entry, retention_ms, f"{WAITS}{because}")
        self.add(Waiting(entity=entry.entity, entry_id=entry.id, because=because))

    def fail(self, entry: Entry, error: CompactorError) -> None:
        """Makes a row that cannot be cleaned wait, twice as long each time; it stays in the queue.

        See PROTOCOL 6.

        Does nothing if another cleaner, perhaps Hive's, has removed the row and its directories.

        Raises:
            Disagreement: an older database was put back meanwhile, which explains the missing row and the error.
        """
        must_still_be_newest(self._site)
        try:
            if isinstance(error, LockNotGranted):  # only where directories cannot vanish in one step
                self.wait(entry, 0, str(error))
                return
            before = entry.retry_retention if entry.waits is None else 0
            retention = retry_retention(before, self._site.settings)
            self._site.metastore.cleaning.back_off(entry, retention, str(error))
        except LostClaim:
            log.info("%s entry %d: another cleaner was faster: %s", entry.entity, entry.id, error)
            return
        level = logging.WARNING if isinstance(error, StorageError) else logging.ERROR
        log.log(level, "%s entry %d: cleaning failed, next try in %d ms: %s", entry.entity, entry.id, retention, error)
        self.failed.append(Waiting(entity=entry.entity, entry_id=entry.id, because=str(error)))
