"""Every error that Compactor raises on purpose, as one tree.

Few places catch them. The passes of the roles catch ``CompactorError`` for each entry, record it and continue with the next
entry. ``cli`` and ``airflow`` print the message and choose the exit code. Each message names the thing, what was found, what
was expected and what to do. An error outside this tree is a bug, or a library failed on a stranger's file. ``failing_alone``
limits such an error to the entry where it happened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from compactor.base.printable import printable
from compactor.base.redaction import redact

log = logging.getLogger(__name__)


class CompactorError(Exception):
    """An error that a person can act on.

    Its text is one line, without secrets and safe to store and print.
    """

    def __str__(self) -> str:
        return printable(redact(super().__str__()))


class Refused(CompactorError):
    """A valid request is not carried out: it is not allowed, has nothing to do, or is a duplicate."""


class NotFound(Refused):
    """A database, table, partition, transaction or queue entry does not exist."""


class BadSetting(CompactorError):
    """A setting is unknown, or its value is not valid for its unit."""


class BadName(CompactorError):
    """A file or directory in an ACID table has a name that no writer of Hive tables uses."""


class BadFile(CompactorError):
    """A file cannot be read: it is truncated, not ORC, has a foreign schema, or is gone."""


class FileGone(BadFile):
    """A listed file no longer exists. Its reader lists again, or has lost its snapshot."""


class UnforeseenKeys(BadFile):
    """A stripe's keys differ from those that its statistics imply; all keys must be read."""


class NotLossless(CompactorError):
    """A rewrite would lose something (encryption, unknown kinds, ACID v1 events); nothing was touched."""


class VerificationFailed(CompactorError):
    """An output does not hold exactly the rows that its inputs show; nothing was published."""


class NotEnoughHistory(CompactorError):
    """A snapshot is older than the oldest remaining base, so its rows can no longer be read."""


class SnapshotExpired(CompactorError):
    """The snapshot of a transaction can no longer be read.

    It ended, timed out or grew too old, or one of its files is gone.
    """


class ChangesGone(CompactorError):
    """Changes of a table since a version can no longer be proved complete.

    They are complete since ``first_version``.
    """

    def __init__(self, message: str, first_version: int) -> None:
        super().__init__(message, first_version)
        self.first_version = first_version

    def __str__(self) -> str:
        return printable(redact(str(self.args[0])))


class BadExpression(Refused):
    """A filter's text violates its grammar, or compares types that cannot be compared.

    The message has the position in the text.
    """


class BadStatement(Refused):
    """A text is not one of the supported statements, or is incomplete. Nothing was done.

    The message has the position in the text.
    """


class NotConforming(CompactorError):
    """A value or a column cannot be converted to the table's type without loss."""


class Disagreement(Refused):
    """The files of a table and its metastore contradict each other.

    Nothing is done there until a person decides.
    """


class MirrorStopped(Refused):
    """A mirror cannot continue until a person decides; its table in the Iceberg catalog is as it was."""


class MirrorOvertaken(MirrorStopped):
    """Another pass committed to the same mirror first; the next one continues from there."""


class LostClaim(CompactorError):
    """The queue entry or its transaction now belongs to another process.

    The former holder stops without a trace.
    """


class CommitUnknown(CompactorError):
    """The answer to a commit was lost. Nothing is removed before TXNS has been read."""


class TransactionAborted(CompactorError):
    """The transaction was aborted (by a timeout, a write conflict, or by hand)."""


class WriteConflict(TransactionAborted):
    """Another transaction changed the same place and committed first; ``winner`` is its id."""

    def __init__(self, message: str, winner: int) -> None:
        super().__init__(message, winner)
        self.winner = winner

    def __str__(self) -> str:
        return printable(redact(str(self.args[0])))


class TransactionTimedOut(TransactionAborted):
    """The transaction had no heartbeat for ``hive.txn.timeout``, and was aborted."""


class LockLost(CompactorError):
    """A granted lock was lost, so the data that it protected is unprotected."""


class LockNotGranted(CompactorError):
    """Another transaction still held a conflicting lock when the waiting time ended."""


class NotSupported(CompactorError):
    """A known case that this release does not handle; the message says what to do instead."""


class CompactionFailed(CompactorError):
    """A compaction that a program requested and awaited was refused, failed or was aborted."""


class Unforeseen(CompactorError):
    """A candidate, entry or partition met an unexpected error, possibly a bug in Compactor.

    The log has the trace.
    """


class StorageError(CompactorError):
    """The file system failed: permission denied, disk full, or a path that has changed."""


class AccessDenied(StorageError):
    """The file system denies this user the operation."""


class UnsafeDirectory(StorageError, Refused):
    """A directory holds something that we do not read or remove.

    That is a link, pipe, socket or device, a name that is not UTF-8, or too many entries or levels.
    """


class ForeignProcess(Refused):
    """A process of another user is at the other end of a local socket.

    Nothing was sent to it or read from it.
    """


class BadMessage(Refused):
    """A message between processes is unknown, damaged, too long or too deep; nothing was done."""


class UnnamedPlace(StorageError, Refused):
    """A location leads to a host, account or bucket that the configuration does not name.

    Nothing was sent there.
    """


class DatabaseUnavailable(CompactorError):
    """The metastore or state database cannot be reached, or refuses a statement."""


class TryAgain(DatabaseUnavailable):
    """The database rolled a transaction back in favour of another, or went away during it.

    Nothing happened; retry it.
    """


class CatalogUnavailable(CompactorError):
    """An Iceberg catalog cannot be reached, or refuses a request; a mirror's next pass tries again."""


class LocksUnavailable(CompactorError):
    """The ZooKeeper with the locks cannot be reached, or refuses a request."""


class LaunchFailed(CompactorError):
    """A cluster refused an application, or it ended before its batch was done; its requests wait again."""


class ClusterUnavailable(CompactorError):
    """The cluster manager does not answer about an application, or does not end it."""


@contextmanager
def failing_alone(what: object) -> Iterator[None]:
    """Turns any error for one candidate, entry or partition into an error of this tree (PROTOCOL 10).

    The caller records it as the failure of that one, and continues with the others.

    Args:
        what: the candidate, entry or partition, for the message.

    Raises:
        CompactorError: the same error, or ``Unforeseen`` for an error outside this tree, with the trace in the log.
    """
    try:
        yield
    except CompactorError:
        raise
    except Exception as error:
        raise failure_of(what, error) from error


def failure_of(what: object, error: Exception) -> CompactorError:
    """Returns ``error`` as an error of this tree.

    ``failing_alone`` does the same, but is too slow for millions of rows.
    """
    if isinstance(error, CompactorError):
        return error
    log.error("%s: an unforeseen error", what, exc_info=error)
    return Unforeseen(
        f"{what}: {type(error).__name__}: {error}; this error was not expected here, and nothing else is held up by it; "
        "please report it with the trace in the log"
    )
