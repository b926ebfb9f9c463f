"""The lock rules of statements: what a statement accesses, and which lock each access takes in Hive."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from compactor.locking.lock_types import LockType

#: PARTITION (...): keys with their plain values, None for a key without a value.
Spec: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The name of a table or database in a statement. ``database`` None is the current one."""

    database: str | None = None
    table: str

    def __str__(self) -> str:
        return self.table if self.database is None else f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of a statement to an object.

    Attributes:
        name: its ``table`` is empty if the object is a database.
        partition: the PARTITION clause.
        where: columns and the values that the condition of a row change or query requires.
        makes: whether the table to create will be transactional; None if the statement creates no table.
        moves: true if rows may move to other partitions.
        cascades: true if the contents of a database are dropped too.
    """

    kind: AccessKind
    name: Name
    partition: Spec | None = None
    where: tuple[tuple[str, str], ...] = ()
    command: Command | None = None
    makes: bool | None = None
    moves: bool = False
    cascades: bool = False

    @property
    def is_database(self) -> bool:
        return not self.name.table


class Accessing(Protocol):
    """A parsed statement, as far as its locks depend on it."""

    @property
    def accesses(self) -> Sequence[Access]: ...


class AccessKind(enum.Enum):
    """The kind of access to an object: Hive's ``WriteEntity.WriteType``, and reading."""

    READ = "read"
    INSERT = "insert"
    MERGE_INSERT = "insert branch of merge"
    INSERT_OVERWRITE = "insert overwrite"
    UPDATE = "update"
    DELETE = "delete"
    CTAS = "create table as"
    DDL_EXCLUSIVE = "exclusive change"
    DDL_EXCL_WRITE = "change beside readers"
    DDL_SHARED = "shared change"
    DDL_NO_LOCK = "change without a lock"


class Operation(enum.Enum):
    """Hive's ``DataOperationType``, stored in TXN_COMPONENTS except for SELECT and NO_TXN."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    NO_TXN = "no_txn"


class OldLock(enum.Enum):
    """The object that the manager without transactions locks exclusively; it locks the parents shared."""

    TABLE = "X on the table"
    PARTITION = "S on the table, X on the partition"
    SHARED = "S on the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The ``lock`` that ``kind`` takes if the settings have the values in ``when``; None for no lock.

    ``transactional`` None means any table.
    """

    kind: AccessKind
    transactional: bool | None = None
    when: tuple[tuple[str, bool], ...] = ()
    lock: LockType | None
    operation: Operation


_LOCKLESS = "hive.acid.lockless.reads.enabled"
_XWRITE, _XIOW = "hive.txn.xlock.write", "hive.txn.xlock.iow"
_R, _W, _X, _E = LockType
_SELECT, _INSERT, _UPDATE, _DELETE, _NO_TXN = Operation

#: The first rule that applies decides.
RULES: tuple[Rule, ...] = (
    Rule(kind=AccessKind.READ, when=(("hive.txn.read.locks", False),), lock=None, operation=_SELECT),
    Rule(kind=AccessKind.READ, transactional=True, when=((_LOCKLESS, True),), lock=None, operation=_SELECT),
    Rule(
        kind=AccessKind.READ,
        transactional=False,
        when=(("hive.txn.nonacid.read.locks", False),),
        lock=None,
        operation=_SELECT,
    ),
    Rule(kind=AccessKind.READ, lock=_R, operation=_SELECT),
    Rule(kind=AccessKind.INSERT, transactional=True, when=((_XWRITE, False),), lock=_W, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, transactional=True, when=((_LOCKLESS, True),), lock=_W, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, transactional=True, lock=_R, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, when=(("hive.txn.strict.locking.mode", True),), lock=_E, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, lock=_R, operation=_INSERT),
    Rule(
        kind=AccessKind.MERGE_INSERT,
        transactional=True,
        when=(("hive.txn.xlock.mergeinsert", True), (_XWRITE, True)),
        lock=_X,
        operation=_UPDATE,
    ),
    Rule(
        kind=AccessKind.MERGE_INSERT,
        transactional=True,
        when=(("hive.txn.xlock.mergeinsert", True),),
        lock=_W,
        operation=_UPDATE,
    ),
    Rule(kind=AccessKind.MERGE_INSERT, transactional=True, when=((_XWRITE, False),), lock=_W, operation=_INSERT),
    Rule(kind=AccessKind.MERGE_INSERT, transactional=True, when=((_LOCKLESS, True),), lock=_W, operation=_INSERT),
    Rule(kind=AccessKind.MERGE_INSERT, transactional=True, lock=_R, operation=_INSERT),
    Rule(
        kind=AccessKind.INSERT_OVERWRITE,
        transactional=True,
        when=((_XIOW, True), (_XWRITE, True), (_LOCKLESS, False)),
        lock=_E,
        operation=_UPDATE,
    ),
    Rule(kind=AccessKind.INSERT_OVERWRITE, transactional=True, lock=_X, operation=_UPDATE),
    Rule(kind=AccessKind.INSERT_OVERWRITE, lock=_E, operation=_NO_TXN),
    Rule(kind=AccessKind.UPDATE, when=((_XWRITE, False),), lock=_W, operation=_UPDATE),
    Rule(kind=AccessKind.UPDATE, lock=_X, operation=_UPDATE),
    Rule(kind=AccessKind.DELETE, when=((_XWRITE, False),), lock=_W, operation=_DELETE),
    Rule(kind=AccessKind.DELETE, lock=_X, operation=_DELETE),
    Rule(kind=AccessKind.CTAS, when=(("hive.txn.xlock.ctas", False),), lock=None, operation=_NO_TXN),
    Rule(kind=AccessKind.CTAS, transactional=True, lock=_X, operation=_INSERT),
    Rule(kind=AccessKind.CTAS, lock=_E, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_EXCLUSIVE, lock=_E, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_EXCL_WRITE, lock=_X, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_SHARED, lock=_R, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_NO_LOCK, lock=None, operation=_NO_TXN),
)

#: The rules of Hive 3.1 (its AcidUtils.makeLockComponents): W is its semi-shared lock, which excludes itself.
RULES_OF_HIVE_3: tuple[Rule, ...] = (
    Rule(kind=AccessKind.READ, lock=_R, operation=_SELECT),
    Rule(kind=AccessKind.INSERT, transactional=True, lock=_R, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, when=(("hive.txn.strict.locking.mode", True),), lock=_E, operation=_INSERT),
    Rule(kind=AccessKind.INSERT, lock=_R, operation=_INSERT),
    Rule(kind=AccessKind.MERGE_INSERT, lock=_R, operation=_INSERT),
    Rule(kind=AccessKind.INSERT_OVERWRITE, transactional=True, when=((_XIOW, True),), lock=_E, operation=_UPDATE),
    Rule(kind=AccessKind.INSERT_OVERWRITE, transactional=True, lock=_W, operation=_UPDATE),
    Rule(kind=AccessKind.INSERT_OVERWRITE, lock=_E, operation=_NO_TXN),
    Rule(kind=AccessKind.UPDATE, lock=_W, operation=_UPDATE),
    Rule(kind=AccessKind.DELETE, lock=_W, operation=_DELETE),
    Rule(kind=AccessKind.CTAS, lock=None, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_EXCLUSIVE, lock=_E, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_SHARED, lock=_R, operation=_NO_TXN),
    Rule(kind=AccessKind.DDL_NO_LOCK, lock=None, operation=_NO_TXN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveRules:
    """The rules of one line of Hive.

    ``softens`` is true for Hive 4 only. By settings it weakens the locks of commands that leave old files to the
    cleaner, reads without locks, and locks external tables.
    """

    rules: tuple[Rule, ...]
    softens: bool


HIVE_4 = HiveRules(rules=RULES, softens=True)
HIVE_3 = HiveRules(rules=RULES_OF_HIVE_3, softens=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One form of ALTER TABLE or of another command.

    The words after the object's name, or the first words, tell the form.

    ``softened_by`` names the setting that turns ``kind`` into an EXCL_WRITE for a transactional table; with lockless
    reads ``lockless`` alone does.
    """

    words: tuple[str, ...]
    kind: AccessKind
    old_lock: OldLock | None = OldLock.TABLE
    softened_by: str | None = None
    lockless: bool = True

    @property
    def name(self) -> str:
        return " ".join(self.words).upper()


_EXCLUSIVE, _SHARED, _NONE = AccessKind.DDL_EXCLUSIVE, AccessKind.DDL_SHARED, AccessKind.DDL_NO_LOCK


def _command(
    words: str,
    kind: AccessKind,
    old_lock: OldLock | None = OldLock.TABLE,
    softened_by: str | None = None,
    *,
    lockless: bool = True,
) -> Command:
    return Command(words=tuple(words.split()), kind=kind, old_lock=old_lock, softened_by=softened_by, lockless=lockless)


#: ALTER TABLE name [PARTITION (...)] followed by these words; the longest match wins.
ALTER: tuple[Command, ...] = (
    _command("add columns", _EXCLUSIVE),
    _command("replace columns", _EXCLUSIVE),
    _command("change", _EXCLUSIVE),
    _command("rename to", _EXCLUSIVE),
    _command("rename to partition", _EXCLUSIVE, OldLock.PARTITION, "hive.acid.renamepartition.makecopy"),
    _command("set fileformat", _EXCLUSIVE, OldLock.SHARED),
    _command("set serde", _EXCLUSIVE, OldLock.SHARED),
    _command("set serdeproperties", _SHARED, OldLock.SHARED),
    _command("unset serdeproperties", _EXCLUSIVE, OldLock.SHARED),
    _command("set tblproperties", _SHARED),
    _command("unset tblproperties", _EXCLUSIVE),
    _command("set owner", _EXCLUSIVE),
    _command("set location", _EXCLUSIVE, lockless=False),
    _command("set skewed location", _EXCLUSIVE, lockless=False),
    _command("clustered by", _EXCLUSIVE),
    _command("not clustered", _EXCLUSIVE),
    _command("not sorted", _EXCLUSIVE),
    _command("into", _EXCLUSIVE),
    _command("skewed by", _EXCLUSIVE),
    _command("not skewed", _EXCLUSIVE),
    _command("add constraint", _EXCLUSIVE),
    _command("drop constraint", _EXCLUSIVE),
    _command("concatenate", _EXCLUSIVE, lockless=False),
    _command("archive partition", _EXCLUSIVE, OldLock.PARTITION, lockless=False),
    _command("unarchive partition", _EXCLUSIVE, OldLock.PARTITION, lockless=False),
    _command("partition column", _EXCLUSIVE, lockless=False),
    _command("add partition", _SHARED, OldLock.PARTITION),
    _command("add if not exists partition", _SHARED, OldLock.PARTITION),
    _command("drop partition", _EXCLUSIVE, OldLock.PARTITION, "hive.acid.droppartition.usebase"),
    _command("drop if exists partition", _EXCLUSIVE, OldLock.PARTITION, "hive.acid.droppartition.usebase"),
    _command("exchange partition", _SHARED, OldLock.PARTITION),
    _command("update statistics", _SHARED, OldLock.SHARED),
    _command("touch", _NONE, OldLock.TABLE),
    _command("touch partition", _NONE, OldLock.PARTITION),
    _command("compact", _NONE, None),
)

TRUNCATE = _command("truncate table", _EXCLUSIVE, softened_by="hive.acid.truncate.usebase")
DROP_TABLE = _command("drop table", _EXCLUSIVE, softened_by="hive.acid.createtable.softdelete")
DROP_MATERIALIZED_VIEW = _command("drop materialized view", _EXCLUSIVE, softened_by="hive.acid.createtable.softdelete")
DROP_DATABASE = _command("drop database", _EXCLUSIVE)
MSCK = _command("msck", _EXCLUSIVE)
ANALYZE = _command("analyze table", _SHARED, OldLock.SHARED)
REWRITE = _command("alter materialized view", _EXCLUSIVE)
#: ALTER TABLE ... SET TBLPROPERTIES with ``transactional`` converts the table to another kind.
CONVERSION = _command("set tblproperties", _EXCLUSIVE)
