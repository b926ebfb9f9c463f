"""Every error that Compactor raises on purpose, as one tree.

They are caught in few places: the passes of the roles catch ``CompactorError`` per entry, record it and go on with
the next one; ``cli`` and ``airflow`` print the message and choose the exit code; nothing else catches. Each message
names the thing, what was found, what was wanted and what to do. An error that is not in this tree is a bug, or a stranger's
files made a library stumble; ``failing_alone`` keeps either from ending more than the one thing that it belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from compactor.base.printable import printable
from compactor.base.redaction import redact

log = logging.getLogger(__name__)


class CompactorError(Exception):
    """An error that a person can act on. Its text is one line that can be stored and printed anywhere, whatever bytes a
    name in it has, and without secrets."""

    def __str__(self) -> str:
        return printable(redact(super().__str__()))


class Refused(CompactorError):
    """A request is understood but will not be carried out: it isn't allowed, has nothing to do, or is a duplicate."""


class NotFound(Refused):
    """A database, table, partition, transaction or queue entry does not exist."""


class BadSetting(CompactorError):
    """A setting is unknown, or its value is not valid for its unit."""


class BadName(CompactorError):
    """A file or directory in an ACID table has a name that no writer of Hive tables uses."""


class BadFile(CompactorError):
    """A file cannot be read: it is truncated, not ORC, has a foreign schema, or is gone."""


class FileGone(BadFile):
    """A file that was listed is not there any longer; who listed it lists again, or has lost its snapshot."""


class UnforeseenKeys(BadFile):
    """A stripe's keys differ from those that its statistics and an ACID file's order imply; all keys must be read."""


class NotLossless(CompactorError):
    """A rewrite would lose something (encryption, unknown kinds, ACID v1 events); nothing was touched."""


class VerificationFailed(CompactorError):
    """An output does not hold exactly the rows that its inputs show; nothing was published."""


class NotEnoughHistory(CompactorError):
    """A snapshot is older than the oldest remaining base, so its rows can no longer be read."""


class SnapshotExpired(CompactorError):
    """The snapshot of a transaction can no longer be read: it ended, timed out, grew too old, or a file is gone."""


class BadExpression(Refused):
    """A filter's text is not of its grammar, or compares what cannot be compared; the message has the place."""


class BadStatement(Refused):
    """A text is no statement of the list, or breaks off; the message has the place. Nothing of it was done."""


class NotConforming(CompactorError):
    """A value or a column cannot be made one of the table's without loss."""


class Disagreement(Refused):
    """The files of a table and its metastore contradict each other; nothing is done there until a person has looked."""


class LostClaim(CompactorError):
    """The queue entry or its transaction now belongs to another process; the former holder stops without a trace."""


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
    """A lock that was granted is no longer held, so nothing protects what it was taken for."""


class LockNotGranted(CompactorError):
    """A conflicting lock was still held when the time to wait for it ran out."""


class NotSupported(CompactorError):
    """A known case that this release does not handle; the message says what to do instead."""


class CompactionFailed(CompactorError):
    """A compaction that a program asked for and waited for was refused, failed or was aborted."""


class Unforeseen(CompactorError):
    """A candidate, entry or partition met an unexpected error, possibly a bug in Compactor; the log has the trace."""


class StorageError(CompactorError):
    """The file system failed: permission denied, disk full, or a path that has changed."""


class AccessDenied(StorageError):
    """The file system knows this user, and does not let it do that."""


class UnsafeDirectory(StorageError, Refused):
    """A directory holds what is neither followed nor opened (a link, pipe, socket or device, a name that is no UTF-8), or
    more entries or levels than a listing may have; nothing is done there."""


class ForeignProcess(Refused):
    """A process of another user is at the other end of a local socket; nothing was sent to it or read from it."""


class BadMessage(Refused):
    """A message between processes is not one of the list, or is damaged, too long or too deep; nothing was done."""


class UnnamedPlace(StorageError, Refused):
    """A location leads to a host, account or bucket that the configuration does not name; nothing was sent there."""


class DatabaseUnavailable(CompactorError):
    """The metastore or state database cannot be reached, or refuses a statement."""


class TryAgain(DatabaseUnavailable):
    """The database rolled a transaction back in favour of another, or went away during it: nothing happened, retry it."""


class LocksUnavailable(CompactorError):
    """The ZooKeeper that keeps the locks cannot be reached, or refuses a request."""


class LaunchFailed(CompactorError):
    """An application was refused by its cluster, or ended before it had done its batch; its requests wait again."""


class ClusterUnavailable(CompactorError):
    """The cluster manager cannot be asked about an application, or does not obey."""


@contextmanager
def failing_alone(what: object) -> Iterator[None]:
    """Turns whatever is raised for one candidate, entry or partition into an error of this tree, which the caller records as
    that one's failure; then it goes on with the others (PROTOCOL 10).

    Args:
        what: names it.

    Raises:
        CompactorError: as it was raised, or ``Unforeseen`` for anything else, with the trace in the log.
    """
    try:
        yield
    except CompactorError:
        raise
    except Exception as error:
        raise failure_of(what, error) from error


def failure_of(what: object, error: Exception) -> CompactorError:
    """Returns ``error`` as an error of this tree; see ``failing_alone``, which is too slow for millions of rows."""
    if isinstance(error, CompactorError):
        return error
    log.error("%s: an unforeseen error", what, exc_info=error)
    return Unforeseen(
        f"{what}: {type(error).__name__}: {error}; this error was not expected here, and nothing else is held up by it; "
        "please report it with the trace in the log"
    )
