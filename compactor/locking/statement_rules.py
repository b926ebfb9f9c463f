"""Which statement does what to which object, and which lock Hive 4 takes for that: tables of data, read by ``plan``.

Hive: ``AcidUtils.makeLockComponents`` for the rules, ``WriteEntity.determineAlterTableWriteType`` and the analyzers for
the commands. ``Old`` is the table of locks of the manager without transactions (shared and exclusive only).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from compactor.locking.lock_types import LockType


class What(enum.Enum):
    """What a statement does to an object: Hive's ``WriteEntity.WriteType``, and reading."""

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
    """Hive's ``DataOperationType``: what becomes a row of TXN_COMPONENTS; SELECT and NO_TXN don't."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    NO_TXN = "no_txn"


class Old(enum.Enum):
    """What the manager without transactions locks exclusively; parents of it are locked shared."""

    TABLE = "X on the table"
    PARTITION = "S on the table, X on the partition"
    SHARED = "S on the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``lock`` (None is none) for ``what`` on a table, where all of ``when`` (settings and their values) hold.

    ``transactional`` None is any table.
    """

    what: What
    transactional: bool | None = None
    when: tuple[tuple[str, bool], ...] = ()
    lock: LockType | None
    operation: Operation


_LOCKLESS = "hive.acid.lockless.reads.enabled"
_XWRITE, _XIOW = "hive.txn.xlock.write", "hive.txn.xlock.iow"
_R, _W, _X, _E = LockType
_SELECT, _INSERT, _UPDATE, _DELETE, _NO_TXN = Operation

#: The first rule that fits decides.
RULES: tuple[Rule, ...] = (
    Rule(what=What.READ, when=(("hive.txn.read.locks", False),), lock=None, operation=_SELECT),
    Rule(what=What.READ, transactional=True, when=((_LOCKLESS, True),), lock=None, operation=_SELECT),
    Rule(
        what=What.READ,
        transactional=False,
        when=(("hive.txn.nonacid.read.locks", False),),
        lock=None,
        operation=_SELECT,
    ),
    Rule(what=What.READ, lock=_R, operation=_SELECT),
    Rule(what=What.INSERT, transactional=True, when=((_XWRITE, False),), lock=_W, operation=_INSERT),
    Rule(what=What.INSERT, transactional=True, when=((_LOCKLESS, True),), lock=_W, operation=_INSERT),
    Rule(what=What.INSERT, transactional=True, lock=_R, operation=_INSERT),
    Rule(what=What.INSERT, when=(("hive.txn.strict.locking.mode", True),), lock=_E, operation=_INSERT),
    Rule(what=What.INSERT, lock=_R, operation=_INSERT),
    Rule(
        what=What.MERGE_INSERT,
        transactional=True,
        when=(("hive.txn.xlock.mergeinsert", True), (_XWRITE, True)),
        lock=_X,
        operation=_UPDATE,
    ),
    Rule(
        what=What.MERGE_INSERT,
        transactional=True,
        when=(("hive.txn.xlock.mergeinsert", True),),
        lock=_W,
        operation=_UPDATE,
    ),
    Rule(what=What.MERGE_INSERT, transactional=True, when=((_XWRITE, False),), lock=_W, operation=_INSERT),
    Rule(what=What.MERGE_INSERT, transactional=True, when=((_LOCKLESS, True),), lock=_W, operation=_INSERT),
    Rule(what=What.MERGE_INSERT, transactional=True, lock=_R, operation=_INSERT),
    Rule(
        what=What.INSERT_OVERWRITE,
        transactional=True,
        when=((_XIOW, True), (_XWRITE, True), (_LOCKLESS, False)),
        lock=_E,
        operation=_UPDATE,
    ),
    Rule(what=What.INSERT_OVERWRITE, transactional=True, lock=_X, operation=_UPDATE),
    Rule(what=What.INSERT_OVERWRITE, lock=_E, operation=_NO_TXN),
    Rule(what=What.UPDATE, when=((_XWRITE, False),), lock=_W, operation=_UPDATE),
    Rule(what=What.UPDATE, lock=_X, operation=_UPDATE),
    Rule(what=What.DELETE, when=((_XWRITE, False),), lock=_W, operation=_DELETE),
    Rule(what=What.DELETE, lock=_X, operation=_DELETE),
    Rule(what=What.CTAS, when=(("hive.txn.xlock.ctas", False),), lock=None, operation=_NO_TXN),
    Rule(what=What.CTAS, transactional=True, lock=_X, operation=_INSERT),
    Rule(what=What.CTAS, lock=_E, operation=_NO_TXN),
    Rule(what=What.DDL_EXCLUSIVE, lock=_E, operation=_NO_TXN),
    Rule(what=What.DDL_EXCL_WRITE, lock=_X, operation=_NO_TXN),
    Rule(what=What.DDL_SHARED, lock=_R, operation=_NO_TXN),
    Rule(what=What.DDL_NO_LOCK, lock=None, operation=_NO_TXN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One form of ALTER TABLE or of another command, by the words that follow the object's name (or begin it).

    ``soft`` names the setting that makes ``what`` of a transactional table an EXCL_WRITE; with lockless reads it is
    one wherever ``lockless`` says so.
    """

    words: tuple[str, ...]
    what: What
    old: Old | None = Old.TABLE
    soft: str | None = None
    lockless: bool = True

    @property
    def name(self) -> str:
        return " ".join(self.words).upper()


_EXCLUSIVE, _SHARED, _NONE = What.DDL_EXCLUSIVE, What.DDL_SHARED, What.DDL_NO_LOCK


def _command(
    words: str, what: What, old: Old | None = Old.TABLE, soft: str | None = None, *, lockless: bool = True
) -> Command:
    return Command(words=tuple(words.split()), what=what, old=old, soft=soft, lockless=lockless)


#: ALTER TABLE name [PARTITION (...)] and these words; the longest that fits is meant.
ALTER: tuple[Command, ...] = (
    _command("add columns", _EXCLUSIVE),
    _command("replace columns", _EXCLUSIVE),
    _command("change", _EXCLUSIVE),
    _command("rename to", _EXCLUSIVE),
    _command("rename to partition", _EXCLUSIVE, Old.PARTITION, "hive.acid.renamepartition.makecopy"),
    _command("set fileformat", _EXCLUSIVE, Old.SHARED),
    _command("set serde", _EXCLUSIVE, Old.SHARED),
    _command("set serdeproperties", _SHARED, Old.SHARED),
    _command("unset serdeproperties", _EXCLUSIVE, Old.SHARED),
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
    _command("archive partition", _EXCLUSIVE, Old.PARTITION, lockless=False),
    _command("unarchive partition", _EXCLUSIVE, Old.PARTITION, lockless=False),
    _command("partition column", _EXCLUSIVE, lockless=False),
    _command("add partition", _SHARED, Old.PARTITION),
    _command("add if not exists partition", _SHARED, Old.PARTITION),
    _command("drop partition", _EXCLUSIVE, Old.PARTITION, "hive.acid.droppartition.usebase"),
    _command("drop if exists partition", _EXCLUSIVE, Old.PARTITION, "hive.acid.droppartition.usebase"),
    _command("exchange partition", _SHARED, Old.PARTITION),
    _command("update statistics", _SHARED, Old.SHARED),
    _command("touch", _NONE, Old.TABLE),
    _command("touch partition", _NONE, Old.PARTITION),
    _command("compact", _NONE, None),
)

TRUNCATE = _command("truncate table", _EXCLUSIVE, soft="hive.acid.truncate.usebase")
DROP_TABLE = _command("drop table", _EXCLUSIVE, soft="hive.acid.createtable.softdelete")
DROP_MATERIALIZED_VIEW = _command("drop materialized view", _EXCLUSIVE, soft="hive.acid.createtable.softdelete")
DROP_DATABASE = _command("drop database", _EXCLUSIVE)
MSCK = _command("msck", _EXCLUSIVE)
ANALYZE = _command("analyze table", _SHARED, Old.SHARED)
REWRITE = _command("alter materialized view", _EXCLUSIVE)
#: ALTER TABLE ... SET TBLPROPERTIES that names ``transactional`` makes the table another kind.
CONVERSION = _command("set tblproperties", _EXCLUSIVE)
