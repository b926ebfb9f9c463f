"""Reuses a decision of an earlier pass if none of its recorded inputs has changed.

Files are not looked at.

Writes, compactions, cleaning and aborts change files, and each also changes rows of the metastore. The next full look finds
changes that leave no row, such as manual ones or a lost mount. A reused decision may be old; a worker decides again.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple
from zlib import crc32

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import TxnId
from compactor.compaction.decision import AbortCleanup, CleanOnly, Decision, Major, Minor, NotNeeded
from compactor.compaction.eligibility import Eligible, Skipped
from compactor.compaction.queue_entry import Entry

_SIZE = 16  #: bytes of a digest
_SHARE = 1000  #: candidates of a table whose decisions end together
_SHARES = 16  #: at most so many shares of a table end one after the other
_DECISIONS = {kind.__name__.lower(): kind for kind in (Minor, Major, CleanOnly, AbortCleanup, NotNeeded)}
_DUE = frozenset(name for name, kind in _DECISIONS.items() if kind.type is not None)


class Lasts(enum.Enum):
    """For how long a decision stands."""

    NOT = "the next pass decides again: time, or something that leaves no row, may change it"
    WHILE_OPEN = "until the table's open and aborted write IDs change: directories wait for open transactions"
    WHILE_UNCHANGED = "until a recorded input of the entity itself changes"


class Basis(NamedTuple):
    """The digests of a decision's inputs. ``open`` is None if it does not depend on open transactions."""

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
        """True if the decision leads to a request."""
        return self.outcome in _DUE

    def still_holds(self, digest: str, newest_txn: TxnId, now: int, lasting: int) -> bool:
        """Returns true if the decision still holds, provided that the open write IDs have not changed.

        Args:
            now: epoch ms. A decision of a later time no longer holds: the clock was set back.
            lasting: the milliseconds after which a full look is due.
        """
        is_recent = self.at <= now < self.at + lasting
        return is_recent and self.digest == digest and self.newest_txn <= newest_txn


class FullRound:
    """The full round through a table's candidates.

    It is how long a decision lasts before its files are looked at again.

    A decision lasts between half the period and the whole, so that decisions of one pass do not all end in one pass.
    Candidates of a small table end together, since reading a table costs more than a few of its candidates.

    Args:
        table: database and name.
        candidates: their number.
        period_ms: the time within which each candidate is looked at.
    """

    def __init__(self, table: tuple[str, str], candidates: int, period_ms: int) -> None:
        shares = min(_SHARES, 1 + candidates // _SHARE)
        half = max(1, period_ms // 2)
        name = ".".join(table)
        self._lasting = [
            period_ms - crc32(f"{name} {share}".encode(errors="surrogatepass")) % half for share in range(shares)
        ]
        self.shortest = min(self._lasting)

    def lasting(self, partition: str | None) -> int:
        """Returns the milliseconds that a decision about a candidate lasts."""
        if len(self._lasting) == 1:
            return self._lasting[0]
        return self._lasting[crc32((partition or "").encode(errors="surrogatepass")) % len(self._lasting)]


class Writes(NamedTuple):
    """The rows of COMPLETED_TXN_COMPONENTS of one entity: their number, and sums of their transactions.

    A commit adds a row; a cleaner removes those that a compaction has merged, and others that are redundant. ``total`` is
    the sum of ids, which two of them may have in common with two others; ``mixed`` is a sum of hashes of ids.
    """

    rows: int = 0
    total: int = 0
    mixed: int = 0

    def plus(self, other: Writes) -> Writes:
        """Returns the rows under both of an entity's names."""
        return Writes(self.rows + other.rows, self.total + other.total, self.mixed + other.mixed)

    def __str__(self) -> str:
        return f"{self.rows} {self.total} {self.mixed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInputs:
    """The inputs that a table contributes to decisions about its entities."""

    release: str  #: ours, and the schema's
    id: int
    location: str
    is_insert_only: bool
    is_partitioned: bool
    settings: str  #: a digest of the effective ones, off-peak hours and overrides included
    verdict: str  #: of ``describe_verdict`` on an ordinary partition; depends on properties of table and database
    unnamed_aborts: tuple[int, ...]  #: aborted dynamic-partition writes, which may be in any partition


class EntityInputs(NamedTuple):
    """The inputs that only few entities have. Time is not an input: its effect is in ``verdict``."""

    verdict: str
    queued: Sequence[tuple[int, str]] = ()  #: id and state of each row of the queue
    aborts: Sequence[int] = ()  #: number, sum and oldest start of aborted transactions
    has_old_abort: bool = False


class Digests:
    """The digests of the entities of one table."""

    def __init__(self, table: TableInputs) -> None:
        inputs = tuple(getattr(table, field.name) for field in fields(table))
        self._table = hashlib.blake2b(repr(inputs).encode(errors="surrogatepass"), digest_size=_SIZE)

    @property
    def inputs(self) -> str:
        """The digest of the table's own inputs."""
        return self._table.hexdigest()

    def for_entity(
        self, writes: Writes, place: tuple[int, str] | None, ended: int, extra: EntityInputs | None = None
    ) -> str:
        """Returns the digest of one entity.

        Args:
            place: PART_ID and location; None for an unpartitioned table, or a partition that does not exist.
            ended: the newest row in the history, 0 if there is none: a compaction changes directories.
        """
        digest = self._table.copy()
        rest = "" if extra is None else repr(tuple(extra))
        where = (
            "" if place is None else f"{place[0]} {place[1]}"
        )  # the location comes last, since it may contain any character
        digest.update(f"{writes} {ended} {rest} {where}".encode(errors="surrogatepass"))
        return digest.hexdigest()


def restore_decision(outcome: str, because: str, flips: tuple[str, ...]) -> Decision | None:
    """Restores a stored decision, without its numbers; None if ``outcome`` is not that of a decision."""
    kind = _DECISIONS.get(outcome)
    return None if kind is None else kind(because=because, flips=flips)


def describe_verdict(verdict: Eligible | Skipped) -> str:
    """Returns the verdict as an input of a digest."""
    if isinstance(verdict, Eligible):
        return "eligible"
    return f"{'record' if verdict.record else 'skip'}: {verdict.because}"


def list_queued_states(entries: Sequence[Entry]) -> list[tuple[int, str]]:
    """Returns the rows of the queue as an input of a digest."""
    return [(entry.id, entry.state.value) for entry in entries]


def digest_open_ids(write_ids: ValidWriteIdList) -> str:
    """Returns the digest of a table's open and aborted write IDs."""
    inputs = (write_ids.high_watermark, sorted(write_ids.open), sorted(write_ids.aborted))
    return hashlib.blake2b(repr(inputs).encode(), digest_size=_SIZE).hexdigest()
