"""The requests to a keeper and its answers: plain values that ``message_bytes`` encodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TypeAlias

import pyarrow as pa

from compactor.spark_tables.driver_jvm import Process
from compactor.storage.store_options import StoreOptions
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.writing.row_change import Changed
from compactor.tables.writing.writer_messages import ChangedPart, SharedChange, SharedStatement, WrittenPart


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastorePlace:
    """A metastore, named as for ``open_metastore``, and the application that sends the request."""

    metastore: str = "default"
    config: str | None = None
    application: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCommits:
    """The commits of a table that a stream or DataFrame has seen.

    They are the table's id, and Hive's text of the valid write IDs.
    """

    table_id: int
    write_ids: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """A table that a DataFrame reads, and the commits that its snapshot sees."""

    metastore: str
    config: str | None
    table: str
    commits: SeenCommits
    snapshot: str  #: the name of the snapshot, as in ``Hold``
    is_version: bool = False  #: it reads a version, so it need not see what was written since


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCommits:
    """Asks for the current commits of a table."""

    place: MetastorePlace
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScan:
    """Asks for the plan of a scan."""

    place: MetastorePlace
    table: str
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None
    where: str | None = None  #: a condition that Spark evaluates: rows that cannot meet it need not be read
    row_ids: bool = False
    as_of: int | None = None  #: the version to read; None for what the snapshot sees
    snapshot: str | None = None  #: the name of an ``OpenSnapshot``; without it, ``change`` and ``within`` a new one
    change: str | None = None  #: the name of a change whose rows are read, with ROW__IDs and files
    within: str | None = None  #: a change or statement that reads the table under its locks and snapshot
    between: tuple[SeenCommits, SeenCommits] | None = None  #: only rows later than the first, up to the second
    reader: Process | None = None  #: the snapshot is released when this process, which Spark may kill, ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A transaction that the keeper holds.

    ``name`` is unique; two metastores may use the same number ``txn``.
    """

    name: str
    txn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """The plan of a scan, and what executors need to read it."""

    hold: Hold
    plan: ScanPlan
    stores: StoreOptions = field(repr=False)
    table_id: int
    padded: tuple[str, ...] = ()  #: columns whose trailing blanks do not count in filters
    has_files: bool = False  #: each row comes with the file that contains it
    #: Spark's schema, if the plan reads timestamps in parts. Rows then have both: unchanged values keep every digit.
    shown: pa.Schema | None = None

    @property
    def without_tasks(self) -> PlannedScan:
        """The same scan without its files: each executor gets only its own."""
        return replace(self, plan=replace(self.plan, tasks=()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSnapshot:
    """Asks for an error if the snapshot of a transaction is no longer protected."""

    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSnapshot:
    """Asks for a snapshot for several scans; the answer is its name. It is held until it is released."""

    place: MetastorePlace
    is_of_frames: bool = False  #: the snapshot is held only until no DataFrame needs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Asks to release one snapshot, or all with None; the answer is the number of released snapshots."""

    snapshot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersOf:
    """Asks for the ``TableReaders`` of a table."""

    place: MetastorePlace
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReaders:
    """The transactions of this application that still read a table."""

    txns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """Reports that the program of an application is active, so that snapshots of its DataFrames stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A table that a write creates."""

    columns: tuple[tuple[str, str], ...]  #: names and Hive's types of all columns, including partition columns
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    buckets: int = 0
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginStatement:
    """Asks for a transaction that reads a query and writes its rows; the answer is its name.

    All tables are locked in one request.
    """

    place: MetastorePlace
    targets: tuple[str, ...] = ()  #: the tables to write
    overwrites: bool = False  #: the single target is overwritten
    reads: tuple[str, ...] = ()  #: the tables that the query reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Reports that the program of a statement or change is active.

    The answer says whether that is under way.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginWrite:
    """Asks for a transaction that appends to a table, or overwrites it.

    Attributes:
        statement: the statement that has begun the transaction; without it, a new transaction is opened.
        sources: the tables that the rows are read from, as far as they are known.
        stream: the name of the stream whose batch is written. An earlier attempt of this stream into this table is aborted.
        batch: the batch's number, if it is already known.
        creates: the table that the commit creates; None if the table exists.
    """

    place: MetastorePlace
    table: str
    overwrite: bool
    time_zone: str | None = None
    stream: str | None = None
    batch: int | None = None
    creates: Creation | None = None
    statement: str | None = None
    sources: tuple[FrameSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunWrite:
    """A write that is under way, and what its writers need."""

    hold: Hold
    work: SharedStatement
    stores: StoreOptions = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWrite:
    """Asks to name and commit what the writers have staged; the answer is the number of rows.

    It is 0 for a batch of a stream that is already committed.
    """

    hold: Hold
    parts: tuple[WrittenPart, ...]
    batch: int | None = None  #: the number of the stream's batch
    query: str = ""  #: Spark's id of the streaming query


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginInserts:
    """Asks for a transaction that appends to several tables, or continues that of ``statement``."""

    place: MetastorePlace
    tables: tuple[str, ...]
    time_zone: str | None = None
    statement: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunInserts:
    """Appends to several tables that are under way, and what the writers need for each table."""

    hold: Hold
    works: tuple[SharedStatement, ...]
    stores: StoreOptions = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInserts:
    """Asks to name and commit what the writers have staged for each table.

    The answer is the number of rows.
    """

    hold: Hold
    parts: tuple[tuple[WrittenPart, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortWrite:
    """Asks to abort a write; the answer says whether it was under way."""

    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStream:
    """Asks to abort the batch of a stream that is under way; the answer says whether there was one."""

    place: MetastorePlace
    table: str
    stream: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetStream:
    """Asks to forget a stream's batches into a table, and its query.

    The answer says whether any batch was known.
    """

    place: MetastorePlace
    table: str
    stream: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Precedes the answer: the keeper sends it before it begins to work on a request.

    Without it nothing was done.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginChange:
    """Asks for a transaction that updates, deletes or merges rows of a table; see ``Intent``."""

    place: MetastorePlace
    table: str
    deletes: bool = False
    assigns: tuple[str, ...] | None = None
    inserts: bool = False
    is_checked: bool | None = False  #: checks a merge's cardinality; None follows ``hive.merge.cardinality.check``
    time_zone: str | None = None  #: in which an instant becomes a timestamp of Hive
    reads: tuple[str, ...] = ()  #: other tables that the statement reads
    sources: tuple[FrameSource, ...] = ()  #: the tables that a merge's source reads, as far as they are known


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunChange:
    """A change that is under way, and what the statement needs to know about its table."""

    change: str  #: the name of the change
    columns: tuple[str, ...]  #: names of all columns, partition columns last
    types: tuple[str, ...]  #: Hive's types of all columns
    partition_keys: tuple[str, ...]
    bucket_columns: tuple[str, ...]
    is_checked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteChange:
    """Asks for what the writers of a change need; the answer is ``ChangeWork``."""

    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWork:
    """The table, files and stores that the writers of a change need."""

    change: str
    work: SharedChange
    stores: StoreOptions = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """Asks to name and commit what the writers of a change have staged."""

    change: str
    parts: tuple[ChangedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortChange:
    """Asks to abort a change, a statement or its write; the answer says whether it was under way."""

    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """Asks for the row counts of a committed change. They can be read once."""

    change: str


Request: TypeAlias = (
    PlanScan
    | LatestCommits
    | CheckSnapshot
    | OpenSnapshot
    | Release
    | ReadersOf
    | Active
    | BeginStatement
    | Renew
    | BeginWrite
    | CommitWrite
    | BeginInserts
    | CommitInserts
    | AbortWrite
    | AbortStream
    | ForgetStream
    | BeginChange
    | WriteChange
    | CommitChange
    | AbortChange
    | CountChange
)

#: The type of the answer to each request, if it is not an error.
ANSWERS: Mapping[type, type] = {
    PlanScan: PlannedScan,
    LatestCommits: SeenCommits,
    CheckSnapshot: NoneType,
    OpenSnapshot: str,
    Release: int,
    ReadersOf: TableReaders,
    Active: NoneType,
    BeginStatement: str,
    Renew: bool,
    BeginWrite: BegunWrite,
    CommitWrite: int,
    BeginInserts: BegunInserts,
    CommitInserts: int,
    AbortWrite: bool,
    AbortStream: bool,
    ForgetStream: bool,
    BeginChange: BegunChange,
    WriteChange: ChangeWork,
    CommitChange: NoneType,
    AbortChange: bool,
    CountChange: Changed,
}
