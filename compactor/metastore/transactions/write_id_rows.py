"""Write IDs: allocates them to transactions, table by table, and finds those that a snapshot sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, tuple_, update

from compactor.acid import txn_states
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import local_time, now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts, send, send_all
from compactor.metastore.notifications.notification_log import Notifications
from compactor.metastore.notifications.transaction_events import on_allocation, on_allocations
from compactor.metastore.schema.counter_rows import try_insert
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    NEXT_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from compactor.metastore.transactions import commit_rows
from compactor.metastore.transactions.transaction_rows import TxnType, must_all_be_open, must_be_open

_AT_ONCE = 500  #: transactions in one statement


class WriteIds:
    """Reads and writes NEXT_WRITE_ID, TXN_TO_WRITE_ID and the components of transactions."""

    def __init__(self, database: Database, dialect: Dialect, notifications: Notifications | None = None) -> None:
        self._database = database
        self._dialect = dialect
        self._notifications = notifications or Notifications(dialect)
        self._counter = dialect.for_update(select(_NWI.NWI_NEXT).where(_HERE))

    @retried
    def allocate(
        self, txn: TxnId, database: str, table: str, check: Callable[[WriteId], None] | None = None
    ) -> WriteId:
        """Returns the write ID of ``txn`` in one table, and allocates it if it has none.

        Args:
            check: called with a new write ID; if it raises, the allocation is rolled back. It makes other writers of the
                table wait.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
            Refused: it is read-only.
        """
        database, table = database.lower(), table.lower()
        with self._database.write() as conn:
            if must_be_open(conn, self._dialect, txn).type is TxnType.READ_ONLY:
                raise Refused(f"transaction {txn} is read-only; it gets no write ID of {database}.{table}")
            known = send(conn, _OF_TXN, {"of_database": database, "of_table": table, "of_txn": txn}).scalar()
            if known is not None:
                return WriteId(known)
            drawn = self._draw(conn, database, table)
            if check is not None:
                check(drawn)
            mapping = {"T2W_TXNID": txn, "T2W_DATABASE": database, "T2W_TABLE": table, "T2W_WRITEID": drawn}
            send(conn, _MAPPING, mapping)
            self._notifications.write(conn, on_allocation(txn, database, table, drawn))
            return drawn

    @retried
    def allocate_all(
        self,
        txns: Collection[TxnId],
        database: str,
        table: str,
        check: Callable[[WriteId, WriteId], None] | None = None,
    ) -> dict[TxnId, WriteId]:
        """Allocates write IDs to several transactions without one in this table, in their order; all or none.

        As in Hive's ``AllocateTableWriteIdsFunction``. ``check`` gets the first and the last write ID; see ``allocate``.

        Raises:
            TransactionAborted: one of them is aborted.
            NotFound: one of them is committed or unknown.
        """
        database, table, ordered = database.lower(), table.lower(), sorted(txns)
        with self._database.write() as conn:
            must_all_be_open(conn, self._dialect, ordered)
            write_ids = self.assign(conn, ordered, database, table)
            if check is not None:
                check(write_ids[ordered[0]], write_ids[ordered[-1]])
            self._notifications.write(conn, on_allocations(write_ids, database, table))
        return write_ids

    def next(self, database: str, table: str) -> WriteId:
        """Returns the write ID that the next writer of the table gets; 1 for a table without writes."""
        with self._database.read() as conn:
            return next_write_id(conn, database.lower(), table.lower())

    def next_by_table(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], WriteId]:
        """Returns the next write ID of several tables, by database and table in lower case."""
        if not names:
            return {}
        with self._database.read() as conn:
            return next_write_ids(conn, names)

    def valid(self, database: str, table: str, txns: ValidTxnList) -> ValidWriteIdList:
        """Returns the valid write-id list of the table for the snapshot ``txns``.

        A write ID up to the high watermark without a mapping counts as committed, as its mapping was purged.
        """
        name = (database.lower(), table.lower())
        return self.valid_by_table([name], txns)[name]

    def valid_by_table(
        self, names: Collection[tuple[str, str]], txns: ValidTxnList
    ) -> dict[tuple[str, str], ValidWriteIdList]:
        """Returns the valid write-id lists of several tables, by database and table in lower case."""
        last = dict.fromkeys(names, 0)
        mapped: dict[tuple[str, str], list[tuple[TxnId, WriteId]]] = {name: [] for name in last}
        if not last:
            return {}
        counters = select(NEXT_WRITE_ID).where(tuple_(_NWI.NWI_DATABASE, _NWI.NWI_TABLE).in_(last))
        mappings = select(TXN_TO_WRITE_ID).where(tuple_(_T2W.T2W_DATABASE, _T2W.T2W_TABLE).in_(last))
        with self._database.read() as conn:
            for row in conn.execute(counters):  # MySQL ignores the case of names
                last[row.NWI_DATABASE.lower(), row.NWI_TABLE.lower()] = row.NWI_NEXT - 1
            for row in conn.execute(mappings):
                mapped[row.T2W_DATABASE.lower(), row.T2W_TABLE.lower()].append((row.T2W_TXNID, row.T2W_WRITEID))
        return {name: _valid(name, WriteId(last[name]), mapped[name], txns) for name in last}

    def seen_by_all(self, database: str, table: str) -> WriteId:
        """Returns the write ID up to which every open transaction sees the outcome of each write.

        MIN_HISTORY_LEVEL records the lowest open transaction at the start of each transaction. If an open one has no
        such row (``hive.txn.use.minhistorylevel`` false), the answer is 0. Compactions do not count.
        """
        database, table = database.lower(), table.lower()
        reads = func.coalesce(TXNS.c.TXN_TYPE, 0).not_in([kind for kind in TxnType if kind.compacts])
        levels = (
            select(func.coalesce(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID, 0))
            .select_from(TXNS.outerjoin(MIN_HISTORY_LEVEL, TXNS.c.TXN_ID == MIN_HISTORY_LEVEL.c.MHL_TXNID))
            .where(TXNS.c.TXN_STATE == txn_states.OPEN, reads)
        )
        with self._database.read() as conn:
            last = next_write_id(conn, database, table) - 1
            lowest = min(conn.execute(levels).scalars(), default=None)
            if lowest is None:
                return WriteId(last)
            if lowest == 0:
                return WriteId(0)
            later = select(func.min(_T2W.T2W_WRITEID)).where(_of_table(database, table), _T2W.T2W_TXNID >= lowest)
            first = conn.execute(later).scalar()
        return WriteId(last if first is None else first - 1)

    @retried
    def add_component(self, txn: TxnId, entity: Entity, operation: str, write_id: WriteId | None) -> None:
        """Records that ``txn`` inserts (``i``), overwrites (``u``), updates or deletes (``d``).

        It does so before ``txn`` creates files.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
            Refused: ``operation`` is another one.
        """
        if operation not in ("i", "u", "d"):
            raise Refused(f"component of transaction {txn} on {entity}: operation {operation!r} is none of i, u, d")
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            insert_component(conn, txn, entity, operation, write_id)

    @retried
    def add_components(self, write_ids: Mapping[TxnId, WriteId], entity: Entity, operation: str) -> None:
        """Records components of several transactions, all or none; see ``add_component``.

        Raises:
            TransactionAborted: one of them is aborted.
            NotFound: one of them is committed or unknown.
        """
        with self._database.write() as conn:
            must_all_be_open(conn, self._dialect, sorted(write_ids))
            insert_components(conn, [(txn, entity, operation, write_ids[txn]) for txn in sorted(write_ids)])

    @retried
    def add_partitions(
        self, txn: TxnId, entity: Entity, partitions: Collection[str], operation: str, write_id: WriteId
    ) -> None:
        """Replaces a statement's provisional component on the table by the partitions that it wrote into.

        As Hive's ``AddDynamicPartitionsFunction`` does, before readers see the names of files in them.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
        """
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            record_partitions(txn, entity, partitions, operation, write_id)(conn)

    def later_writer(
        self,
        txn: TxnId,
        database: str,
        table: str,
        *,
        seen: ValidTxnList | None = None,
        only_changes: bool = False,
    ) -> TxnId | None:
        """Returns a transaction that wrote into a table and committed after ``txn`` was opened.

        Returns None without one.

        ``txn``, with the snapshot ``seen`` if it has one, does not see that transaction or would lose to it.
        ``only_changes`` counts only transactions that updated, deleted or overwrote.
        """
        with self._database.read() as conn:
            return commit_rows.later_writer(conn, txn, database, table, seen=seen, only_changes=only_changes)

    @retried
    def hold(self, txn: TxnId, valid: ValidWriteIdList) -> None:
        """Records once the lowest write ID of a table that ``txn`` may read.

        Hive does so with ``hive.txn.use.minhistorywriteid``.

        Hive's cleaners that use MIN_HISTORY_WRITE_ID keep everything from it upward. The row is deleted with the
        transaction. A schema without that table gets no row.

        Raises:
            TransactionAborted: the transaction is aborted.
            NotFound: it is committed or unknown.
        """
        if not self._dialect.has(MIN_HISTORY_WRITE_ID):
            return
        if valid.table is None:
            raise AssertionError("only the list of one table can be recorded")
        database, _, table = valid.table.partition(".")
        lowest = min(valid.open, default=valid.high_watermark + 1)
        here = (_MH.MH_TXNID == txn, _MH.MH_DATABASE == database, _MH.MH_TABLE == table)
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            if conn.execute(select(_MH.MH_TXNID).where(*here)).first() is None:
                row = {"MH_TXNID": txn, "MH_DATABASE": database, "MH_TABLE": table, "MH_WRITEID": lowest}
                conn.execute(insert(MIN_HISTORY_WRITE_ID).values(**row))

    def allocated_to(self, txn: TxnId) -> list[tuple[str, str, WriteId]]:
        """Returns database, table and write ID of each table that ``txn`` may have written, if not purged."""
        with self._database.read() as conn:
            rows = conn.execute(
                select(TXN_TO_WRITE_ID).where(_T2W.T2W_TXNID == txn).order_by(_T2W.T2W_DATABASE, _T2W.T2W_TABLE)
            )
            return [(row.T2W_DATABASE, row.T2W_TABLE, WriteId(row.T2W_WRITEID)) for row in rows]

    def allocated_to_all(self, txns: Collection[TxnId]) -> list[tuple[TxnId, str, str, WriteId]]:
        """Returns transaction, database, table and write ID of each table that ``txns`` may have written."""
        with self._database.read() as conn:
            return [
                (TxnId(row.T2W_TXNID), row.T2W_DATABASE, row.T2W_TABLE, WriteId(row.T2W_WRITEID))
                for batch in in_parts(sorted(txns), _AT_ONCE)
                for row in conn.execute(select(TXN_TO_WRITE_ID).where(_T2W.T2W_TXNID.in_(batch)))
            ]

    def allocated_to_aborted(self) -> list[tuple[TxnId, str, str, WriteId]]:
        """Returns each transaction, table and write ID that aborted transactions may have written."""
        query = (
            select(TXN_TO_WRITE_ID)
            .join(TXNS, TXNS.c.TXN_ID == _T2W.T2W_TXNID)
            .where(TXNS.c.TXN_STATE == txn_states.ABORTED)
        )
        with self._database.read() as conn:
            return [
                (TxnId(row.T2W_TXNID), row.T2W_DATABASE, row.T2W_TABLE, WriteId(row.T2W_WRITEID))
                for row in conn.execute(query)
            ]

    def of_compactions(self, database: str, table: str) -> frozenset[WriteId]:
        """Returns the write IDs of the table that belong to compactions, such as rebalances, if not purged."""
        of_table = _of_table(database.lower(), table.lower())
        compacts = TXNS.c.TXN_TYPE.in_([kind for kind in TxnType if kind.compacts])
        query = select(_T2W.T2W_WRITEID).join(TXNS, TXNS.c.TXN_ID == _T2W.T2W_TXNID).where(of_table, compacts)
        with self._database.read() as conn:
            return frozenset(map(WriteId, conn.execute(query).scalars()))

    def transactions(self, database: str, table: str) -> dict[WriteId, TxnId]:
        """Returns the transaction of each write ID of the table, if not purged."""
        with self._database.read() as conn:
            rows = conn.execute(select(TXN_TO_WRITE_ID).where(_of_table(database.lower(), table.lower())))
            return {WriteId(row.T2W_WRITEID): TxnId(row.T2W_TXNID) for row in rows}

    def commit_times(self, database: str, table: str) -> dict[WriteId, int]:
        """Returns the known times of commits in epoch milliseconds, by write ID; cleaners make them forgotten.

        The database wrote them by the clock of its own zone, so its clock tells how long ago they were.
        """
        times, here = COMPLETED_TXN_COMPONENTS.c, (database.lower(), table.lower())
        query = select(times.CTC_WRITEID, func.min(times.CTC_TIMESTAMP)).where(
            times.CTC_DATABASE == here[0], times.CTC_TABLE == here[1], times.CTC_WRITEID.is_not(None)
        )
        with self._database.read() as conn:
            rows = conn.execute(query.group_by(times.CTC_WRITEID)).all()
            local, now = local_time(conn), now_ms(conn)
        return {WriteId(number): now - round((local - at).total_seconds() * 1000) for number, at in rows}

    def assign(self, conn: Connection, txns: Sequence[TxnId], database: str, table: str) -> dict[TxnId, WriteId]:
        """Allocates a write ID to each of ``txns`` within the caller's transaction.

        That transaction also writes their events.

        All of them are open and have no write ID in this table.
        """
        first = self._draw(conn, database, table, len(txns))
        write_ids = {txn: WriteId(first + number) for number, txn in enumerate(txns)}
        here = {"T2W_DATABASE": database, "T2W_TABLE": table}
        send_all(conn, _MAPPING, [{"T2W_TXNID": txn, **here, "T2W_WRITEID": drawn} for txn, drawn in write_ids.items()])
        return write_ids

    def _draw(self, conn: Connection, database: str, table: str, count: int = 1) -> WriteId:
        """Returns the first of ``count`` new write IDs of the table."""
        here = {"of_database": database, "of_table": table}
        next_number = send(conn, self._counter, here).scalar()
        if next_number is None:
            first = insert(NEXT_WRITE_ID).values(NWI_DATABASE=database, NWI_TABLE=table, NWI_NEXT=1 + count)
            if try_insert(conn, first):
                return WriteId(1)
            return self._draw(conn, database, table, count)
        send(conn, _DRAWN, {**here, "NWI_NEXT": next_number + count})
        return WriteId(next_number)


_T2W = TXN_TO_WRITE_ID.c
_NWI = NEXT_WRITE_ID.c

# Built once: every writer uses them, and building a statement takes several times as long as running it.
_HERE = (_NWI.NWI_DATABASE == bindparam("of_database")) & (_NWI.NWI_TABLE == bindparam("of_table"))
_NEXT = select(_NWI.NWI_NEXT).where(_HERE)
_DRAWN = update(NEXT_WRITE_ID).where(_HERE)
_MAPPING = insert(TXN_TO_WRITE_ID)
_COMPONENT = insert(TXN_COMPONENTS)
_OF_TXN = select(_T2W.T2W_WRITEID).where(
    _T2W.T2W_DATABASE == bindparam("of_database"),
    _T2W.T2W_TABLE == bindparam("of_table"),
    _T2W.T2W_TXNID == bindparam("of_txn"),
)
_MH = MIN_HISTORY_WRITE_ID.c


def _valid(
    name: tuple[str, str], last: WriteId, mapped: Collection[tuple[TxnId, WriteId]], txns: ValidTxnList
) -> ValidWriteIdList:
    watermark = _watermark(last, mapped, txns)
    invisible = [(txn, number) for txn, number in mapped if number <= watermark and not txns.is_valid(txn)]
    aborted = frozenset(number for txn, number in invisible if txns.is_aborted(txn))
    return ValidWriteIdList(
        table=".".join(name),
        high_watermark=watermark,
        open=frozenset(number for _, number in invisible) - aborted,
        aborted=aborted,
    )


def _watermark(last: WriteId, mapped: Collection[tuple[TxnId, WriteId]], txns: ValidTxnList) -> WriteId:
    """Returns the highest write ID whose transaction the snapshot may know.

    ``last`` is the last allocated one.

    A purged mapping above it belongs to a committed transaction that is older than the transaction of a lower write ID.
    Hive hides its rows until that other one ends. Here the list then reaches to the last allocated write ID.
    """
    highest = max((number for txn, number in mapped if txn <= txns.high_watermark), default=None)
    if highest is None:
        return last
    above = sum(number > highest for _, number in mapped)
    return highest if above == last - highest else max(highest, last)


def _of_table(database: str, table: str) -> ColumnElement[bool]:
    return (_T2W.T2W_DATABASE == database) & (_T2W.T2W_TABLE == table)


def next_write_id(conn: Connection, database: str, table: str) -> WriteId:
    """Returns the write ID that the next writer of the table gets, as this database transaction sees it."""
    next_number = send(conn, _NEXT, {"of_database": database, "of_table": table}).scalar()
    return WriteId(1 if next_number is None else next_number)


def next_write_ids(conn: Connection, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], WriteId]:
    """Returns the next write ID of several tables, by database and table in lower case."""
    following = dict.fromkeys(names, WriteId(1))
    counters = select(NEXT_WRITE_ID).where(tuple_(_NWI.NWI_DATABASE, _NWI.NWI_TABLE).in_(following))
    for row in conn.execute(counters):  # MySQL ignores the case of names
        following[row.NWI_DATABASE.lower(), row.NWI_TABLE.lower()] = WriteId(row.NWI_NEXT)
    return following


def record_partitions(
    txn: TxnId, entity: Entity, partitions: Collection[str], operation: str, write_id: WriteId
) -> commit_rows.InTransaction:
    """Returns a function that records ``partitions`` in a transaction; see ``WriteIds.add_partitions``."""

    def record(conn: Connection) -> None:
        components = TXN_COMPONENTS.c
        insert_components(
            conn, [(txn, replace(entity, partition=name), operation, write_id) for name in sorted(partitions)]
        )
        of_table = (components.TC_DATABASE == entity.database, components.TC_TABLE == entity.table)
        provisional = (components.TC_PARTITION.is_(None), components.TC_OPERATION_TYPE == operation)
        conn.execute(delete(TXN_COMPONENTS).where(components.TC_TXNID == txn, *of_table, *provisional))

    return record


def insert_component(conn: Connection, txn: TxnId, entity: Entity, operation: str, write_id: WriteId | None) -> None:
    """Inserts one row into TXN_COMPONENTS."""
    insert_components(conn, [(txn, entity, operation, write_id)])


def insert_components(conn: Connection, rows: Iterable[tuple[TxnId, Entity, str, WriteId | None]]) -> None:
    """Inserts rows into TXN_COMPONENTS: transaction, entity, operation (TC_OPERATION_TYPE) and write ID."""
    components = [
        {
            "TC_TXNID": txn,
            "TC_DATABASE": entity.database,
            "TC_TABLE": entity.table,
            "TC_PARTITION": entity.partition,
            "TC_OPERATION_TYPE": operation,
            "TC_WRITEID": write_id,
        }
        for txn, entity, operation, write_id in rows
    ]
    if components:
        send_all(conn, _COMPONENT, components)
