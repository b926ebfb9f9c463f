"""A compaction request, and the row that records it from the queue to the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.states import ENDED_BADLY, CompactionType, State

WAITS = "waits: "  #: begins CQ_ERROR_MESSAGE of a row that waits for its cleaning without a failure
LOCATION = "location"  #: the property in which Hive's soft delete names the files that its cleaner removes


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """The unit of compaction: a partition, or an unpartitioned table (``partition`` None).

    Names as Hive stores them.
    """

    database: str
    table: str
    partition: str | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.table}" + (f"/{self.partition}" if self.partition is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for a compaction. ``properties`` are WITH OVERWRITE TBLPROPERTIES."""

    entity: Entity
    type: CompactionType
    initiator: str  #: ``compactor-<host>-<who>``, stored in CQ_INITIATOR_ID
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=_nothing)
    run_as: str | None = None
    buckets: int | None = None
    order_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of COMPACTION_QUEUE or COMPLETED_COMPACTIONS.

    Times are epoch milliseconds of the database's clock.
    """

    id: int
    entity: Entity
    state: State
    type: CompactionType
    properties: Mapping[str, str] = field(default_factory=_nothing)
    pool: str | None = None
    worker_id: str | None = None
    run_as: str | None = None
    enqueue_time: int | None = None
    start: int | None = None
    end: int | None = None  #: only in the history
    highest_write_id: WriteId | None = None
    txn_id: TxnId | None = None
    next_txn_id: TxnId | None = None
    commit_time: int | None = None
    cleaner_start: int | None = None
    retry_retention: int = 0  #: ms that a row waits after a failed cleaning before the next attempt
    job_id: str | None = None
    error: str | None = None
    initiator_id: str | None = None
    initiator_version: str | None = None
    worker_version: str | None = None
    buckets: int | None = None
    order_by: str | None = None
    is_iceberg: bool = False  #: only in the queue: the table of this name is one of Iceberg

    @property
    def left_to(self) -> str | None:
        """The engine that alone may change this row of the queue; None for a row that our roles take.

        Hive 4.1 and later queues compactions of Iceberg tables here. A row of its soft delete names the files of a dropped
        table or partition, which it removes itself.
        """
        if self.is_iceberg or self.type is CompactionType.SMART_OPTIMIZE:
            return "the compactor of Hive, which alone compacts Iceberg tables"
        if self.state is State.READY_FOR_CLEANING and LOCATION in self.properties:
            return "the cleaner of Hive, which alone removes soft-deleted files"
        return None

    @property
    def committed_at(self) -> int | None:
        """The time at which readers got the result (epoch ms); None if they did not.

        Hive stores no commit time for a rebalance, and Hive 3 for nothing. There, the nearest known moment counts.
        """
        if self.commit_time is not None:
            return self.commit_time
        if self.state is State.SUCCEEDED:
            return self.end
        is_result = self.state is State.READY_FOR_CLEANING and self.type is not CompactionType.ABORT_CLEANUP
        return self.start if is_result else None

    @property
    def cleaned_at(self) -> int | None:
        """The time at which its obsolete directories were removed, or moved into quarantine (epoch ms)."""
        return self.end if self.state is State.SUCCEEDED else None

    @property
    def worked_ms(self) -> int | None:
        """The time that its worker took (ms), from the claim to the commit or to an end without one."""
        ended = self.committed_at or self.end
        return None if ended is None or self.start is None else max(0, ended - self.start)

    @property
    def waits(self) -> str | None:
        """The reason for which its cleaning waits, such as ``compactor.forget.grace``; None after a failure."""
        return self.error.removeprefix(WAITS) if self.error is not None and self.error.startswith(WAITS) else None

    @property
    def can_be_requested_again(self) -> bool:
        """True if it ended badly and a user may request it."""
        return self.state in ENDED_BADLY and self.type is not CompactionType.ABORT_CLEANUP
