"""Transactions that stay open after the request that began them, and those of one kind by name."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Generic, Protocol, TypeVar

from compactor.base.errors import CompactorError, NotFound, SnapshotExpired, TransactionAborted
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.driver_jvm import Process
from compactor.spark_tables.keeper_requests import Hold
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import give_up, transaction


class HeldTransaction:
    """An open transaction.

    Requests run side by side, so each of them takes ``lock`` while it uses the transaction.

    With ``reader``, the transaction is valid only as long as that process lives.
    """

    def __init__(
        self,
        site: Site,
        role: str,
        reader: Process | None = None,
        *,
        is_of_frames: bool = False,
        writes: Collection[Table] = (),
    ) -> None:
        self._reader = reader
        self.is_of_frames = is_of_frames  #: released once no DataFrame needs it, or the program is idle
        self.tables: set[str] = set()  #: the tables that were read under it
        self._stack = ExitStack()
        self.name = uuid.uuid4().hex
        self.lock = threading.RLock()
        self.tokens = self._stack.enter_context(ExecutorTokens())
        self.txn: Transaction = self._stack.enter_context(transaction(site, role=role, writes=writes))

    @property
    def hold(self) -> Hold:
        """Its name, as messages carry it."""
        return Hold(name=self.name, txn=self.txn.id)

    def check(self) -> None:
        """Checks that the transaction is open and its snapshot protected.

        Raises:
            SnapshotExpired: it is not, or its reader has ended.
        """
        if self._reader is not None and not self._reader.is_alive:
            raise SnapshotExpired(f"transaction {self.txn.id}: process {self._reader.pid}, its reader, has ended")
        try:
            self.txn.check()
        except SnapshotExpired:
            raise
        except CompactorError as error:
            raise SnapshotExpired(f"transaction {self.txn.id}: {error}; read the table again") from error

    def end(self) -> None:
        """Ends the transaction after reading. A transaction that is lost has already ended."""
        with suppress(CompactorError):
            self.commit()

    def commit(self) -> None:
        """Names what is staged and commits; see ``transaction`` for the errors."""
        with self.lock:
            self._stack.close()

    def abort(self) -> None:
        """Aborts the transaction, in whatever state it is. It leaves no trace."""
        with self.lock:
            give_up(self._stack)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Commits at the end of the block; aborts if the block raises.

        The block collects what other processes have staged.

        Raises:
            TransactionAborted: the transaction has timed out or was aborted.
            CommitUnknown: the database's answer was lost.
        """
        try:
            with self.lock:
                self._must_be_open()
                yield
        except BaseException:
            self.abort()
            raise
        self.commit()

    def _must_be_open(self) -> None:
        """Asks the metastore whether the transaction is open: a process that was suspended does not know."""
        try:
            self.txn.site.metastore.transactions.heartbeat(self.txn.id)
        except NotFound as error:
            raise TransactionAborted(f"{error}; nothing was committed, write the rows again") from error


log = logging.getLogger(__name__)


class _InTransaction(Protocol):
    @property
    def transaction(self) -> HeldTransaction: ...


_Work = TypeVar("_Work", bound=_InTransaction)


class HeldByName(Generic[_Work]):
    """Writes of one kind that are under way.

    Requests run side by side: only one of them can take a write out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}

    def __bool__(self) -> bool:
        return bool(self._works)

    def put(self, work: _Work) -> None:
        """Adds a write that has begun."""
        with self._lock:
            self._works[work.transaction.name] = work

    def find(self, name: str) -> _Work | None:
        """Returns the write of this name; None if it is not under way."""
        with self._lock:
            return self._works.get(name)

    def take(self, name: str) -> _Work | None:
        """Removes a write and returns it; None if it is not under way."""
        with self._lock:
            return self._works.pop(name, None)

    def must_take(self, hold: Hold) -> _Work:
        """Removes the write that is to be committed, and returns it.

        Raises:
            TransactionAborted: the write was lost or has already ended.
        """
        work = self.take(hold.name)
        if work is None:
            raise TransactionAborted(
                f"transaction {hold.txn} is no longer held; nothing was committed, write the rows again"
            )
        return work

    def every(self) -> list[_Work]:
        """Returns the writes that are under way now."""
        with self._lock:
            return list(self._works.values())

    def abort(self, name: str) -> bool:
        """Aborts a write, which leaves no trace; returns false if it is not under way."""
        work = self.take(name)
        if work is None:
            return False
        txn = work.transaction.txn.id
        try:
            work.transaction.abort()
        except CompactorError as error:
            log.warning("transaction %d: %s; it times out", txn, error)
        log.info("transaction %d, in which rows were written, is aborted", txn)
        return True

    def abort_all(self) -> None:
        """Aborts every write that is under way."""
        for work in self.every():
            self.abort(work.transaction.name)
