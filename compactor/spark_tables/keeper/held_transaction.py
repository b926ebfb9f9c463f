"""A transaction that outlives the request it began with."""

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


class Held:
    """An open transaction, perhaps for the process ``reader`` alone. ``lock`` is for whoever uses it: requests come side by
    side."""

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
        self.is_of_frames = is_of_frames  #: it is let go once no frame needs it, or the program is idle
        self.tables: set[str] = set()  #: those that were read
        self._stack = ExitStack()
        self.name = uuid.uuid4().hex
        self.lock = threading.RLock()
        self.tokens = self._stack.enter_context(ExecutorTokens())
        self.txn: Transaction = self._stack.enter_context(transaction(site, role=role, writes=writes))

    @property
    def hold(self) -> Hold:
        """The name that others have for it."""
        return Hold(name=self.name, txn=self.txn.id)

    def check(self) -> None:
        """Checks that it is still open and protected.

        Raises:
            SnapshotExpired: it is not, or the process that it was for has ended.
        """
        if self._reader is not None and not self._reader.is_alive:
            raise SnapshotExpired(f"transaction {self.txn.id}: process {self._reader.pid}, which read by it, has ended")
        try:
            self.txn.check()
        except SnapshotExpired:
            raise
        except CompactorError as error:
            raise SnapshotExpired(f"transaction {self.txn.id}: {error}; read the table anew") from error

    def end(self) -> None:
        """Ends it after reading; one that is lost already has ended."""
        with suppress(CompactorError):
            self.commit()

    def commit(self) -> None:
        """Ends it with everything that is staged named and committed; see ``transaction`` for the errors."""
        with self.lock:
            self._stack.close()

    def abort(self) -> None:
        """Ends it without a trace, whatever has become of it."""
        with self.lock:
            give_up(self._stack)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Commits at the end of the block, which takes in what others have staged; leaves no trace if that raises.

        Raises:
            TransactionAborted: it has timed out, or was aborted.
            CommitUnknown: the answer of the database was lost.
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
        """Asks the metastore whether it is still open: a process that was suspended does not know."""
        try:
            self.txn.site.metastore.transactions.heartbeat(self.txn.id)
        except NotFound as error:
            raise TransactionAborted(f"{error}; nothing was committed, write the rows again") from error
