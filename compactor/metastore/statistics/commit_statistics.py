"""A compaction's knowledge, at its commit, of the statistics of its table or partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compactor.acid.row_figures import RowFigures
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatistics:
    """The files and bytes that readers have from this commit on, and the figures of every row.

    The rows are those that the view of the commit sees. What is not known exactly is None. The columns of the figures have
    the table's names.

    ``txns`` and ``write_ids`` are the view's, ``highest`` is the highest write ID of the rows. With ``sets_flags``, figures
    may be marked as accurate. ``write_id`` is the one that the transaction has in this table already.
    """

    files: int
    bytes: int
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    highest: WriteId
    rows: RowFigures | None = None
    sets_flags: bool = True
    write_id: WriteId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A table or partition whose compaction commits, by the ids that were read."""

    entity: Entity
    txn: TxnId
    table_id: int
    partition_id: int | None
    known: CommitStatistics

    @property
    def id(self) -> int:
        """TBL_ID, or PART_ID of a partition."""
        return self.table_id if self.partition_id is None else self.partition_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """One row of column statistics: CS_ID, the column, and the figures by the names of their columns."""

    id: int
    name: str
    type: str
    figures: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStatistics:
    """The statistics in the metastore.

    Their write ID (0 for none), the parameters among them, and those of columns.
    """

    write_id: WriteId
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[StoredColumn, ...] = ()
