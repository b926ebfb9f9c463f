"""A transaction that stays open after the request that began it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress

from compactor.base.errors import CompactorError, NotFound, SnapshotExpired, TransactionAborted
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.application import Process
from compactor.spark_tables.messages import Hold
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import give_up, transaction


class HeldTransaction:
    """An open transaction. Requests run side by side, so each of them takes ``lock`` while it uses the transaction.

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
        """Commits at the end of the block; aborts if the block raises. The block collects what other processes have staged.

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
