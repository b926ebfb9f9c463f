"""A transaction of Hive over any number of tables: one snapshot, its locks, a heartbeat, and its statements.

The snapshot is taken once, after the first locks, and stays the same until the end. A component is written before any file
of it can exist, so that an aborted transaction stays known as long as its files exist (PROTOCOL 8).
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
from compactor.compaction.entry import Entity
from compactor.locking.lock_requests import LockRequest
from compactor.locking.lock_types import LockType
from compactor.locking.statement_locks import locking_is_on
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog.values import Partition, Table
from compactor.metastore.transactions.commit_rows import InTransaction
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.site.heartbeat import Heartbeat
from compactor.site.mode import must_write
from compactor.site.site import Site, must_have_its_own_ground, path_of
from compactor.tables.transactions.added_partitions import AddedPartitions
from compactor.tables.transactions.created_tables import CreatedTables
from compactor.tables.transactions.held_locks import HeldLocks
from compactor.tables.transactions.loaded_tables import LoadedTable, load_again, must_be_as_loaded
from compactor.tables.transactions.lock_kinds import excluding, lock_of
from compactor.tables.transactions.numbers_on_disk import must_have_given_all_numbers, note_given
from compactor.tables.transactions.pending import Pending
from compactor.tables.transactions.unused_write_ids import UnusedWriteIds
from compactor.tables.transactions.watch import Watch
from compactor.tables.transactions.written import Written

log = logging.getLogger(__name__)
_BEGINNINGS = 10  #: times that a transaction begins again, in favour of others, before it gives up


class WriteOperation(enum.Enum):
    """A value of TC_OPERATION_TYPE."""

    INSERT = "i"
    UPDATE = "u"  #: INSERT OVERWRITE and TRUNCATE; row updates are deletes and inserts
    DELETE = "d"


#: Decides, together with the site's ``hive.txn.xlock.*``, which lock is taken.
_WHAT = {
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
    location: str  #: of the table, where partitions show only in the rows


class Transaction:
    """An open transaction. Made by ``running.transaction``; after its block has ended, nothing of its snapshot can be
    read."""

    def __init__(self, site: Site, txn: TxnId, opening: NewTransaction, heart: Heartbeat, watch: Watch) -> None:
        self._opening = opening
        self._heart = heart
        self._watch = watch
        self._statements: Counter[tuple[str, str]] = Counter()
        self._components: set[tuple[Entity, WriteOperation]] = set()
        self._locks = HeldLocks(site, txn, opening.user)
        self._as_loaded: dict[LoadedTable, Table] = {}  # read again under a lock that is held until the end
        self._provisional: list[WriteStatement] = []  # dynamic ones, whose partitions are not recorded yet
        self._txns: ValidTxnList | None = None
        self._write_ids: dict[tuple[str, str], ValidWriteIdList] = {}
        self._is_over = False
        self.site = (
            site if site.ground is not None else site.for_a_transaction()
        )  # one look at the ground of all tables
        self._unused = UnusedWriteIds(self.site)
        self.id = txn
        self.pending = Pending(site.storage, txn)
        self.added = AddedPartitions(site)
        self.created = CreatedTables(site)
        self.written = Written()
        self.in_doubt: str | None = None  #: why nothing may be written: the database is an older copy (PROTOCOL 11.2)
        self.with_commit: list[InTransaction] = []  #: done in the database transaction that commits what was written

    @property
    def agent(self) -> str | None:
        """The process that opened it, unique to this transaction and those in which it begins again."""
        return self._opening.agent

    @property
    def txns(self) -> ValidTxnList:
        """The transactions that this one sees: fixed when it is first asked for, after the first locks."""
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
        if self._watch.found is not None:
            raise self._watch.found
        try:
            self._heart.check()
        except LostClaim as error:
            raise SnapshotExpired(f"{error}; what it saw is no longer protected, begin again") from error

    def end(self) -> None:
        """Marks the transaction as ended: from now on ``check`` raises."""
        self._is_over = True

    def lock_for_reading(self, table: Table, partitions: Iterable[str | None]) -> None:
        """Takes SHARED_READ on the table (None) or on each of the partitions, all in one request.

        Locks on partitions are never collapsed to one on the table: the cleaner of Hive 3.1 looks for locks on exactly
        the entry that it cleans.

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            SnapshotExpired: as ``check`` does.
        """
        self.check()
        if not locking_is_on(self.site.settings):
            return
        self._take((_entity(table, name), LockType.SHARED_READ) for name in partitions)

    def must_be_as_loaded(self, table: Table) -> Table:
        """Reads ``table`` again, on which a lock is held, and returns it: nobody alters or drops it from now on
        (PROTOCOL 14.25).

        Raises:
            NotFound: it was renamed or dropped since it was loaded.
            Refused: it was altered.
        """
        loaded = LoadedTable.from_table(table)
        if loaded in self._as_loaded:
            return self._as_loaded[loaded]
        if (new := self.created.named(table.database, table.name)) is not None:
            must_be_as_loaded(loaded, new, self.site.metastore.catalog)
            return new
        now = load_again(self.site.metastore.catalog, loaded)
        if locking_is_on(self.site.settings):
            self._as_loaded[loaded] = now
        return now

    def lock_as_planned(self, requests: Sequence[LockRequest]) -> None:
        """Takes the locks that a statement was planned to take, all in one request, before anything is looked at.

        Raises:
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
        """
        self._must_live()
        self._locks.take_planned(requests)
        self._watch.has_locks = self._watch.has_locks or bool(requests)

    def write_ids(self, table: Table) -> ValidWriteIdList:
        """Returns the write IDs of ``table`` that this transaction sees, its own included, always the same."""
        name = (table.database, table.name)
        if name not in self._write_ids:
            self._write_ids[name] = self.site.write_ids(table, self.txns)
            if self.site.goes_by_write_ids:
                self.site.metastore.write_ids.hold(self.id, self._write_ids[name])
        return self._write_ids[name]

    def partitions(self, table: Table, names: Collection[str] | None = None) -> list[Partition]:
        """Returns the partitions of ``table``, or of those ``names`` alone, and those that this transaction adds."""
        found = self.site.metastore.catalog.partitions(table, None if names is None else sorted(names))
        known = {part.name for part in found}
        return found + [part for part in self.added.of(table) if part.name not in known]

    def statement(self, entity: Entity, operation: WriteOperation, loaded: Table | None = None) -> WriteStatement:
        """Begins the next statement on ``entity``: takes its lock and write ID, and records it before its files are made.

        Statement IDs count within one table, as Hive's do within a transaction.

        Args:
            loaded: the table that rows were fitted to; None if they will be fitted to the statement's.

        Raises:
            NotFound: the table or partition does not exist, or the table is not the one that was ``loaded``.
            Refused: the table is not transactional, its mode is observe, or it was altered since it was ``loaded``; its
                directory or the partition's overlaps another's.
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
            TransactionAborted: the transaction timed out.
            StorageError: a directory holds the write ID already: the metastore was restored, or is another's.
        """
        if (new := self.created.named(entity.database, entity.table)) is not None:
            return self._first_statement(new, entity, operation)
        if loaded is not None:  # from now on nobody alters or drops it
            self._lock_for_statement(loaded, entity, operation)
        target = self.site.target(entity)
        if loaded is not None:
            must_be_as_loaded(LoadedTable.from_table(loaded), target.table, self.site.metastore.catalog)
            must_write(target.settings, str(loaded))
        must_have_its_own_ground(self.site, target.table, target.partition)
        made = self._begin(target.table, entity, operation, target.location)
        self._unused.check(str(target.entity), target.table, target.location, made.write_id)
        if (entity, operation) not in self._components:
            self.site.metastore.write_ids.add_component(self.id, entity, operation.value, made.write_id)
            self._components.add((entity, operation))
        self.written.note(entity, made.write_id, target.location)
        reach(WriteStep.WRITE_BEGUN)
        return made

    def _first_statement(self, table: Table, entity: Entity, operation: WriteOperation) -> WriteStatement:
        """Begins the statement that writes the rows of a table which comes with the commit, as its component does."""
        made = self._begin(table, entity, operation, path_of(self.site.storage, table, None))
        self._unused.check(str(entity), table, made.location, made.write_id)
        self.created.record(entity, operation.value, made.write_id)
        self.written.note(entity, made.write_id, made.location)
        reach(WriteStep.WRITE_BEGUN)
        return made

    def take(self, made: WriteStatement, unused: UnusedWriteIds, *, is_provisional: bool) -> None:
        """Takes a statement that was begun ahead of this transaction's first: its lock is held, its write ID and component
        are recorded.

        Args:
            unused: looked for its write ID already, together with others.
            is_provisional: its component is of the table, until ``record_partitions``.
        """
        self._watch.writes, self._unused = True, unused
        if is_provisional:
            self._provisional.append(made)
            return
        self._components.add((made.entity, made.operation))
        self.written.note(made.entity, made.write_id, made.location)

    @contextmanager
    def whole_statement(self) -> Iterator[None]:
        """A statement that fails within the block leaves nothing behind that a later commit would name (PROTOCOL 14.12)."""
        staged, added, written = self.pending.directories, self.added.partitions, self.written.places
        try:
            yield
        except BaseException:
            self.pending.take_back(staged)
            self.added.take_back(added)
            self.written.take_back(written)
            for statement in list(self._provisional):
                with suppress(CompactorError):  # of a transaction that is lost, which the error says
                    self.record_partitions(statement, {})
            raise

    def lock_for_overwriting(self, table: Table, partition: str | None, to_read: Sequence[Entity] = ()) -> None:
        """Takes the lock of an INSERT OVERWRITE on the table or partition, and those to read others; see
        ``lock_for_changes``. What it replaces must be what its transaction has seen, or may see yet."""
        lock = lock_of(self.site, _WHAT[WriteOperation.UPDATE])
        self._lock_then_look(table, _entity(table, partition), lock, to_read, must_see_all=True)

    def lock_for_changes(
        self,
        table: Table,
        partitions: Iterable[str | None],
        kind: LockType | None = None,
        *,
        must_see_all: bool = False,
        others: Sequence[Entity] = (),
    ) -> None:
        """Takes the table's lock of an UPDATE or DELETE, or ``kind``, with those to read ``partitions`` and ``others``,
        before anything is looked at (PROTOCOL 14.2): all in one request, since a second one would wait behind whoever waits
        for the first.

        Where another transaction wrote into the table and committed while this one waited, this one begins again, so that
        it sees that; but not once it has read or written anything.

        Raises:
            NotFound, Refused: the table is not as it was loaded.
            WriteConflict: another transaction wrote meanwhile, this one cannot begin again, and the other one changed rows;
                if this one ``must_see_all`` rows, also where the other one only inserted some.
            LockNotGranted: a conflicting lock was held for longer than compactor.lock.wait.
        """
        lock = lock_of(self.site, AccessKind.DELETE) if kind is None else excluding(self.site, kind)
        to_read = [*(_entity(table, name) for name in partitions), *others]
        self._lock_then_look(table, _entity(table), lock, to_read, must_see_all=must_see_all)

    def _lock_then_look(
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
        """Goes on in another transaction, which nobody notices: nothing was read or written in this one."""
        old, (self.id,) = self.id, self.site.metastore.transactions.open_all([self._opening])
        self._heart.take(self.id)
        self._heart.let_go(old)
        self._watch.begin_again(self.id)
        self._locks = HeldLocks(self.site, self.id, self._opening.user)
        self._as_loaded.clear()
        self._write_ids.clear()
        self.pending = Pending(self.site.storage, self.id)
        self.added = AddedPartitions(self.site)
        because = "waited for a lock while another one wrote, and began again"
        self.site.metastore.transactions.abort(old, because, agent=self.agent)

    def dynamic_statement(
        self, table: Table, operation: WriteOperation, partition: str | None = None
    ) -> WriteStatement:
        """Begins a statement on a partitioned table whose partitions show only in its rows, or which adds ``partition``.

        A provisional component stands for all of its partitions until ``record_partitions`` (Hive's dynamic partitions).

        Raises:
            NotFound, Refused, LockNotGranted, TransactionAborted, StorageError: as ``statement`` does of a ``loaded`` table.
        """
        path = path_of(self.site.storage, table, None)
        is_new = self.created.named(table.database, table.name) is not None
        if not is_new:
            self._lock_for_statement(table, _entity(table, partition), operation)
            must_write(self.site.settings_for(self.must_be_as_loaded(table)), str(table))
            must_have_its_own_ground(self.site, table, None)
        made = self._begin(table, _entity(table, partition), operation, path)
        if not is_new:
            self.site.metastore.write_ids.add_component(self.id, _entity(table), operation.value, made.write_id)
        self._provisional.append(made)
        reach(WriteStep.WRITE_BEGUN)
        return made

    def statement_of_rows(self, table: Table, operation: WriteOperation) -> WriteStatement:
        """Begins the next statement on ``table`` as it was loaded, whose rows say in which partitions it writes, if
        there are any; raises as ``statement`` and ``dynamic_statement`` do."""
        if table.is_partitioned:
            return self.dynamic_statement(table, operation)
        return self.statement(_entity(table), operation, loaded=table)

    def check_partitions(self, table: Table, names: Collection[str]) -> None:
        """Checks those of these partitions that exist, before anything is staged in them (PROTOCOL 11.13).

        Raises:
            Refused: the directory of one overlaps another's.
        """
        for partition in self.site.metastore.catalog.partitions(table, sorted(names)) if names else ():
            must_have_its_own_ground(self.site, table, partition)

    def add_partition(self, table: Table, name: str, write_id: WriteId) -> Partition:
        """Adds a partition that does not exist, with the commit; see ``AddedPartitions.add``."""
        return self.added.add(table, name, write_id, (self.txns, self.write_ids(table)))

    def record_partitions(self, statement: WriteStatement, partitions: Mapping[str, str]) -> None:
        """Records the partitions of a dynamic statement, with their locations, in place of its provisional component."""
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
            self._take([(entity, kind), *((one, LockType.SHARED_READ) for one in to_read)])

    def _begin(self, table: Table, entity: Entity, operation: WriteOperation, location: str) -> WriteStatement:
        """Takes the lock and the write ID of a statement, of which nothing is recorded yet.

        Raises:
            Disagreement: the database, or the table's files, say that it is an older copy, which gives numbers again.
            StorageError: a directory at ``location`` holds the new write ID already, which then is not given.
        """
        if self.in_doubt is not None:
            raise Disagreement(f"{entity}: nothing is written: {self.in_doubt}")
        self._lock_for_statement(table, entity, operation)
        _ = self.txns  # fixed by the first statement, whatever it is (PROTOCOL 13.2)
        if self.created.named(table.database, table.name) is None:
            must_have_given_all_numbers(self.site, table)
        self._unused.look(table, location)  # a number that files have must not be drawn, or they would count as aborted
        write_id = self.site.metastore.write_ids.allocate(
            self.id, entity.database, entity.table, partial(self._unused.check, str(entity), table, location)
        )
        note_given(self.site, table, write_id)
        self._write_ids.pop((entity.database, entity.table), None)  # the new one belongs to it
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
        self._lock_for_writing(table, entity, lock_of(self.site, _WHAT[operation]))

    def _must_live(self) -> None:
        try:
            self._heart.check()
        except LostClaim as error:
            raise TransactionAborted(f"{error}; begin again") from error

    def _next_statement(self, entity: Entity) -> int:
        """Returns the next statement ID within a table.

        Raises:
            Refused: there are no more.
        """
        table = (entity.database, entity.table)
        number = self._statements[table]
        if number > MAX_STATEMENT:
            raise Refused(f"{entity}: a transaction has {MAX_STATEMENT + 1} statements on a table at most; commit it")
        self._statements[table] += 1
        return number

    def _take(self, wanted: Iterable[tuple[Entity, LockType]]) -> None:
        if self._locks.take(wanted):
            self._watch.has_locks = True


def _entity(table: Table, partition: str | None = None) -> Entity:
    return Entity(database=table.database, table=table.name, partition=partition)
