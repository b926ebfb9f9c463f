"""The requests to a keeper, and its answers: plain values between processes of one user on one host. They travel as
``message_format`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TypeAlias

import pyarrow as pa

from compactor.spark_tables.application import Process
from compactor.storage.store_options import StoreOptions
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.writing.row_change import Changed
from compactor.tables.writing.shared_statement import SharedChange, SharedStatement
from compactor.tables.writing.written_part import ChangedPart, WrittenPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The metastore that is meant, as ``open_metastore`` takes it, and the name of the application that asks."""

    metastore: str = "default"
    config: str | None = None
    application: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """The past of a table that a stream has seen: the table's id, and its valid write-id list as Hive writes it."""

    table_id: int
    write_ids: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """A table that a DataFrame reads, and the commits of it that its snapshot sees."""

    metastore: str
    config: str | None
    table: str
    commits: Commits
    snapshot: str  #: its name, as ``Hold`` has it


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestCommits:
    """Asks for the ``Commits`` that a table has now."""

    place: Place
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScan:
    """Asks for the plan of a scan; under the ``snapshot`` that ``OpenSnapshot`` named, else under one of its own. With
    ``between`` only of the rows that came after the first of these and up to the second. The snapshot is let go when the
    process ``reader`` ends, which Spark may kill."""

    place: Place
    table: str
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None
    where: str | None = None  #: a condition that Spark evaluates: what cannot meet it need not be read
    row_ids: bool = False
    snapshot: str | None = None
    change: str | None = None  #: that ``BeginChange`` named: its rows are found with their ROW__IDs and files
    within: str | None = None  #: a change or statement that reads the table, under its locks and snapshot
    between: tuple[Commits, Commits] | None = None
    reader: Process | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A transaction that the keeper holds. ``name`` is unique: transactions of two metastores may have one number."""

    name: str
    txn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """A plan, and what executors need besides. ``padded`` are the columns whose trailing blanks do not count in filters;
    with ``has_files`` each row comes with the file that holds it. ``shown`` is the schema that Spark sees where the plan's
    has timestamps in parts: rows have both then, so that what stays as it is keeps every digit."""

    hold: Hold
    plan: ScanPlan
    stores: StoreOptions = field(repr=False)
    table_id: int
    padded: tuple[str, ...] = ()
    has_files: bool = False
    shown: pa.Schema | None = None

    @property
    def without_tasks(self) -> PlannedScan:
        """The same without its files, of which each executor is given its own."""
        return replace(self, plan=replace(self.plan, tasks=()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSnapshot:
    """Asks for an error if the snapshot of a transaction is no longer protected."""

    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSnapshot:
    """Asks for a snapshot that several scans may see; answered by its name. It is held until it is released, or, where it
    ``is_of_frames``, until no frame needs it."""

    place: Place
    is_of_frames: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Asks that a snapshot that has a name, or with None each that is held, is let go; answered by their number."""

    snapshot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersOf:
    """Asks for the ``Readers`` of a table."""

    place: Place
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The transactions of this application that still read a table."""

    txns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """Says that the program of an application is at work, so that the snapshots of its frames are held on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A table that is created with the rows that are written into it: its columns with Hive's types, in their order, and
    those of ``partitioned_by`` among them."""

    columns: tuple[tuple[str, str], ...]
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    buckets: int = 0
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginStatement:
    """Asks for a transaction in which a query is read and its rows are written, with the locks of all of its tables in one
    request; answered by its name. ``targets`` are written into: overwritten, if there is one and ``overwrites`` says so."""

    place: Place
    targets: tuple[str, ...] = ()
    overwrites: bool = False
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Says that the program of a statement or change is at work; answered by whether it is under way."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginWrite:
    """Asks for a transaction that appends to a table, or overwrites it.

    Attributes:
        statement: the one that has begun the transaction; without it, another one is opened.
        sources: the tables that the rows are known to be read from.
        stream: the name of the stream whose batch is written. One of the same stream into this table that is under way is
            ended: it is tried again.
        batch: the batch's number, if it is known already.
        creates: the table, which comes with the commit; None for one that is there.
    """

    place: Place
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
    """Asks that what the writers have staged is named and committed; answered by the number of rows. ``batch`` is that of a
    stream; one that is committed already has none."""

    hold: Hold
    parts: tuple[WrittenPart, ...]
    batch: int | None = None
    query: str = ""  #: Spark's id of the query whose batch it is


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginInserts:
    """Asks for a transaction that appends to several tables, or for the one that ``statement`` has begun."""

    place: Place
    tables: tuple[str, ...]
    time_zone: str | None = None
    statement: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunInserts:
    """Appends to several tables that are under way, and what their writers need for each."""

    hold: Hold
    works: tuple[SharedStatement, ...]
    stores: StoreOptions = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInserts:
    """Asks that what the writers have staged for each table is named and committed; answered by the number of rows."""

    hold: Hold
    parts: tuple[tuple[WrittenPart, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortWrite:
    """Asks that a write ends without a trace; answered by whether it was under way."""

    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortStream:
    """Asks that the batch of a stream that is under way ends without a trace; answered by whether there was one."""

    place: Place
    table: str
    stream: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetStream:
    """Asks that the batches of a stream into a table, and whose it is, are forgotten; answered by whether any were known."""

    place: Place
    table: str
    stream: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Sent before the work on a request begins, and its answer after it: without this nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginChange:
    """Asks for a transaction that updates, deletes or merges rows of a table; see ``Intent``.

    ``is_checked`` is None for what ``hive.merge.cardinality.check`` says; a statement that matches nothing needs no check.
    """

    place: Place
    table: str
    deletes: bool = False
    assigns: tuple[str, ...] | None = None
    inserts: bool = False
    is_checked: bool | None = False
    time_zone: str | None = None  #: in which an instant becomes a timestamp of Hive
    reads: tuple[str, ...] = ()  #: other tables that the statement reads
    sources: tuple[FrameSource, ...] = ()  #: the tables that a merge's source is known to be read from


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunChange:
    """A change that is under way, by its name, and what the statement needs to know of its table: the names of all columns
    and Hive's types of them, the names of partition columns, and of those by which rows are bucketed."""

    change: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    partition_keys: tuple[str, ...]
    bucket_columns: tuple[str, ...]
    is_checked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteChange:
    """Asks for what the writers of a change need; answered by ``ChangeWork``."""

    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWork:
    """The work of those who write a change."""

    change: str
    work: SharedChange
    stores: StoreOptions = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """Asks that what the writers of a change have staged is named and committed."""

    change: str
    parts: tuple[ChangedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortChange:
    """Asks that a change or statement ends without a trace, or the write that a statement became; answered by whether it
    was under way."""

    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """Asks, once, for the numbers of rows that a committed change has changed."""

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
    LatestCommits: Commits,
    CheckSnapshot: NoneType,
    OpenSnapshot: str,
    Release: int,
    ReadersOf: Readers,
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
