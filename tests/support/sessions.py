"""Sessions that run statements as Hive's do, as far as the metastore sees it: snapshot, locks, components, end."""

from __future__ import annotations

from compactor.acid.write_ids import ValidTxnList
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.locking.statement_locks import PlannedLock, TableFacts, locks
from compactor.locking.statement_rules import Name, Operation
from compactor.metastore.locks.lock_rows import NO_TXN, Lock, LockRow
from compactor.metastore.metastore import Metastore
from compactor.settings.precedence import Layer, Settings
from compactor.statements.parser import parse

_CODES = {Operation.INSERT: "i", Operation.UPDATE: "u", Operation.DELETE: "d"}


class Partition:
    """A partition ``p=<value>``."""

    def __init__(self, value: str) -> None:
        self.name = f"p={value}"
        self.values = (value,)


def look(name: Name) -> TableFacts:
    """Looks up a table: ``plain`` isn't transactional, ``part`` has the partitions p=1 and p=2, every other name is a plain
    ACID table.
    """
    partitions = (Partition("1"), Partition("2")) if name.table == "part" else ()
    return TableFacts(
        database=name.database or "default",
        table=name.table,
        transactional=name.table != "plain",
        keys=("p",) if partitions else (),
        partitions=partitions,
    )


class Session:
    """One client. A statement opens its transaction unless one is open; ``commit`` and ``rollback`` end it."""

    def __init__(self, metastore: Metastore, **settings: str) -> None:
        values = {key.replace("__", "."): value for key, value in settings.items()}
        self.settings = Settings.of([Layer(name="flag", values=values)])
        self.txn: TxnId = NO_TXN
        self.snapshot: ValidTxnList | None = None
        self._metastore = metastore
        self._lock: Lock | None = None

    def run(self, text: str) -> bool:
        """Requests the statement's locks and records what it writes; returns true if the locks were granted at once."""
        if self.txn == NO_TXN:
            [self.txn] = self._metastore.transactions.open("u", "h")
            self.snapshot = self._metastore.transactions.snapshot(self.txn)
        planned = locks(parse(text), look, self.settings)
        self._record(planned)
        if not planned:
            return True
        self._lock = self._metastore.locks.acquire(self.txn, [p.request for p in planned], "u", "h", agent=text[:60])
        return self._lock.is_acquired

    def granted(self) -> bool:
        """Checks the locks of the last statement again."""
        assert self._lock is not None
        self._lock = self._metastore.locks.check(self._lock.id)
        return self._lock.is_acquired

    @property
    def blockers(self) -> tuple[LockRow, ...]:
        assert self._lock is not None
        return self._lock.blockers

    def commit(self) -> None:
        """Commits the transaction; raises TransactionAborted when it lost."""
        txn, self.txn = self.txn, NO_TXN
        self._metastore.transactions.commit(txn)

    def rollback(self) -> None:
        txn, self.txn = self.txn, NO_TXN
        self._metastore.transactions.abort(txn, "rolled back")

    def _record(self, planned: tuple[PlannedLock, ...]) -> None:
        tables = {(p.request.database, p.request.table) for p in planned if p.request.partition is not None}
        for p in planned:
            request = p.request
            code = _CODES.get(p.operation)
            whole = request.partition is None and (request.database, request.table) in tables
            if code is None or request.table is None or whole or request.table == "plain":
                continue
            entity = Entity(database=request.database, table=request.table, partition=request.partition)
            write_id = self._metastore.write_ids.allocate(self.txn, request.database, request.table)
            self._metastore.write_ids.add_component(self.txn, entity, code, write_id)
