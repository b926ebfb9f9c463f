"""The one critical section of compactions, and what is known of a commit afterwards."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import (
    Connection,
    bindparam,
    select,
    update,
)

from compactor.compaction import states
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.database.clock import now_ms
from compactor.database.prepared import send
from compactor.errors import DatabaseUnavailable, LostClaim
from compactor.ids import TxnId, WriteId
from compactor.metastore.catalog.locations import same_place
from compactor.metastore.queue.entries import Entries
from compactor.metastore.queue.rows import CQ
from compactor.metastore.queue.table import QueueTable, must_be_open, must_be_ours
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    TXNS,
    WRITE_SET,
)
from compactor.metastore.transactions import rows as txn_rows
from compactor.metastore.transactions.write_ids import next_write_id

_log = logging.getLogger(__name__)
_WORKED_ON = (
    update(COMPACTION_QUEUE)
    .where(CQ.CQ_ID == bindparam("of_id"))
    .where(CQ.CQ_STATE == State.WORKING.value, CQ.CQ_WORKER_ID == bindparam("of_worker"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a worker is about to name: its entry, and where that was read."""

    entry: Entry
    worker_id: str
    txn: TxnId
    table_id: int
    partition_id: int | None
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """What ``committing_all`` proves while its body runs: the entry is ours and its transaction is open."""

    entry_id: int
    txn: TxnId
    highest_write_id: WriteId


class Commits:
    """Commits compactions."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._entries = Entries(table)

    @contextmanager
    def committing_all(self, commits: Sequence[Commit]) -> Iterator[Mapping[int, Committing | LostClaim]]:
        """The one critical section of compactions: the body names their outputs, the end commits (PROTOCOL 5).

        On entry, for each: its transaction is open and stays locked, the queue row is working and ours, table and
        partition are those that were read, at the same location, and the table has handed out the write IDs that were
        compacted. Where any of it does not hold its ``LostClaim`` is found instead, and the body must not name it. On
        exit: the transactions of the others commit and their entries become ready for cleaning, all or none. When the
        body raises, everything is rolled back. The body must not touch a database.

        Raises:
            CommitUnknown: the answer of the commit was lost, for all of them.
        """
        found: dict[int, Committing | LostClaim] = {}
        with self._table.changing() as conn:
            txns = txn_rows.locked_rows(conn, self._table.dialect, [commit.txn for commit in commits])
            rows = self._table.locked_all(conn, [commit.entry.id for commit in commits])
            for commit in commits:
                try:
                    found[commit.entry.id] = _committing(conn, commit, txns.get(commit.txn), rows.get(commit.entry.id))
                except LostClaim as error:
                    found[commit.entry.id] = error
            yield MappingProxyType(found)
            held = {number: one for number, one in found.items() if isinstance(one, Committing)}
            if not held:
                return
            self._table.dialect.lock_transactions(conn, exclusive=True)
            newest = self._table.dialect.newest(conn)
            for one in held.values():
                if txns[one.txn].type is txn_rows.TxnType.REBALANCE_COMPACTION:
                    txn_rows.write_set(conn, one.txn, newest)
            txn_rows.mark_committed(conn, self._table.dialect, [one.txn for one in held.values()])
            values = {
                "CQ_STATE": State.READY_FOR_CLEANING.value,
                "CQ_WORKER_ID": None,
                "CQ_NEXT_TXN_ID": newest,
                "CQ_COMMIT_TIME": now_ms(conn),
            }
            for number in held:
                states.check(number, rows[number].state, State.READY_FOR_CLEANING)
                self._ready_to_clean(conn, rows[number], values)
        if not self._table.rows.is_whole:
            # Only once it is certain: on a row that goes back to ``i`` these would be another compaction's.
            for number in held:
                self._keep_result(number, values)

    def committed(self, entry: Entry, txn: TxnId) -> bool:
        """Whether the compaction of ``entry`` by ``txn`` is known to be committed, after its answer was lost.

        Raises:
            NotFound: nothing is known of the entry any more.
        """
        if self._table.dialect.remembers_commits:
            with self._table.database.read() as conn:
                return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == txn)).scalar() == txn_rows.COMMITTED
        now = self._entries.get(entry.id)
        return now.state in (State.READY_FOR_CLEANING, State.SUCCEEDED) and now.txn_id == txn

    def txn_state(self, entry: Entry) -> str | None:
        """TXN_STATE of the transaction that an entry was compacted by; None where it has none, or no row any more.

        Hive 3.1 forgets what committed; but there the same commit makes the entry ready for cleaning.
        """
        if entry.txn_id is None:
            return None
        if not self._table.dialect.remembers_commits and entry.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
            return txn_rows.COMMITTED
        with self._table.database.read() as conn:
            return conn.execute(select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == entry.txn_id)).scalar()

    def rebalance_committed(self, txn: TxnId) -> bool:
        """Whether WRITE_SET holds what only its commit writes there, of a rebalance whose row in TXNS is gone."""
        written = select(WRITE_SET.c.WS_TXNID).where(WRITE_SET.c.WS_TXNID == txn, WRITE_SET.c.WS_OPERATION_TYPE == "u")
        with self._table.database.read() as conn:
            return conn.execute(written.limit(1)).first() is not None

    def _keep_result(self, entry_id: int, values: Mapping[str, object]) -> None:
        try:
            self._table.rows.keep({entry_id: values})
        except DatabaseUnavailable as error:
            _log.warning("when compaction %d committed is not kept; its first sight counts: %s", entry_id, error)

    def _ready_to_clean(self, conn: Connection, entry: Entry, values: Mapping[str, object]) -> None:
        """As ``_change``, by a statement that is made once."""
        stored = self._table.rows.stored(COMPACTION_QUEUE, values)
        if send(conn, _WORKED_ON, {"of_id": entry.id, "of_worker": entry.worker_id, **stored}).count != 1:
            raise LostClaim(f"compaction {entry.id} is not {entry.state.label} by {entry.worker_id} any more")


def _committing(conn: Connection, commit: Commit, row: txn_rows.TxnRow | None, current: Entry | None) -> Committing:
    """What is proven of ``commit``, whose rows are locked.

    Raises:
        LostClaim: it does not hold.
    """
    entry, txn = commit.entry, commit.txn
    must_be_open(entry, txn, row)
    current = must_be_ours(entry, commit.worker_id, current)
    if current.txn_id != txn or current.highest_write_id is None:
        raise LostClaim(f"compaction {entry.id} was recorded for transaction {current.txn_id}, not {txn}")
    _same_place(conn, current, commit.table_id, commit.partition_id, commit.location)
    return Committing(entry_id=entry.id, txn=txn, highest_write_id=current.highest_write_id)


def _same_place(conn: Connection, entry: Entry, table_id: int, partition_id: int | None, location: str) -> None:
    """That table and partition are those that were read, where they were, and hand out the same write IDs."""
    entity = entry.entity
    same_place(conn, entry.id, entity, table_id=table_id, partition_id=partition_id, location=location)
    following = next_write_id(conn, entity.database, entity.table)
    if entry.highest_write_id is not None and following <= entry.highest_write_id:
        raise LostClaim(
            f"compaction {entry.id}: {entity} hands out write ID {following} next, which is not above "
            f"{entry.highest_write_id}; the table was made again meanwhile"
        )
