"""A batch of transactions that are opened ahead.

A stream's commits use them up one by one (Hive's transaction batch).

The work that an insert does before it writes is done once for the whole batch: lock, write IDs, the check that they are
unused, components. The last transaction of the batch holds one lock for all, from before the write IDs are allocated until
the batch is over, so that nobody overwrites or drops the table meanwhile. A batch is short, because open write IDs hold back
compactions of the table, and open transactions hold back every cleaner (docs/adr/0045-streams.md).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from compactor.base.errors import CommitUnknown, CompactorError, Disagreement
from compactor.base.ids import WriteId
from compactor.base.steps import WriteStep, reach
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.commit_rows import InTransaction, check_not_overwritten
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import must_be_open
from compactor.site.heartbeat import Heartbeat, heartbeat_period_ms
from compactor.site.mode import must_write
from compactor.site.restored_database import doubt_of_programs
from compactor.site.site import Site, must_have_its_own_ground, path_of
from compactor.tables.transactions.held_locks import find_write_lock, wait_for_locks
from compactor.tables.transactions.loaded_tables import LoadedTable, reload
from compactor.tables.transactions.numbers_on_disk import UnusedWriteIds, must_know_all_numbers, note_write_id
from compactor.tables.transactions.transaction import Transaction, WriteOperation, WriteStatement
from compactor.tables.transactions.transaction_block import ending
from compactor.tables.transactions.watch import Watch

AGE_S = 1.0  #: a batch is used for this long
MOST = 256  #: transactions in one batch
_ROLE = "stream"


def next_batch_size(size: int, used: int, took_s: float) -> int:
    """Returns the size of the next batch.

    It follows from the size of the last one and how many transactions were used.

    It is as many as were used, or twice as many if all were used within half a batch's age.
    """
    if used == size and took_s < AGE_S / 2:
        return min(2 * size, MOST)
    return max(used, 1)


class TransactionBatch:
    """Open transactions that each insert into ``table`` once.

    Args:
        partition: the partition of all rows, if it is known; it need not exist.
        count: the number of transactions; at most hive.txn.max.open.batch are opened.

    Raises:
        Refused: ``hive.max.open.txns`` are open, or the table has been changed since it was loaded.
        NotFound: the table was dropped.
        LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        StorageError: a directory holds one of the write IDs already.
    """

    def __init__(
        self,
        site: Site,
        table: Table,
        partition: str | None,
        count: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site, self._table, self._clock = site.for_a_transaction(), table, clock
        self._entity = Entity(database=table.database, table=table.name, partition=partition)
        self._opening = NewTransaction(user=site.user, host=site.host, agent=site.identity(_ROLE))
        self._started_at = clock()
        if (in_doubt := doubt_of_programs(site)) is not None:
            raise Disagreement(f"{self._entity}: nothing is written: {in_doubt}")
        must_know_all_numbers(site, table)
        transactions = site.metastore.transactions
        opened = transactions.open(self._opening.user, self._opening.host, agent=self._opening.agent, count=count)
        self.size = len(opened)
        self._locations: dict[str, str] = {}
        self._txns, self._holder = deque(opened), opened[-1]
        self._watch = Watch(site.metastore, self._holder, self._agent, longest_ms=0)
        self._watch.writes = True
        period = heartbeat_period_ms(site.settings)
        self._stack = ExitStack()
        self._heart = self._stack.enter_context(Heartbeat(transactions, opened, period, after_beat=self._watch.check))
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        self._started_at = clock()  # waiting for the lock does not count

    @property
    def used(self) -> int:
        """The number of transactions that have been used."""
        return self.size - len(self._txns)

    @property
    def age_s(self) -> float:
        """Seconds since the batch was opened."""
        return self._clock() - self._started_at

    @property
    def is_over(self) -> bool:
        """True if the batch is used up, too old, or lost."""
        with suppress(CompactorError):
            self._heart.check()
            return not self._txns or self.age_s >= AGE_S or self._watch.loss is not None
        return True

    @property
    def _agent(self) -> str:
        assert self._opening.agent is not None
        return self._opening.agent

    @property
    def locations(self) -> Mapping[str, str]:
        """The directories of partitions that the batch has written into.

        It is empty if no lock keeps them from being dropped.
        """
        return self._locations if self._watch.has_locks else {}

    def remember(self, locations: Mapping[str, str]) -> None:
        """Remembers partitions that one of the transactions has written into and committed."""
        self._locations.update(locations)

    @contextmanager
    def next(self) -> Iterator[tuple[Transaction, WriteStatement, bool]]:
        """Yields the next transaction, its statement, and whether the statement's component is provisional.

        The end of the block commits the transaction; an exception aborts it.

        Raises:
            TransactionAborted: it timed out; WriteConflict: the table was overwritten meanwhile.
            LockLost: the lock of the batch is gone.
            CommitUnknown: the answer to the commit was lost.
        """
        txn = self._txns.popleft()
        transaction = Transaction(self._site, txn, self._opening, self._heart, self._watch)
        statement = replace(self._statement, write_id=self._write_ids[txn])
        transaction.take(statement, self._unused, is_provisional=self._is_provisional)
        transaction.with_commit += self._commit_checks(transaction)
        try:
            with ending(transaction, self._heart, self._watch, _ROLE):
                yield transaction, statement, self._is_provisional
        except CommitUnknown:
            raise
        except BaseException:
            with suppress(CompactorError):  # if the holder was lost or the table overwritten, this one is still open
                self._site.metastore.transactions.abort(txn, f"the {_ROLE} failed", agent=self._agent)
            raise

    def close(self) -> None:
        """Gives back the unused transactions. Transactions that cannot be aborted time out."""
        self._stack.close()
        with suppress(CompactorError):
            self._site.metastore.transactions.give_back(list(self._txns), f"not used by a {_ROLE}", agent=self._agent)
        self._txns.clear()

    def _begin(self) -> None:
        self._lock()
        table = self._read_again()
        entity, site = self._entity, self._site
        part = (
            next(iter(site.metastore.catalog.partitions(table, [entity.partition])), None) if entity.partition else None
        )
        must_have_its_own_ground(site, table, part)
        self._is_provisional = table.is_partitioned and part is None
        location = path_of(site.storage, table, part)
        self._unused, check = UnusedWriteIds(site), None
        if not self._is_provisional:
            self._unused.look(table, location)
            check = partial(self._unused.check, str(entity), table, location)
        self._write_ids = site.metastore.write_ids.allocate_all(self._txns, entity.database, entity.table, check)
        note_write_id(site, table, max(self._write_ids.values()))
        first = self._write_ids[self._txns[0]]
        recorded = replace(entity, partition=None) if self._is_provisional else entity
        site.metastore.write_ids.add_components(self._write_ids, recorded, WriteOperation.INSERT.value)
        self._statement = _build_statement(table, entity, first, location)
        reach(WriteStep.WRITE_BEGUN)

    def _lock(self) -> None:
        kind = find_write_lock(self._site, AccessKind.INSERT)
        if kind is None:
            return
        entity = self._entity
        request = LockRequest(database=entity.database, table=entity.table, partition=entity.partition, type=kind)
        wait_for_locks(self._site, self._holder, [request], self._opening.user)
        self._watch.has_locks = True

    def _read_again(self) -> Table:
        """Returns the table, which nobody can alter or drop from now on.

        Raises:
            NotFound, Refused: the table has changed since it was loaded, or its mode is observe.
        """
        table = reload(self._site.metastore.catalog, LoadedTable.from_table(self._table))
        must_write(self._site.settings_for(table), str(table))
        return table

    def _commit_checks(self, opened: Transaction) -> list[InTransaction]:
        """Returns checks for the committing database transaction.

        The batch's lock must still protect ``opened``.
        """
        dialect = self._site.metastore.dialect

        def is_held(conn: Connection) -> None:
            if opened.id != self._holder:
                must_be_open(conn, dialect, self._holder, self._agent)

        def is_not_overwritten(conn: Connection) -> None:
            check_not_overwritten(opened.id, opened.written.entities)(conn)

        return [is_held, is_not_overwritten]


def _build_statement(table: Table, entity: Entity, write_id: WriteId, location: str) -> WriteStatement:
    return WriteStatement(
        table=table,
        entity=entity,
        operation=WriteOperation.INSERT,
        write_id=write_id,
        statement_id=0,
        location=location,
    )
