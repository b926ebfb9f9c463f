"""The critical section in which compactions commit, and questions about a commit afterwards."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import (
    Connection,
    bindparam,
    select,
    update,
)

from compactor.acid import txn_states
from compactor.base.errors import DatabaseUnavailable, LostClaim
from compactor.base.ids import TxnId, WriteId
from compactor.compaction import states
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.prepared import send_all
from compactor.metastore.catalog.locations import must_be_same_place, places_by_id
from compactor.metastore.notifications.notification_log import Notifications
from compactor.metastore.notifications.transaction_events import on_compaction_commits
from compactor.metastore.queue.entries import Entries
from compactor.metastore.queue.queue_rows import CQ
from compactor.metastore.queue.queue_table import QueueTable, must_be_open, must_be_ours
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    TXNS,
    WRITE_SET,
)
from compactor.metastore.statistics.commit_statistics import CommitStatistics, Subject
from compactor.metastore.statistics.refresh import Refresh, Statistics
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.write_id_rows import next_write_ids

_log = logging.getLogger(__name__)
_WORKED_ON = (
    update(COMPACTION_QUEUE)
    .where(CQ.CQ_ID == bindparam("of_id"))
    .where(CQ.CQ_STATE == State.WORKING.value, CQ.CQ_WORKER_ID == bindparam("of_worker"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCommit:
    """An entry whose output is about to get its name, with table and partition as they were read."""

    entry: Entry
    worker_id: str
    txn: TxnId
    table_id: int
    partition_id: int | None
    location: str
    statistics: CommitStatistics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """An entry that is ours and has an open transaction, while the body of ``committing_all`` runs."""

    entry_id: int
    txn: TxnId
    highest_write_id: WriteId


class Commits:
    """Commits compactions."""

    def __init__(self, table: QueueTable, statistics: Statistics, notifications: Notifications) -> None:
        self._table = table
        self._statistics = statistics
        self._notifications = notifications
        self._entries = Entries(table)

    @contextmanager
    def committing_all(self, commits: Sequence[EntryCommit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        """Runs the critical section of compactions: the body names their outputs, the end commits.

        See PROTOCOL 5.

        On entry it checks each entry: its transaction is open, and stays locked; the queue row is working and ours; table
        and partition are still the same, at the same location; the table has allocated the compacted write IDs. An entry
        that fails a check maps to a ``LostClaim``, and the body must not name its output.

        On exit the other transactions commit and their entries become ready for cleaning, all or none. Events go to
        Hive's notification log where it is in use. Statistics of the commits are written too, or stay as they are. If
        the body raises, everything is rolled back. The body must not touch a database.

        Raises:
            CommitUnknown: the answer to the commit was lost, for all of them.
        """
        checked: dict[int, Committing | LostClaim] = {}
        with self._table.changing() as conn:
            txns = txn_rows.locked_rows(conn, self._table.dialect, [commit.txn for commit in commits])
            rows = self._table.locked_all(conn, [commit.entry.id for commit in commits])
            catalog = _Catalog.read(conn, commits, rows.values())
            for commit in commits:
                try:
                    current = _check_claim(commit, txns.get(commit.txn), rows.get(commit.entry.id))
                    checked[commit.entry.id] = catalog.check(conn, commit, current)
                except LostClaim as error:
                    checked[commit.entry.id] = error
            yield MappingProxyType(checked)
            proven = {number: entry for number, entry in checked.items() if isinstance(entry, Committing)}
            if not proven:
                return
            refresh = Refresh(statistics=self._statistics, conn=conn)
            refresh.read(
                [
                    _subject(commit, commit.statistics)
                    for commit in commits
                    if commit.entry.id in proven and commit.statistics
                ]
            )
            self._table.dialect.lock_transactions(conn, exclusive=True)
            refresh.write()
            newest = self._table.dialect.newest(conn)
            rebalances = {
                entry.txn for entry in proven.values() if txns[entry.txn].type is txn_rows.TxnType.REBALANCE_COMPACTION
            }
            for txn in sorted(rebalances):
                txn_rows.write_set(conn, txn, newest)
            txn_rows.mark_committed(conn, self._table.dialect, [entry.txn for entry in proven.values()])
            values = {
                "CQ_STATE": State.READY_FOR_CLEANING.value,
                "CQ_WORKER_ID": None,
                "CQ_NEXT_TXN_ID": newest,
                "CQ_COMMIT_TIME": now_ms(conn),
                "CQ_ERROR_MESSAGE": None,  # the count of its lost workers
            }
            for number in proven:
                states.check_transition(number, rows[number].state, State.READY_FOR_CLEANING)
            ready = [rows[number] for number in proven]
            self._mark_ready(conn, ready, values)
            ready_txns = [(entry, proven[entry.id].txn) for entry in ready]
            self._notifications.write(conn, on_compaction_commits(ready_txns, announced=rebalances))
        if not self._table.rows.is_whole:
            # Kept only after the commit. If the row went back to ``i``, its next compaction would inherit the values.
            for number in proven:
                self._keep_result(number, values)

    def committed(self, entry: Entry, txn: TxnId) -> bool:
        """Returns true if ``txn`` has certainly committed the compaction of ``entry``; for a lost answer.

        Raises:
            NotFound: the entry is neither in the queue nor in the history.
        """
        if self._table.dialect.remembers_commits:
            with self._table.database.read() as conn:
                return (
                    conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == txn)).scalar() == txn_states.COMMITTED
                )
        now = self._entries.get(entry.id)
        return now.state in (State.READY_FOR_CLEANING, State.SUCCEEDED) and now.txn_id == txn

    def txn_state(self, entry: Entry) -> str | None:
        """Returns TXN_STATE of the transaction that compacted the entry.

        Returns None if it has none, or its row is gone.

        Hive 3.1 forgets committed transactions, but there the same commit makes the entry ready for cleaning.
        """
        if entry.txn_id is None:
            return None
        if not self._table.dialect.remembers_commits and entry.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
            return txn_states.COMMITTED
        with self._table.database.read() as conn:
            return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == entry.txn_id)).scalar()

    def txn_states(self, entries: Collection[Entry]) -> dict[int, str | None]:
        """Returns ``txn_state`` of each of ``entries`` by id, in one statement."""
        forgets = not self._table.dialect.remembers_commits
        over = (State.READY_FOR_CLEANING, State.SUCCEEDED)
        txns = {e.txn_id for e in entries if e.txn_id is not None and not (forgets and e.state in over)}
        states_by_txn: dict[TxnId, str] = {}
        if txns:
            with self._table.database.read() as conn:
                query = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID.in_(sorted(txns)))
                states_by_txn = {TxnId(row.TXN_ID): row.TXN_STATE for row in conn.execute(query)}
        return {
            e.id: None
            if e.txn_id is None
            else states_by_txn.get(e.txn_id)
            if e.txn_id in txns
            else txn_states.COMMITTED
            for e in entries
        }

    def rebalance_committed(self, txn: TxnId) -> bool:
        """Returns true if WRITE_SET has the row of a committed rebalance; for a ``txn`` without a row in TXNS."""
        written = select(WRITE_SET.c.WS_TXNID).where(WRITE_SET.c.WS_TXNID == txn, WRITE_SET.c.WS_OPERATION_TYPE == "u")
        with self._table.database.read() as conn:
            return conn.execute(written.limit(1)).first() is not None

    def _keep_result(self, entry_id: int, values: Mapping[str, object]) -> None:
        try:
            self._table.rows.keep({entry_id: values})
        except DatabaseUnavailable as error:
            _log.warning(
                "the commit time of compaction %d is not stored; the time of its first sighting counts instead: %s",
                entry_id,
                error,
            )

    def _mark_ready(self, conn: Connection, entries: Sequence[Entry], values: Mapping[str, object]) -> None:
        """Changes the row of each entry as ``QueueTable.change`` does, in one prepared statement."""
        stored = self._table.rows.stored(COMPACTION_QUEUE, values)
        changes = [{"of_id": entry.id, "of_worker": entry.worker_id, **stored} for entry in entries]
        if send_all(conn, _WORKED_ON, changes) != len(entries):
            names = ", ".join(f"{entry.id} by {entry.worker_id}" for entry in entries)
            raise LostClaim(f"not all of the compactions {names} are still being worked on")


def _subject(commit: EntryCommit, known: CommitStatistics) -> Subject:
    return Subject(
        entity=commit.entry.entity,
        txn=commit.txn,
        table_id=commit.table_id,
        partition_id=commit.partition_id,
        known=known,
    )


def _check_claim(commit: EntryCommit, row: txn_rows.TxnRow | None, current: Entry | None) -> Entry:
    """Returns the current entry after a check of its locked rows.

    Raises:
        LostClaim: the entry is not ours, or its transaction is not open.
    """
    entry, txn = commit.entry, commit.txn
    must_be_open(entry, txn, row, commit.worker_id)
    current = must_be_ours(entry, commit.worker_id, current)
    if current.txn_id != txn or current.highest_write_id is None:
        raise LostClaim(f"compaction {entry.id} was recorded for transaction {current.txn_id}, not {txn}")
    return current


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalog:
    """The names and locations of tables and partitions, by their ids, and the next write ID of each table."""

    places: Mapping[tuple[int, int | None], tuple[Entity, str]]
    following: Mapping[tuple[str, str], WriteId]

    @classmethod
    def read(cls, conn: Connection, commits: Sequence[EntryCommit], rows: Iterable[Entry | None]) -> _Catalog:
        tables = {commit.table_id for commit in commits if commit.partition_id is None}
        partitions = {commit.partition_id for commit in commits if commit.partition_id is not None}
        names = {_table_of(row) for row in rows if row is not None}  # a RENAME changes the names in the rows too
        return cls(places=places_by_id(conn, tables, partitions), following=next_write_ids(conn, names))

    def check(self, conn: Connection, commit: EntryCommit, entry: Entry) -> Committing:
        """Checks that table, partition, location and write IDs are those that were read.

        Raises:
            LostClaim: one of them has changed.
        """
        ids, entity = (commit.table_id, commit.partition_id), entry.entity
        assert entry.highest_write_id is not None
        if self.places.get(ids) != (entity, commit.location):  # then a look-up by name tells why
            must_be_same_place(conn, entry.id, entity, table_id=ids[0], partition_id=ids[1], location=commit.location)
        following = self.following[_table_of(entry)]
        if following <= entry.highest_write_id:
            raise LostClaim(
                f"compaction {entry.id}: {entity} allocates write ID {following} next, which is not above "
                f"{entry.highest_write_id}; the table was re-created meanwhile"
            )
        return Committing(entry_id=entry.id, txn=commit.txn, highest_write_id=entry.highest_write_id)


def _table_of(entry: Entry) -> tuple[str, str]:
    return entry.entity.database.lower(), entry.entity.table.lower()
