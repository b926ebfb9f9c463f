"""Asks the keeper of this application, and starts it for the first request."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from compactor.base.errors import (
    BadMessage,
    CommitUnknown,
    CompactorError,
    SnapshotExpired,
    StorageError,
    TransactionAborted,
)
from compactor.rewrite.run.failure import Failure, to_error
from compactor.spark_tables.application import Process, driver
from compactor.spark_tables.folder import Folder
from compactor.spark_tables.message_format import decode, encode
from compactor.spark_tables.messages import (
    ANSWERS,
    AbortChange,
    AbortStream,
    AbortWrite,
    Active,
    BeginInserts,
    BeginWrite,
    CheckSnapshot,
    CommitChange,
    CommitInserts,
    CommitWrite,
    CountChange,
    PlanScan,
    Readers,
    ReadersOf,
    Release,
    Renew,
    Request,
    Taken,
    WriteChange,
)
from compactor.spark_tables.wire import KeeperConnection, connect

_ENTRY = "compactor.spark_tables.keeper"
_STARTED: list[subprocess.Popen[bytes]] = []  #: keepers outlive whoever started them, so nobody waits for their end
#: of these another keeper than the one that has begun knows nothing
_LATER = (
    *(CheckSnapshot, Release, ReadersOf, Active, CommitWrite, CommitInserts, AbortWrite, AbortStream),
    *(WriteChange, CommitChange, AbortChange, CountChange, Renew),
)
_ATTEMPTS = 3  #: a keeper that has nothing to hold ends, perhaps just now


def _goes_on(request: Request) -> bool:
    """Returns true for a scan or write of a statement that has begun."""
    match request:
        case PlanScan(change=change, within=within):
            return (change or within) is not None
        case BeginWrite(statement=statement) | BeginInserts(statement=statement):
            return statement is not None
    return False


class _NotTaken(EOFError):
    """No keeper has begun the work on a request."""


class Keeper:
    """The keeper of one application, which need not run yet."""

    def __init__(self, application: Process | None = None, folder: Folder | None = None) -> None:
        self._application = application or driver()
        self._folder = folder or Folder(self._application)

    def ask(self, request: Request) -> Any:
        """Returns the keeper's answer, after starting it if it does not run and the request needs no earlier one.

        Raises:
            CompactorError: the one that it answered with.
            SnapshotExpired: a snapshot is asked for that it does not hold, since it was killed.
            TransactionAborted, CommitUnknown: the same for a commit; of the latter nobody knows what became.
            StorageError: it cannot be started; its log says why.
            UnsafeDirectory: another user could put something in the place of its folder.
            ForeignProcess: another user's process listens in its place.
            BadMessage: the request or the answer is too long, or the answer is none that the request has.
        """
        data = encode(request)
        is_later = isinstance(request, _LATER) or _goes_on(request)
        answer = self._ask_running(request, data) if is_later else self._ask_any(request, data)
        if isinstance(answer, Failure):
            raise to_error(answer)
        return answer

    def _ask_any(self, request: Request, data: bytes) -> Any:
        for _ in range(_ATTEMPTS):
            try:
                return _answer(self._connected(), request, data)
            except (EOFError, OSError):  # what it planned or began is lost with it
                continue
        raise StorageError(f"the keeper ends whenever it is asked; see {self._folder.log}")

    def _ask_running(self, request: Request, data: bytes) -> Any:
        """Asks a keeper that has to run already: another one knows nothing of the transaction."""
        try:
            return _answer(self._running(), request, data)
        except _NotTaken as error:
            if isinstance(request, ReadersOf):
                return Readers(txns=())
            if isinstance(request, Active | Release | Renew | AbortWrite | AbortStream | AbortChange):
                return 0
            raise _lost(request) from error
        except (EOFError, OSError, BadMessage) as error:
            if isinstance(request, CommitWrite | CommitInserts | CommitChange):
                raise CommitUnknown(
                    f"{_subject(request)}: its keeper did not say whether it committed ({error}); look whether the rows are "
                    "there before they are written again"
                ) from error
            if isinstance(error, BadMessage):
                raise
            raise _lost(request) from error

    def _running(self) -> KeeperConnection:
        try:
            self._folder.check()
            return connect(self._folder.socket)
        except OSError as error:
            raise _NotTaken from error

    def _connected(self) -> KeeperConnection:
        try:
            return self._running()
        except _NotTaken:
            self._folder.make()
        with self._folder.locked():
            try:
                return connect(self._folder.socket)  # another process has started it meanwhile
            except OSError:
                self._start()
            return connect(self._folder.socket)

    def _start(self) -> None:
        """Starts the keeper in a session of its own, so that no signal to Spark's Python ends it, and waits until it
        listens."""
        reading, writing = os.pipe()
        arguments = [str(self._application.pid), str(self._folder.path.parent), str(writing)]
        with self._folder.open_log() as log:
            started = subprocess.Popen(
                [sys.executable, "-m", _ENTRY, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                pass_fds=[writing],
                start_new_session=True,
            )
        _STARTED.append(started)
        os.close(writing)
        with open(reading, "rb") as said:
            if said.read(1) != b"1":
                raise StorageError(f"the keeper of this Spark application could not be started; see {self._folder.log}")


def _answer(connection: KeeperConnection, request: Request, data: bytes) -> Any:
    """Returns the keeper's answer, which may be a ``Failure``."""
    with connection:
        try:
            connection.send(data)
            taken = connection.receive()
        except (EOFError, OSError) as error:
            raise _NotTaken from error
        answer = decode(taken, (Taken, Failure))
        if isinstance(answer, Taken):
            answer = decode(connection.receive(), (ANSWERS[type(request)], Failure))
        return answer


def _environment() -> Mapping[str, str]:
    """Returns this process's environment, with the folders that it imports from: some are known to it alone."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _lost(request: Request) -> CompactorError:
    match request:
        case (
            CommitWrite()
            | CommitInserts()
            | CommitChange()
            | WriteChange()
            | PlanScan()
            | BeginWrite()
            | BeginInserts()
        ):
            return TransactionAborted(
                f"{_subject(request)}: the keeper that held it is gone; nothing was committed, write the rows again"
            )
        case CountChange():
            return StorageError(
                f"{_subject(request)} is committed; its keeper ended before it told how many rows it changed"
            )
        case CheckSnapshot(hold=hold):
            return SnapshotExpired(
                f"transaction {hold.txn}: the keeper that held it is gone, and what it saw is no longer protected; read the "
                "table anew"
            )
    return StorageError("the keeper ended while it was asked to let go; what it held times out")


def _subject(request: Request) -> str:
    match request:
        case CommitWrite(hold=hold) | CommitInserts(hold=hold):
            return f"transaction {hold.txn}"
        case BeginWrite(statement=statement) | BeginInserts(statement=statement):
            return f"statement {statement}"
        case PlanScan(change=change, within=within):
            return f"change {change or within}"
        case WriteChange(change=change) | CommitChange(change=change) | CountChange(change=change):
            return f"change {change}"
    return "the request"
