"""A Hive transaction over any number of tables: a snapshot, locks, a heartbeat, statements.

The snapshot is taken once, after the first locks, and stays the same until the end. A component is recorded before any of
its files exists, so that an aborted transaction is remembered for as long as its files exist (PROTOCOL 8).
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from compactor.acid.bucket import MAX_STATEMENT
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import (
    CompactorError,
    Disagreement,
    LostClaim,
    Refused,
    SnapshotExpired,
    TransactionAborted,
    WriteConflict,
)
from compactor.base.ids import TxnId, WriteId
from compactor.base.steps import TransactionStep, WriteStep, reach
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.locking.statement_locks import locking_is_on
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Partition, Table
from compactor.metastore.transactions.commit_rows import InTransaction
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.site.heartbeat import Heartbeat
from compactor.site.mode import must_write
from compactor.site.site import Site, must_have_its_own_ground, path_of
from compactor.tables.transactions.catalog_additions import AddedPartitions, CreatedTables, must_be_the_only_spelling
from compactor.tables.transactions.held_locks import HeldLocks, find_excluding_lock, find_write_lock
from compactor.tables.transactions.loaded_tables import LoadedTable, must_be_as_loaded, reload
from compactor.tables.transactions.numbers_on_disk import UnusedWriteIds, must_know_all_numbers, note_write_id
from compactor.tables.transactions.pending import Pending, Written
from compactor.tables.transactions.watch import Watch

log = logging.getLogger(__name__)
_BEGINNINGS = 10  #: times that a transaction begins again, because others wrote meanwhile, before it gives up


class WriteOperation(enum.Enum):
    """A value of TC_OPERATION_TYPE."""

    INSERT = "i"
    UPDATE = "u"  #: INSERT OVERWRITE and TRUNCATE; row updates are deletes and inserts
    DELETE = "d"


#: Decides, together with ``hive.txn.xlock.*``, which lock a statement takes.
_ACCESS_KINDS = {
    WriteOperation.INSERT: AccessKind.INSERT,
    WriteOperation.DELETE: AccessKind.DELETE,
    WriteOperation.UPDATE: AccessKind.INSERT_OVERWRITE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatement:
    """One statement; it writes to ``delta_<write ID>_<write ID>_<statement ID>`` below ``location``."""

    table: Table
    entity: Entity
    operation: WriteOperation
    write_id: WriteId
    statement_id: int
    location: str  #: the table's, if partitions show only in the rows


class Transaction:
    """An open transaction, created by ``transaction_block.transaction``.

    After its block its snapshot cannot be read.
    """

    def __init__(self, site: Site, txn: TxnId, opening: NewTransaction, heart: Heartbeat, watch: Watch) -> None:
        self._opening = opening
        self._heart = heart
        self._watch = watch
        self._statements: Counter[tuple[str, str]] = Counter()
        self._components: set[tuple[Entity, WriteOperation]] = set()
        self._locks = HeldLocks(site, txn, opening.user)
        self._as_loaded: dict[LoadedTable, Table] = {}  # read again under a lock that is held until the end
        self._provisional: list[WriteStatement] = []  # dynamic statements whose partitions are not recorded yet
        self._txns: ValidTxnList | None = None
        self._write_ids: dict[tuple[str, str], ValidWriteIdList] = {}
        self._is_over = False
        # one view of all tables' directories for the whole transaction
        self.site = site if site.ground is not None else site.for_a_transaction()
        self._unused = UnusedWriteIds(self.site)
        self.id = txn
        self.pending = Pending(site.storage, txn)
        self.added = AddedPartitions(self.site)
        self.created = CreatedTables(site)
        self.written = Written()
        self.in_doubt: str | None = None  #: why nothing may be written: the database is an older copy (PROTOCOL 11.2)
        self.with_commit: list[InTransaction] = []  #: actions of the database transaction that commits the writes

    @property
    def agent(self) -> str | None:
        """The process that opened it; unique to this transaction and those with which it begins again."""
        return self._opening.agent

    @property
    def txns(self) -> ValidTxnList:
        """The transactions that this one sees; fixed at the first use, after the first locks."""
        if self._txns is None:
            self._txns = self.site.metastore.transactions.snapshot(self.id)
            reach(TransactionStep.SNAPSHOT_TAKEN)
        return self._txns

    def check(self) -> None:
        """Checks that the snapshot can still be read.

        Raises:
            SnapshotExpired: the transaction has ended, timed out, or grew older than compactor.read.max.age.
            LockLost: its locks are gone.
        """
        if self._is_over:
            raise SnapshotExpired(f"transaction {self.id} has ended, and with it its snapshot; begin another one")
        if self._watch.loss is not None:
            raise self._watch.loss
        try:
            self._heart.check()
        except LostClaim as error:
            raise SnapshotExpired(f"{error}; its snapshot is no longer protected, begin again") from error

    def end(self) -> None:
        """Marks the transaction as ended; ``check`` raises from now on."""
        self._is_over = True

    def lock_for_reading(self, table: Table, partitions: Iterable[str | None]) -> None:
        """Takes SHARED_READ on the table (None) or on each of the partitions, all in one request.

        Locks on partitions are never merged into one on the table: the cleaner of Hive 3.1 looks only for locks on exactly
        the entity that it cleans.

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            SnapshotExpired: as for ``check``.
        """
        self.check()
        if not locking_is_on(self.site.settings):
            return
        self._take((_entity(table, name), LockType.SHARED_READ) for name in partitions)

    def must_be_as_loaded(self, table: Table) -> Table:
        """Reads ``table`` again and returns it.

        A lock is held, so nobody alters or drops it from now on (PROTOCOL 14.25).

        Raises:
            NotFound: it was renamed or dropped since it was loaded.
            Refused: it was altered.
        """
        loaded = LoadedTable.from_table(table)
        if loaded in self._as_loaded:
            return self._as_loaded[loaded]
        if (new := self.created.find(table.database, table.name)) is not None:
            must_be_as_loaded(loaded, new, self.site.metastore.catalog)
            return new
        current = reload(self.site.metastore.catalog, loaded)
        if locking_is_on(self.site.settings):
            self._as_loaded[loaded] = current
        return current

    def lock_as_planned(self, requests: Sequence[LockRequest]) -> None:
        """Takes the planned locks of a statement, all in one request, before anything is read.

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
        """
        self._must_live()
        self._locks.take_planned(requests)
        self._watch.has_locks = self._watch.has_locks or bool(requests)

    def write_ids(self, table: Table) -> ValidWriteIdList:
        """Returns the write IDs of ``table`` that this transaction sees, including its own.

        The list stays the same.
        """
        name = (table.database, table.name)
        if name not in self._write_ids:
            self._write_ids[name] = self.site.write_ids(table, self.txns)
            if self.site.goes_by_write_ids:
                self.site.metastore.write_ids.hold(self.id, self._write_ids[name])
        return self._write_ids[name]

    def partitions(self, table: Table, names: Collection[str] | None = None) -> list[Partition]:
        """Returns the partitions of ``table``, and all that this transaction adds.

        With ``names``, only those of the table.
        """
        existing = self.site.metastore.catalog.partitions(table, None if names is None else sorted(names))
        known = {part.name for part in existing}
        return existing + [part for part in self.added.partitions_of(table) if part.name not in known]

    def begin_statement(self, entity: Entity, operation: WriteOperation, loaded: Table | None = None) -> WriteStatement:
        """Begins the next statement on ``entity``: takes its lock and write ID, and records it.

        It does so before the statement's files are written.

        Statement IDs count within one table, as they do within a transaction of Hive.

        Args:
            loaded: the table to which rows were fitted; None if they will be fitted to the statement's table.

        Raises:
            NotFound: the table or partition does not exist, or the table is not the one that was ``loaded``.
            Refused: the table is not transactional, its mode is observe, or it was altered since it was ``loaded``; or its
                directory or the partition's overlaps another's.
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
            StorageError: a directory holds the write ID already: the metastore was restored, or is another one.
        """
        if (new := self.created.find(entity.database, entity.table)) is not None:
            return self._first_statement(new, entity, operation)
        if loaded is not None:  # from now on nobody alters or drops it
            self._lock_for_statement(loaded, entity, operation)
        target = self.site.target(entity)
        if loaded is not None:
            must_be_as_loaded(LoadedTable.from_table(loaded), target.table, self.site.metastore.catalog)
            must_write(target.settings, str(loaded))
        must_have_its_own_ground(self.site, target.table, target.partition)
        statement = self._begin(target.table, entity, operation, target.location)
        self._unused.check(str(target.entity), target.table, target.location, statement.write_id)
        if (entity, operation) not in self._components:
            self.site.metastore.write_ids.add_component(self.id, entity, operation.value, statement.write_id)
            self._components.add((entity, operation))
        self.written.note(entity, statement.write_id, target.location)
        reach(WriteStep.WRITE_BEGUN)
        return statement

    def _first_statement(self, table: Table, entity: Entity, operation: WriteOperation) -> WriteStatement:
        """Begins the statement that writes the rows of a new table.

        The commit adds both the table and its component.
        """
        statement = self._begin(table, entity, operation, path_of(self.site.storage, table, None))
        self._unused.check(str(entity), table, statement.location, statement.write_id)
        self.created.record(entity, operation.value, statement.write_id)
        self.written.note(entity, statement.write_id, statement.location)
        reach(WriteStep.WRITE_BEGUN)
        return statement

    def take(self, statement: WriteStatement, unused: UnusedWriteIds, *, is_provisional: bool) -> None:
        """Takes over a statement that was begun ahead.

        Its lock is held, its write ID and component are recorded.

        Args:
            unused: has checked its write ID already, together with others.
            is_provisional: its component stands for the table, until ``record_partitions``.
        """
        self._watch.writes, self._unused = True, unused
        if is_provisional:
            self._provisional.append(statement)
            return
        self._components.add((statement.entity, statement.operation))
        self.written.note(statement.entity, statement.write_id, statement.location)

    @contextmanager
    def whole_statement(self) -> Iterator[None]:
        """Undoes a statement that fails within the block.

        A later commit then publishes nothing of it (PROTOCOL 14.12).
        """
        staged, added, written = self.pending.directories, self.added.partitions, self.written.places
        try:
            yield
        except BaseException:
            self.pending.take_back(staged)
            self.added.take_back(added)
            self.written.take_back(written)
            for statement in list(self._provisional):
                with suppress(CompactorError):  # the transaction may be lost; the original error says so
                    self.record_partitions(statement, {})
            raise

    def lock_for_overwriting(self, table: Table, partition: str | None, to_read: Sequence[Entity] = ()) -> None:
        """Takes the lock of an INSERT OVERWRITE on the table or partition, and locks to read ``to_read``.

        The transaction must see all rows that it replaces; see ``lock_for_changes``.
        """
        lock = find_write_lock(self.site, _ACCESS_KINDS[WriteOperation.UPDATE])
        self._lock_and_check(table, _entity(table, partition), lock, to_read, must_see_all=True)

    def lock_for_appending(self, table: Table, partition: str | None, to_read: Sequence[Entity]) -> None:
        """Takes the lock of an INSERT, and locks to read ``to_read``, in one request.

        Raises:
            LockNotGranted, TransactionAborted: as for ``begin_statement``.
        """
        self._must_live()
        self._watch.writes = True
        if self.created.find(table.database, table.name) is None:
            lock = find_write_lock(self.site, _ACCESS_KINDS[WriteOperation.INSERT])
            self._lock_for_writing(table, _entity(table, partition), lock, to_read)

    def lock_for_changes(
        self,
        table: Table,
        partitions: Iterable[str | None],
        kind: LockType | None = None,
        *,
        must_see_all: bool = False,
        others: Sequence[Entity] = (),
    ) -> None:
        """Takes the table's lock of an UPDATE or DELETE, or ``kind``, and locks to read others.

        Those are ``partitions`` and ``others``.

        This happens before anything is read (PROTOCOL 14.2), and in one request: a second request would wait behind others
        that wait for the first one.

        If another transaction wrote into the table and committed during the wait, this one begins again to see its rows,
        unless it has read or written something already.

        Raises:
            NotFound, Refused: the table has changed since it was loaded.
            WriteConflict: this transaction cannot begin again, and another one changed rows during the wait; with
                ``must_see_all``, also if the other one only inserted rows.
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        """
        lock = find_write_lock(self.site, AccessKind.DELETE) if kind is None else find_excluding_lock(self.site, kind)
        to_read = [*(_entity(table, name) for name in partitions), *others]
        self._lock_and_check(table, _entity(table), lock, to_read, must_see_all=must_see_all)

    def _lock_and_check(
        self,
        table: Table,
        entity: Entity,
        lock: LockType | None,
        to_read: Sequence[Entity],
        *,
        must_see_all: bool,
    ) -> None:
        later = None
        for _ in range(_BEGINNINGS):
            self._must_live()
            is_new = self._txns is None and not self._statements
            self._lock_for_writing(table, entity, lock, to_read)
            self.must_be_as_loaded(table)
            later = self.site.metastore.write_ids.later_writer(
                self.id,
                table.database,
                table.name,
                seen=self._txns,
                only_changes=not must_see_all and not is_new,
            )
            if later is None:
                return
            if not is_new:
                break
            self._begin_again()
        assert later is not None
        raise WriteConflict(
            f"{table}: transaction {later} wrote into it while transaction {self.id} waited for its lock; begin again",
            later,
        )

    def _begin_again(self) -> None:
        """Continues in another transaction. Nobody notices, since nothing was read or written in this one."""
        old, (self.id,) = self.id, self.site.metastore.transactions.open_all([self._opening])
        self._heart.take(self.id)
        self._heart.let_go(old)
        self._watch.begin_again(self.id)
        self._locks = HeldLocks(self.site, self.id, self._opening.user)
        self._as_loaded.clear()
        self._write_ids.clear()
        self.pending = Pending(self.site.storage, self.id)
        self.added = AddedPartitions(self.site)
        because = "waited for a lock while another transaction wrote, and began again"
        self.site.metastore.transactions.abort(old, because, agent=self.agent)

    def begin_dynamic_statement(
        self, table: Table, operation: WriteOperation, partition: str | None = None
    ) -> WriteStatement:
        """Begins a statement whose partitions show only in its rows, or which adds ``partition``.

        A provisional component stands for all its partitions until ``record_partitions`` (Hive's dynamic partitions).

        Raises:
            NotFound, Refused, LockNotGranted, TransactionAborted, StorageError: as for ``begin_statement`` with ``loaded``.
        """
        path = path_of(self.site.storage, table, None)
        is_new = self.created.find(table.database, table.name) is not None
        if not is_new:
            self._lock_for_statement(table, _entity(table, partition), operation)
            must_write(self.site.settings_for(self.must_be_as_loaded(table)), str(table))
            must_have_its_own_ground(self.site, table, None)
        statement = self._begin(table, _entity(table, partition), operation, path)
        if not is_new:
            self.site.metastore.write_ids.add_component(self.id, _entity(table), operation.value, statement.write_id)
        self._provisional.append(statement)
        reach(WriteStep.WRITE_BEGUN)
        return statement

    def begin_statement_of_rows(self, table: Table, operation: WriteOperation) -> WriteStatement:
        """Begins the next statement on ``table`` as it was loaded.

        If it is partitioned, its rows say where it writes.

        Raises the errors of ``begin_statement`` and ``begin_dynamic_statement``.
        """
        if table.is_partitioned:
            return self.begin_dynamic_statement(table, operation)
        return self.begin_statement(_entity(table), operation, loaded=table)

    def check_partitions(self, table: Table, locations: Mapping[str, str]) -> None:
        """Checks these partitions, by their locations, before anything is staged in them (PROTOCOL 11.13).

        Raises:
            Refused: the directory of an existing partition overlaps another's.
            Disagreement: another table claims a directory.
        """
        for partition in self.site.metastore.catalog.partitions(table, sorted(locations)) if locations else ():
            must_have_its_own_ground(self.site, table, partition)
        for location in locations.values():
            self._unused.look(table, location)

    def must_replace_all_rows(self, statement: WriteStatement, names: Collection[str]) -> None:
        """Checks that an overwrite of these partitions leaves no row of their values.

        Raises:
            Refused: another partition has the same values, spelled otherwise.
        """
        if statement.operation is WriteOperation.UPDATE and statement.table.is_partitioned:
            must_be_the_only_spelling(self.site, statement.table, names)

    def add_partition(self, table: Table, name: str, write_id: WriteId) -> Partition:
        """Adds a partition that does not exist, together with the commit; see ``AddedPartitions.add``."""
        return self.added.add(table, name, write_id, (self.txns, self.write_ids(table)))

    def record_partitions(self, statement: WriteStatement, partitions: Mapping[str, str]) -> None:
        """Replaces the provisional component of a dynamic statement by its partitions.

        They are given with their locations.
        """
        for name, location in partitions.items():
            self._unused.check(f"{statement.entity} {name}", statement.table, location, statement.write_id)
        entities = {name: replace(statement.entity, partition=name) for name in partitions}
        operation, write_id = statement.operation, statement.write_id
        others = self.added.record(statement.entity, operation.value, write_id, partitions)
        new = [name for name in others if (entities[name], operation) not in self._components]
        if not self.added.stand_for(statement.entity, operation.value):
            entity = replace(statement.entity, partition=None)
            self.site.metastore.write_ids.add_partitions(self.id, entity, new, operation.value, write_id)
        else:
            for name in new:
                self.site.metastore.write_ids.add_component(self.id, entities[name], operation.value, write_id)
        self._components.update((entities[name], operation) for name in new)
        for name, location in partitions.items():
            self.written.note(entities[name], write_id, location)
        self._provisional.remove(statement)

    def _lock_for_writing(
        self, table: Table, entity: Entity, kind: LockType | None, to_read: Iterable[Entity] = ()
    ) -> None:
        if not table.is_transactional:
            raise Refused(f"{entity}: the table is not transactional; set transactional=true when it is created")
        if kind is not None:
            self._take([(entity, kind), *((source, LockType.SHARED_READ) for source in to_read)])

    def _begin(self, table: Table, entity: Entity, operation: WriteOperation, location: str) -> WriteStatement:
        """Takes the lock and the write ID of a statement. Nothing of the statement is recorded yet.

        Raises:
            Disagreement: the database is an older copy, by itself or compared with the table's files, and would allocate
                numbers twice.
            StorageError: a directory at ``location`` holds the new write ID already; the write ID is not allocated then.
        """
        if self.in_doubt is not None:
            raise Disagreement(f"{entity}: nothing is written: {self.in_doubt}")
        self._lock_for_statement(table, entity, operation)
        _ = self.txns  # the first statement fixes the snapshot, whatever it does (PROTOCOL 13.2)
        if self.created.find(table.database, table.name) is None:
            must_know_all_numbers(self.site, table)
        self._unused.look(
            table, location
        )  # a number on disk must not be allocated, or its files would count as aborted
        write_id = self.site.metastore.write_ids.allocate(
            self.id, entity.database, entity.table, partial(self._unused.check, str(entity), table, location)
        )
        note_write_id(self.site, table, write_id)
        self._write_ids.pop((entity.database, entity.table), None)  # the new write ID belongs to the list
        return WriteStatement(
            table=table,
            entity=entity,
            operation=operation,
            write_id=write_id,
            statement_id=self._next_statement(entity),
            location=location,
        )

    def _lock_for_statement(self, table: Table, entity: Entity, operation: WriteOperation) -> None:
        self._must_live()
        self._watch.writes = True
        self._lock_for_writing(table, entity, find_write_lock(self.site, _ACCESS_KINDS[operation]))

    def _must_live(self) -> None:
        try:
            self._heart.check()
        except LostClaim as error:
            raise TransactionAborted(f"{error}; begin again") from error

    def _next_statement(self, entity: Entity) -> int:
        """Returns the next statement ID within a table.

        Raises:
            Refused: the statement IDs are used up.
        """
        table = (entity.database, entity.table)
        number = self._statements[table]
        if number > MAX_STATEMENT:
            raise Refused(f"{entity}: a transaction can have {MAX_STATEMENT + 1} statements on a table; commit it")
        self._statements[table] += 1
        return number

    def _take(self, locks: Iterable[tuple[Entity, LockType]]) -> None:
        if self._locks.take(locks):
            self._watch.has_locks = True


def _entity(table: Table, partition: str | None = None) -> Entity:
    return Entity(database=table.database, table=table.name, partition=partition)
