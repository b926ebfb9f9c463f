"""Asks the keeper of this application, and starts it for the first request."""

from __future__ import annotations

import os
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
from compactor.launch import driver_processes
from compactor.rewrite.run.failure import Failure, to_error
from compactor.spark_tables.driver_jvm import Process, find_driver
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import (
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
    ReadersOf,
    Release,
    Renew,
    Request,
    TableReaders,
    Taken,
    WriteChange,
)
from compactor.spark_tables.local_socket import KeeperConnection, connect

_ENTRY = "compactor.spark_tables.keeper"
#: Requests that need the keeper that took an earlier request: a new keeper does not have the transaction.
_LATER = (
    *(CheckSnapshot, Release, ReadersOf, Active, CommitWrite, CommitInserts, AbortWrite, AbortStream),
    *(WriteChange, CommitChange, AbortChange, CountChange, Renew),
)
_ATTEMPTS = 3  #: an idle keeper ends, perhaps between our connection and our request


def _continues_statement(request: Request) -> bool:
    """Returns true for a scan or write that belongs to a statement or change."""
    match request:
        case PlanScan(change=change, within=within):
            return (change or within) is not None
        case BeginWrite(statement=statement) | BeginInserts(statement=statement):
            return statement is not None
    return False


class _NotTaken(EOFError):
    """No keeper has begun the work on a request."""


class Keeper:
    """The client of an application's keeper, which need not run yet."""

    def __init__(self, application: Process | None = None, folder: Folder | None = None) -> None:
        self._application = application or find_driver()
        self._folder = folder or Folder(self._application)

    def ask(self, request: Request) -> Any:
        """Returns the keeper's answer.

        Starts the keeper if it does not run, unless the request needs an earlier one.

        Raises:
            CompactorError: the keeper answered with this error.
            SnapshotExpired: the keeper that held the snapshot is gone.
            TransactionAborted: the keeper that held the transaction is gone; nothing was committed.
            CommitUnknown: the keeper went away during a commit; nobody knows whether it was committed.
            StorageError: the keeper cannot be started; its log says why.
            UnsafeDirectory: another user could replace the keeper's folder.
            ForeignProcess: a process of another user listens instead of the keeper.
            BadMessage: the request or the answer is too long, or the answer does not belong to the request.
        """
        # Executors carry a client with each task, and never ask: they are spared the tables of the wire format.
        from compactor.spark_tables.message_bytes import encode

        data = encode(request)
        needs_earlier = isinstance(request, _LATER) or _continues_statement(request)
        answer = self._ask_running(request, data) if needs_earlier else self._ask_any(request, data)
        if isinstance(answer, Failure):
            raise to_error(answer)
        return answer

    def _ask_any(self, request: Request, data: bytes) -> Any:
        for _ in range(_ATTEMPTS):
            try:
                return _exchange(self._connect_or_start(), request, data)
            except (
                EOFError,
                OSError,
            ):  # its plan or transaction is lost with it, so a new keeper may repeat the request
                continue
        raise StorageError(f"the keeper ended during {_ATTEMPTS} attempts; see {self._folder.log}")

    def _ask_running(self, request: Request, data: bytes) -> Any:
        """Asks a keeper that must already run: a new keeper does not have the transaction."""
        try:
            return _exchange(self._connect(), request, data)
        except _NotTaken as error:
            if isinstance(request, ReadersOf):
                return TableReaders(txns=())
            if isinstance(request, Active | Release | Renew | AbortWrite | AbortStream | AbortChange):
                return 0
            raise _lost_keeper_error(request) from error
        except (EOFError, OSError, BadMessage) as error:
            if isinstance(request, CommitWrite | CommitInserts | CommitChange):
                raise CommitUnknown(
                    f"{_describe_subject(request)}: its keeper did not say whether it committed ({error}); check whether "
                    "the rows are there before you write them again"
                ) from error
            if isinstance(error, BadMessage):
                raise
            raise _lost_keeper_error(request) from error

    def _connect(self) -> KeeperConnection:
        try:
            self._folder.check()
            return connect(self._folder.socket)
        except OSError as error:
            raise _NotTaken from error

    def _connect_or_start(self) -> KeeperConnection:
        try:
            return self._connect()
        except _NotTaken:
            self._folder.make()
        with self._folder.locked():
            try:
                return connect(self._folder.socket)  # another process may have started it meanwhile
            except OSError:
                self._start()
            return connect(self._folder.socket)

    def _start(self) -> None:
        """Starts the keeper and waits until it listens.

        Its own session protects it from signals to Spark's Python. With ``-P`` it imports nothing from the current
        directory, where another user may have left a module.
        """
        reading, writing = os.pipe()
        arguments = [str(self._application.pid), str(self._folder.path.parent), str(writing)]
        self._folder.open_log().close()  # it is ours alone from its first line
        command = [sys.executable, "-P", "-m", _ENTRY, *arguments]
        driver_processes.start(command, _keeper_environment(), self._folder.log, inherits=[writing])
        os.close(writing)
        with open(reading, "rb") as pipe:
            if pipe.read(1) != b"1":
                raise StorageError(f"the keeper of this Spark application could not be started; see {self._folder.log}")


def _exchange(connection: KeeperConnection, request: Request, data: bytes) -> Any:
    """Returns the keeper's answer, which may be a ``Failure``."""
    from compactor.spark_tables.message_bytes import decode

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


def _keeper_environment() -> Mapping[str, str]:
    """Returns the environment of this process with all its import folders.

    Only ``sys.path`` has some of them.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _lost_keeper_error(request: Request) -> CompactorError:
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
                f"{_describe_subject(request)}: its keeper is gone; nothing was committed, write the rows again"
            )
        case CountChange():
            return StorageError(
                f"{_describe_subject(request)} is committed; its keeper ended before it could report the number of rows"
            )
        case CheckSnapshot(hold=hold):
            return SnapshotExpired(
                f"transaction {hold.txn}: its keeper is gone, so its snapshot is no longer protected; read the table again"
            )
    return StorageError("the keeper ended during a request to release transactions; they will time out")


def _describe_subject(request: Request) -> str:
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
