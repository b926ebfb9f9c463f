"""When a decision of an earlier pass still stands: all that it was based on is as it was, but for the files themselves.

Files change by writes, compactions, cleaning and aborts, each of which leaves other rows in the metastore. What leaves none
(somebody's hands, a lost mount) is found by the next full look. Decisions that stand may be old; a worker decides again.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import TxnId
from compactor.compaction.decision import AbortCleanup, CleanOnly, Decision, Major, Minor, NotNeeded
from compactor.compaction.eligibility import Eligible, Skipped
from compactor.compaction.entry import Entry

_SIZE = 16  #: bytes of a digest
_DECISIONS = {kind.__name__.lower(): kind for kind in (Minor, Major, CleanOnly, AbortCleanup, NotNeeded)}
_DUE = frozenset(name for name, kind in _DECISIONS.items() if kind.type is not None)


class Lasts(enum.Enum):
    """For how long a decision stands."""

    NOT = "the next pass decides anew: time, or something that leaves no row, may change it"
    WHILE_OPEN = "until the table's open and aborted write IDs change: directories wait for open transactions"
    WHILE_UNCHANGED = "until something changes that is recorded of the entity itself"


class Basis(NamedTuple):
    """The digests of what a decision was based on. ``open`` is None if it does not depend on open transactions."""

    digest: str
    open: str | None
    newest_txn: TxnId  #: when it was made; a database with an older one has been restored since


class StoredDecision(NamedTuple):
    """A decision of an earlier pass, at ``at`` (epoch ms), with its basis."""

    digest: str
    open: str | None
    newest_txn: int
    outcome: str
    at: int

    @property
    def is_due(self) -> bool:
        """True if the decision asks for something."""
        return self.outcome in _DUE

    def stands(self, digest: str, newest_txn: TxnId, looked_after: int) -> bool:
        """Returns true if the decision stands, if the open write IDs are as they were, too.

        Args:
            looked_after: decisions made before it end (epoch ms): a full look is due.
        """
        return self.digest == digest and self.newest_txn <= newest_txn and self.at > looked_after


class Writes(NamedTuple):
    """The rows of COMPLETED_TXN_COMPONENTS of one entity: their number, and the sum of their transactions.

    A commit adds one, a cleaner takes away those that a compaction has merged.
    """

    rows: int = 0
    total: int = 0

    def plus(self, other: Writes) -> Writes:
        """Returns the rows under both of an entity's names."""
        return Writes(self.rows + other.rows, self.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInputs:
    """All of a table that decisions about its entities are based on."""

    release: str  #: ours, and the schema's
    id: int
    location: str
    is_insert_only: bool
    is_partitioned: bool
    settings: str  #: a digest of the effective ones, off-peak hours and overrides included
    verdict: str  #: of ``verdict_text`` on an ordinary partition: properties of table and database
    unnamed_aborts: tuple[int, ...]  #: aborted dynamic-partition writes, which may be in any partition


class Moving(NamedTuple):
    """The inputs that only few entities have. ``verdict`` has the effect that time has on it, so time itself is no input."""

    verdict: str
    queued: Sequence[tuple[int, str]] = ()  #: id and state of each row of the queue
    aborts: Sequence[int] = ()  #: number, sum and oldest start of aborted transactions
    has_old_abort: bool = False


class Digests:
    """The digests of the entities of one table."""

    def __init__(self, table: TableInputs) -> None:
        inputs = tuple(getattr(table, field.name) for field in fields(table))
        self._table = hashlib.blake2b(repr(inputs).encode(), digest_size=_SIZE)

    def of(self, writes: Writes, place: tuple[int, str] | None, ended: int, moving: Moving | None = None) -> str:
        """Returns the digest of one entity.

        Args:
            place: PART_ID and location; None for a table without partitions, or a partition that is not there.
            ended: the newest row in the history, 0 if there is none: a compaction changes directories.
        """
        digest = self._table.copy()
        rest = "" if moving is None else repr(tuple(moving))
        where = "" if place is None else f"{place[0]} {place[1]}"  # the location comes last: it may hold anything
        digest.update(f"{writes.rows} {writes.total} {ended} {rest} {where}".encode(errors="surrogatepass"))
        return digest.hexdigest()


def decision_of(outcome: str, because: str, flips: tuple[str, ...]) -> Decision | None:
    """Returns a decision as it was stored, without its numbers; None if ``outcome`` is no decision's."""
    kind = _DECISIONS.get(outcome)
    return None if kind is None else kind(because=because, flips=flips)


def verdict_text(verdict: Eligible | Skipped) -> str:
    """Returns the verdict as an input of a digest."""
    if isinstance(verdict, Eligible):
        return "eligible"
    return f"{'record' if verdict.record else 'skip'}: {verdict.because}"


def queued_states(entries: Sequence[Entry]) -> list[tuple[int, str]]:
    """Returns the rows of the queue as an input of a digest."""
    return [(entry.id, entry.state.value) for entry in entries]


def open_digest(write_ids: ValidWriteIdList) -> str:
    """Returns the digest of what a table's open and aborted transactions are."""
    inputs = (write_ids.high_watermark, sorted(write_ids.open), sorted(write_ids.aborted))
    return hashlib.blake2b(repr(inputs).encode(), digest_size=_SIZE).hexdigest()
