"""The one critical section of compactions, and what is known about a commit afterwards."""

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
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.prepared import send_all
from compactor.metastore.catalog.locations import must_be_same_place, places_by_id
from compactor.metastore.notifications.log import Notifications
from compactor.metastore.notifications.transaction_events import compactions_committed
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
class Commit:
    """An entry whose output is about to be named, and the table and partition as they were read."""

    entry: Entry
    worker_id: str
    txn: TxnId
    table_id: int
    partition_id: int | None
    location: str
    statistics: CommitStatistics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """An entry that is proven to be ours, with an open transaction, while the body of ``committing_all`` runs."""

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
    def committing_all(self, commits: Sequence[Commit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        """The one critical section of compactions: the body names their outputs, the end commits (PROTOCOL 5).

        Checked on entry, for each: its transaction is open (and stays locked), the queue row is working and ours, table
        and partition are those that were read, at the same location, and the table has allocated the write IDs that
        were compacted. If any of this does not hold, the entry maps to a ``LostClaim``, and the body must not name its
        output. On exit the transactions of the others commit and their entries become ready for cleaning, all or none, and
        Hive's notification log tells of them where it is kept.
        If the body raises, everything is rolled back. The body must not touch a database. Statistics that were given are
        written with the commit, or left as they are.

        Raises:
            CommitUnknown: the answer to the commit was lost, for all of them.
        """
        found: dict[int, Committing | LostClaim] = {}
        with self._table.changing() as conn:
            txns = txn_rows.locked_rows(conn, self._table.dialect, [commit.txn for commit in commits])
            rows = self._table.locked_all(conn, [commit.entry.id for commit in commits])
            catalog = _Catalog.read(conn, commits, rows.values())
            for commit in commits:
                try:
                    current = _ours(commit, txns.get(commit.txn), rows.get(commit.entry.id))
                    found[commit.entry.id] = catalog.unchanged(conn, commit, current)
                except LostClaim as error:
                    found[commit.entry.id] = error
            yield MappingProxyType(found)
            held = {number: one for number, one in found.items() if isinstance(one, Committing)}
            if not held:
                return
            refresh = Refresh(statistics=self._statistics, conn=conn)
            refresh.read([_subject(one, one.statistics) for one in commits if one.entry.id in held and one.statistics])
            self._table.dialect.lock_transactions(conn, exclusive=True)
            refresh.write()
            newest = self._table.dialect.newest(conn)
            rebalances = {
                one.txn for one in held.values() if txns[one.txn].type is txn_rows.TxnType.REBALANCE_COMPACTION
            }
            for txn in sorted(rebalances):
                txn_rows.write_set(conn, txn, newest)
            txn_rows.mark_committed(conn, self._table.dialect, [one.txn for one in held.values()])
            values = {
                "CQ_STATE": State.READY_FOR_CLEANING.value,
                "CQ_WORKER_ID": None,
                "CQ_NEXT_TXN_ID": newest,
                "CQ_COMMIT_TIME": now_ms(conn),
                "CQ_ERROR_MESSAGE": None,  # workers that it has lost
            }
            for number in held:
                states.check(number, rows[number].state, State.READY_FOR_CLEANING)
            ready = [rows[number] for number in held]
            self._ready_to_clean(conn, ready, values)
            told = [(one, held[one.id].txn) for one in ready]
            self._notifications.write(conn, compactions_committed(told, known=rebalances))
        if not self._table.rows.is_whole:
            # Only once the commit is certain: if the row goes back to ``i``, these values would be taken for those of
            # its next compaction.
            for number in held:
                self._keep_result(number, values)

    def committed(self, entry: Entry, txn: TxnId) -> bool:
        """Returns true if ``txn`` is known to have committed the compaction of ``entry``, after the answer was lost.

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
        """Returns TXN_STATE of the transaction that compacted the entry; None if it has none, or its row is gone.

        Hive 3.1 forgets committed transactions, but there the same commit makes the entry ready for cleaning.
        """
        if entry.txn_id is None:
            return None
        if not self._table.dialect.remembers_commits and entry.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
            return txn_states.COMMITTED
        with self._table.database.read() as conn:
            return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == entry.txn_id)).scalar()

    def txn_states(self, entries: Collection[Entry]) -> dict[int, str | None]:
        """Returns ``txn_state`` of each of ``entries``, by its id, in one statement."""
        forgets = not self._table.dialect.remembers_commits
        over = (State.READY_FOR_CLEANING, State.SUCCEEDED)
        asked = {e.txn_id for e in entries if e.txn_id is not None and not (forgets and e.state in over)}
        found: dict[TxnId, str] = {}
        if asked:
            with self._table.database.read() as conn:
                query = select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID.in_(sorted(asked)))
                found = {TxnId(row.TXN_ID): row.TXN_STATE for row in conn.execute(query)}
        return {
            e.id: None if e.txn_id is None else found.get(e.txn_id) if e.txn_id in asked else txn_states.COMMITTED
            for e in entries
        }

    def rebalance_committed(self, txn: TxnId) -> bool:
        """Returns true if WRITE_SET has the row that only the commit of a rebalance writes; for a ``txn`` not in TXNS."""
        written = select(WRITE_SET.c.WS_TXNID).where(WRITE_SET.c.WS_TXNID == txn, WRITE_SET.c.WS_OPERATION_TYPE == "u")
        with self._table.database.read() as conn:
            return conn.execute(written.limit(1)).first() is not None

    def _keep_result(self, entry_id: int, values: Mapping[str, object]) -> None:
        try:
            self._table.rows.keep({entry_id: values})
        except DatabaseUnavailable as error:
            _log.warning(
                "the commit time of compaction %d is not kept; the time when it is first seen counts: %s",
                entry_id,
                error,
            )

    def _ready_to_clean(self, conn: Connection, entries: Sequence[Entry], values: Mapping[str, object]) -> None:
        """Does for each entry what ``QueueTable.change`` does, with one statement that is built once."""
        stored = self._table.rows.stored(COMPACTION_QUEUE, values)
        changes = [{"of_id": entry.id, "of_worker": entry.worker_id, **stored} for entry in entries]
        if send_all(conn, _WORKED_ON, changes) != len(entries):
            names = ", ".join(f"{entry.id} by {entry.worker_id}" for entry in entries)
            raise LostClaim(f"of the compactions {names}, not every one is being worked on any longer")


def _subject(commit: Commit, known: CommitStatistics) -> Subject:
    return Subject(
        entity=commit.entry.entity,
        txn=commit.txn,
        table_id=commit.table_id,
        partition_id=commit.partition_id,
        known=known,
    )


def _ours(commit: Commit, row: txn_rows.TxnRow | None, current: Entry | None) -> Entry:
    """Returns the entry as it is now, proven by its locked rows.

    Raises:
        LostClaim: it is not ours, or its transaction is not open.
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
    def read(cls, conn: Connection, commits: Sequence[Commit], rows: Iterable[Entry | None]) -> _Catalog:
        tables = {commit.table_id for commit in commits if commit.partition_id is None}
        partitions = {commit.partition_id for commit in commits if commit.partition_id is not None}
        names = {_table_of(row) for row in rows if row is not None}  # a RENAME changes them with the table's
        return cls(places=places_by_id(conn, tables, partitions), following=next_write_ids(conn, names))

    def unchanged(self, conn: Connection, commit: Commit, entry: Entry) -> Committing:
        """Checks that table and partition are those that were read, at the same location, with the same write IDs.

        Raises:
            LostClaim: they are not.
        """
        ids, entity = (commit.table_id, commit.partition_id), entry.entity
        assert entry.highest_write_id is not None
        if self.places.get(ids) != (entity, commit.location):  # they are looked up by name
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
