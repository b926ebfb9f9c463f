"""Every error that Compactor raises on purpose, as one tree.

Who catches what: ``service`` passes catch ``CompactorError`` per entry, record it and go on with the next one;
``cli`` and ``airflow`` print the message and choose the exit code; nothing else catches. Each message names the
thing, what was found, what was wanted and what to do. An error that is not in this tree is a bug.
"""

from __future__ import annotations


class CompactorError(Exception):
    """Something a person can act on."""


class Refused(CompactorError):
    """The request is understood and will not be done: not allowed, nothing to do, or a duplicate."""


class NotFound(Refused):
    """A database, table, partition, transaction or queue entry does not exist."""


class BadSetting(CompactorError):
    """A setting is unknown, or its value is not of its unit."""


class BadName(CompactorError):
    """A file or directory in an ACID table has a name that no writer of Hive tables gives."""


class BadFile(CompactorError):
    """A file cannot be read: truncated, not ORC, a foreign schema, or gone."""


class UnforeseenKeys(BadFile):
    """Keys of a stripe are not those that its statistics and the order of an ACID file make; all keys are to be read."""


class NotLossless(CompactorError):
    """Rewriting would lose something (encryption, unknown kinds, ACID v1 events); nothing was touched."""


class VerificationFailed(CompactorError):
    """An output does not hold exactly the rows that its inputs show; nothing was published."""


class NotEnoughHistory(CompactorError):
    """A snapshot is older than the oldest base that is left, so its rows cannot be read any more."""


class LostClaim(CompactorError):
    """The queue entry or its transaction belongs to somebody else by now; the holder stops without a trace."""


class CommitUnknown(CompactorError):
    """The answer of a commit was lost. Nobody removes anything before TXNS has been read."""


class TransactionAborted(CompactorError):
    """The transaction is aborted (timed out, a write conflict, or by hand)."""


class LockNotGranted(CompactorError):
    """A lock stands in the way and the time to wait for it is over."""


class NotSupported(CompactorError):
    """What was found is known and not handled by this release; the message says what to do instead."""


class Unforeseen(CompactorError):
    """A unit met an error that nobody thought of, a fault of ours perhaps; nothing was published, the log has its trace."""


class StorageError(CompactorError):
    """The file system failed: permission denied, disk full, or a path that is not what it was."""


class DatabaseUnavailable(CompactorError):
    """The metastore or state database cannot be reached, or refuses what was asked."""


class TryAgain(DatabaseUnavailable):
    """The database rolled a transaction back for another one's sake, or went away in it: nothing happened, repeat it."""


class LocksUnavailable(CompactorError):
    """The ZooKeeper that keeps the locks cannot be reached, or refuses what was asked."""
