"""The state between the statements of a text: the current database and the open transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from compactor.answers.explain_locks import planned_locks
from compactor.answers.row import Row
from compactor.base.errors import NotFound, Refused
from compactor.locking.lock_types import LockRequest, sorted_requests
from compactor.locking.statement_rules import Name
from compactor.metastore.catalog import values
from compactor.site.mode import must_write
from compactor.site.site import Site
from compactor.statements.parsed_actions import Statement
from compactor.tables.table import Table
from compactor.tables.transactions.held_locks import wait_for_locks
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import give_up, transaction

_ROLE = "sql"


class Session:
    """A session on an open site; it ends with its text."""

    def __init__(self, site: Site, database: str) -> None:
        self.site = site
        self.database = database
        self._stack: ExitStack | None = None
        self.transaction: Transaction | None = None

    def full_name(self, name: Name) -> str:
        """Returns ``<database>.<table>``, with the current database if ``name`` has none."""
        return f"{name.database or self.database}.{name.table}"

    def load_table(self, name: Name) -> values.Table:
        """Returns a table as the metastore describes it.

        Raises:
            NotFound: the table does not exist.
        """
        return self.site.metastore.catalog.table(name.database or self.database, name.table)

    def open_table(self, table: values.Table) -> Table:
        """Returns a table to read or write; the reads and writes join the open transaction, if any."""
        return Table(self.site, table, self.transaction)

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
        """Aborts the open transaction; returns its id, or 0 if none is open."""
        if self._stack is None or self.transaction is None:
            return 0
        stack, opened, self._stack, self.transaction = self._stack, self.transaction, None, None
        give_up(stack)
        return opened.id

    @contextmanager
    def within(self, *writes: values.Table) -> Iterator[Transaction]:
        """Yields the open transaction.

        If none is open, yields one that writes ``writes`` and commits when the block ends.
        """
        if self.transaction is not None:
            yield self.transaction
            return
        with transaction(self.site, role=_ROLE, writes=writes) as txn:
            yield txn

    @contextmanager
    def locked(self, statement: Statement) -> Iterator[Transaction]:
        """Opens a transaction that holds the locks of ``statement`` and commits when the block ends.

        The locks are computed again once they are granted, since others may have added partitions during the wait (PROTOCOL
        14.26).

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        """
        missing, granted = self._requests(statement), set[LockRequest]()
        with transaction(self.site, role=_ROLE) as txn:
            while missing:
                wait_for_locks(self.site, txn.id, sorted_requests(missing), self.site.user)
                granted |= missing
                missing = set()
                with suppress(
                    NotFound, Refused
                ):  # the statement has the better message if the table is gone or replaced
                    missing = self._requests(statement) - granted
            yield txn

    def _requests(self, statement: Statement) -> set[LockRequest]:
        return {lock.request for lock in planned_locks(self.site, statement, self.database)}

    @contextmanager
    def locked_table(self, statement: Statement, name: Name) -> Iterator[values.Table]:
        """Yields the table with this name once the locks of ``statement`` are held.

        The table is looked up under the locks, because it may have been renamed or dropped during the wait.

        Raises:
            NotFound: the table does not exist.
            Refused: the table's mode is observe.
            LockNotGranted: as for ``locked``.
        """
        with self.locked(statement):
            table = self.load_table(name)
            must_write(self.site.settings_for(table), str(table))
            yield table


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a statement, or what it did.

    Attributes:
        statement: the form of the statement.
        rows: the rows for programs; iterate only once. A statement that changed something has one row that says what it did.
        columns: the columns that people see, in order; if empty, they see ``message``.
        message: for people: what was done, or that there are no rows.
        whole: true if columns without any value are shown too.
    """

    statement: str
    rows: Iterable[Mapping[str, object]] = ()
    columns: tuple[str, ...] = ()
    message: str = ""
    whole: bool = False


def build_list(statement: str, rows: Sequence[Row], columns: tuple[str, ...], empty: str) -> Answer:
    """Builds the answer of a statement that lists rows; ``empty`` is the message if there are none."""
    return Answer(statement=statement, rows=[row.to_json() for row in rows], columns=columns, message=empty)


def format_count(count: int) -> str:
    """Formats a number of rows: ``1 row``, ``2 rows``."""
    return f"{count} row{'' if count == 1 else 's'}"


def build_result(statement: str, message: str, **facts: object) -> Answer:
    """Builds the answer of a statement that changed something."""
    return Answer(statement=statement, rows=[{"statement": statement, **facts}], message=message)
