"""Actions of statements: one class for each form of the closed list, with what the text specifies."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, TypeAlias

from compactor.locking.statement_rules import Access, Accessing, Name, Spec

Properties: TypeAlias = tuple[tuple[str, str], ...]
Columns: TypeAlias = tuple[tuple[str, str], ...]  #: names, each with Hive's type
Span: TypeAlias = tuple[int, int]  #: the start and the end of an expression for Spark in the whole text


class Explained(Accessing, Protocol):
    """A statement of which only the form and the locks are needed."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesLiteral:
    """A literal of VALUES; a number is a Decimal.

    ``word`` is DATE or TIMESTAMP if that introduces the text.
    """

    value: Decimal | str | bool | None
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCompactions:
    """SHOW COMPACTIONS with its filters; None matches all."""

    id: int | None = None
    schema: str | None = None
    table: Name | None = None
    partition: Spec | None = None
    pool: str | None = None
    type: str | None = None
    status: str | None = None
    order: str = ""
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLocks:
    """SHOW LOCKS of a database, a table, a partition, or of everything."""

    schema: str | None = None
    table: Name | None = None
    partition: Spec | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactions:
    """ABORT TRANSACTIONS."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCompactions:
    """ABORT COMPACTIONS."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """ALTER TABLE ... COMPACT."""

    table: Name
    partition: Spec | None = None
    type: str
    wait: bool = False
    buckets: int | None = None
    order_by: str | None = None
    pool: str | None = None
    properties: Properties = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainLocks:
    """EXPLAIN LOCKS of another statement."""

    explained: Explained


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """USE: sets the current database for the statements that follow."""

    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowDatabases:
    """SHOW DATABASES; ``like`` is a pattern of Hive, or None."""

    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """SHOW TABLES of a database; None means the current one."""

    database: str | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPartitions:
    """SHOW PARTITIONS: all, or the ones with the given values."""

    table: Name
    partition: Spec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """SHOW CREATE TABLE."""

    table: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE of a table; ``detailed`` for EXTENDED and FORMATTED."""

    table: Name
    detailed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE."""

    database: str
    if_not_exists: bool = False
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE."""

    database: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE of a full ACID table. ``columns`` exclude the columns of ``partitioned_by``.

    With ``like`` the table gets the definition of that table.
    """

    table: Name
    if_not_exists: bool = False
    columns: Columns = ()
    partitioned_by: Columns = ()
    clustered_by: tuple[str, ...] = ()
    buckets: int = 0
    location: str | None = None
    properties: Properties = ()
    like: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableAs:
    """CREATE TABLE … AS query. ``partitioned_by`` names columns of the query.

    ``select`` is the query if it runs without Spark. Otherwise ``because`` says which part needs Spark.
    """

    table: Name
    if_not_exists: bool = False
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    buckets: int = 0
    location: str | None = None
    properties: Properties = ()
    query: Query
    select: Select | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP TABLE."""

    table: Name
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """TRUNCATE TABLE, or of its partitions with the given values."""

    table: Name
    partition: Spec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """ALTER TABLE ... ADD PARTITION, each with the location that the text gives it, if any."""

    table: Name
    if_not_exists: bool = False
    partitions: tuple[tuple[Spec, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitions:
    """ALTER TABLE ... DROP PARTITION: drops each partition that has the values of one of ``partitions``."""

    table: Name
    if_exists: bool = False
    partitions: tuple[Spec, ...]
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """ALTER TABLE ... SET or UNSET TBLPROPERTIES; the value None removes a property."""

    table: Name
    properties: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable:
    """ALTER TABLE ... RENAME TO."""

    table: Name
    to: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    """ALTER TABLE ... ADD COLUMNS."""

    table: Name
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO or OVERWRITE ... VALUES.

    Without ``columns`` values are in the table's order, partition columns last.
    """

    table: Name
    overwrite: bool = False
    partition: Spec | None = None
    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[ValuesLiteral, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE. ``where`` is a filter of ``compactor.tables`` or None.

    ``condition`` is the same for Spark, where the table is called ``alias``. ``nested`` is the condition if it contains
    queries, which only Spark evaluates.
    """

    table: Name
    alias: str
    where: str | None = None
    condition: Span | None = None
    nested: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE. ``assignments`` have literals and column names as ``compactor.tables`` reads them.

    ``values`` are the same for Spark. See ``Delete`` for the condition.
    """

    table: Name
    alias: str
    assignments: tuple[tuple[str, str], ...]
    values: tuple[Span, ...]
    where: str | None = None
    condition: Span | None = None
    nested: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenMatched:
    """WHEN MATCHED THEN UPDATE SET or DELETE, which has no ``columns``."""

    condition: Span | None = None
    columns: tuple[str, ...] = ()
    values: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenNotMatched:
    """WHEN NOT MATCHED THEN INSERT.

    Without ``columns`` values are in the table's order, partition columns last.
    """

    condition: Span | None = None
    columns: tuple[str, ...] | None = None
    values: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """MERGE; ``source`` is a table or a query, and expressions call it ``source_alias``."""

    table: Name
    alias: str
    source: Name | Query
    source_alias: str
    on: Span
    clauses: tuple[WhenMatched | WhenNotMatched, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTransaction:
    """START TRANSACTION."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """COMMIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """ROLLBACK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """A table's name in a text, from ``start`` to ``end``; ``aliased`` is true if an alias follows.

    ``version`` is that of FOR SYSTEM_VERSION AS OF, which belongs to the name.
    """

    table: Name
    start: int
    end: int
    aliased: bool
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query: its pieces of the whole text, as starts and ends, and each place where it names a table."""

    pieces: tuple[tuple[int, int], ...]
    places: tuple[TablePlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """SELECT columns FROM one table. ``columns`` is None for all; ``count`` means SELECT count(*).

    ``as_of`` is the version of FOR SYSTEM_VERSION AS OF.
    """

    table: Name
    columns: tuple[str, ...] | None = None
    count: bool = False
    where: str | None = None
    limit: int | None = None
    as_of: int | None = None
    query: Query | None = None  #: the same for Spark


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertTarget:
    """The table that an INSERT ... SELECT writes into; see ``Insert``."""

    table: Name
    overwrite: bool = False
    partition: Spec | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsSpark:
    """A query or INSERT ... SELECT that Spark runs; ``because`` says which part needs Spark."""

    because: str
    query: Query
    into: InsertTarget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchInsert:
    """One of several INSERTs of a query.

    ``query`` is its SELECT, without FROM if ``MultiInsert.source`` is set.
    """

    into: InsertTarget
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiInsert:
    """FROM … INSERT … INSERT …

    ``source`` is the query after FROM, called ``alias``; it is evaluated once. It is None if FROM lists tables.
    """

    inserts: tuple[BranchInsert, ...]
    source: Query | None = None
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """LOAD DATA LOCAL INPATH; ``path`` is on the machine that runs the statement."""

    table: Name
    path: str
    overwrite: bool = False
    partition: Spec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A statement whose locks are known but which Compactor does not run; ``because`` says why."""

    because: str


Action: TypeAlias = (
    ShowCompactions
    | ShowTransactions
    | ShowLocks
    | AbortTransactions
    | AbortCompactions
    | Compact
    | ExplainLocks
    | Use
    | ShowDatabases
    | ShowTables
    | ShowPartitions
    | ShowCreateTable
    | Describe
    | CreateDatabase
    | DropDatabase
    | CreateTable
    | CreateTableAs
    | DropTable
    | TruncateTable
    | AddPartitions
    | DropPartitions
    | SetProperties
    | RenameTable
    | AddColumns
    | Insert
    | Delete
    | Update
    | MergeStatement
    | Select
    | StartTransaction
    | Commit
    | Rollback
    | NeedsSpark
    | MultiInsert
    | Load
    | NotRun
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a text.

    Attributes:
        name: the form, such as INSERT OVERWRITE or ALTER TABLE ADD COLUMNS.
        accesses: what the statement reads and changes; its locks follow from them.
        action: what the statement does.
        place: where its first character is, for messages.
        text: the statement as written.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    action: Action
    place: str = ""
    text: str = ""
