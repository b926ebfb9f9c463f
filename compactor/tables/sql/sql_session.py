"""The state between the statements of one text: the current database, and the transaction that is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from compactor.answers.explain_locks import planned_locks
from compactor.base.errors import NotFound, Refused
from compactor.locking.accesses import Name
from compactor.locking.lock_requests import LockRequest, sorted_requests
from compactor.metastore.catalog import values
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.statements.statement import Statement
from compactor.tables.table import Table
from compactor.tables.transactions.held_locks import wait_for_locks
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import give_up, transaction

_ROLE = "sql"


class Session:
    """A session over an opened site; it is closed when its text is done."""

    def __init__(self, site: Site, database: str) -> None:
        self.site = site
        self.database = database
        self._stack: ExitStack | None = None
        self.transaction: Transaction | None = None

    def full(self, name: Name) -> str:
        """Returns ``<database>.<table>``."""
        return f"{name.database or self.database}.{name.table}"

    def found(self, name: Name) -> values.Table:
        """Returns a table as the metastore describes it.

        Raises:
            NotFound: there is none.
        """
        return self.site.metastore.catalog.table(name.database or self.database, name.table)

    def opened(self, found: values.Table) -> Table:
        """Returns a table to read or write, in the transaction that is open, if any."""
        return Table(self.site, found, self.transaction)

    def start(self) -> int:
        """Opens a transaction for the statements that follow; returns its id."""
        self._stack = ExitStack()
        self.transaction = self._stack.enter_context(transaction(self.site, role=_ROLE))
        return self.transaction.id

    def commit(self) -> int:
        """Commits the transaction; returns its id.

        Raises:
            TransactionAborted: it timed out, or another writer committed first.
        """
        assert self._stack is not None
        assert self.transaction is not None
        stack, opened, self._stack, self.transaction = self._stack, self.transaction, None, None
        stack.close()
        return opened.id

    def roll_back(self) -> int:
        """Ends the transaction, if one is open, without its writes; returns its id, 0 if there is none."""
        if self._stack is None or self.transaction is None:
            return 0
        stack, opened, self._stack, self.transaction = self._stack, self.transaction, None, None
        give_up(stack)
        return opened.id

    @contextmanager
    def within(self, *writes: values.Table) -> Iterator[Transaction]:
        """Yields the transaction that is open, or one that commits when the block ends and ``writes`` these tables."""
        if self.transaction is not None:
            yield self.transaction
            return
        with transaction(self.site, role=_ROLE, writes=writes) as txn:
            yield txn

    @contextmanager
    def locked(self, statement: Statement) -> Iterator[Transaction]:
        """Opens a transaction that holds the locks of ``statement``, until the block ends, which commits. They are those of
        what is there once they are held: others may have added partitions while they were waited for (PROTOCOL 14.26).

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        """
        missing, held = self._requests(statement), set[LockRequest]()
        with transaction(self.site, role=_ROLE) as txn:
            while missing:
                wait_for_locks(self.site, txn.id, sorted_requests(missing), self.site.user)
                held |= missing
                missing = set()
                with suppress(NotFound, Refused):  # what the statement says better of a table that is gone, or another
                    missing = self._requests(statement) - held
            yield txn

    def _requests(self, statement: Statement) -> set[LockRequest]:
        return {planned.request for planned in planned_locks(self.site, statement, self.database)}

    @contextmanager
    def locked_table(self, statement: Statement, name: Name) -> Iterator[values.Table]:
        """Yields the table that has the name once the locks of ``statement`` are held: while it waited for them, the one
        that had it may have been renamed or dropped.

        Raises:
            NotFound: there is none.
            Refused: its mode is observe.
            LockNotGranted: as ``locked`` says.
        """
        with self.locked(statement):
            table = self.found(name)
            must_write(self.site.settings_for(table), str(table))
            yield table
