"""The transactions and the queue of a Hive 2.3 metastore in use.

Compactor is one more worker in it.

Each step follows Hive 2's own worker (``CompactionTxnHandler``), so its other threads keep working: a row goes ``i`` ->
``w`` -> ``r``, Hive's cleaner removes the directories that the new base replaces, and the row of a lost worker goes back
to ``i``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from compactor.acid import txn_states
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import LostClaim, Refused
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.catalog.locations import Locations, must_be_same_place
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.claim_token import ClaimToken
from compactor.metastore.mutex import lock_scheduler
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.hive2 import COMPACTION_QUEUE, NEXT_COMPACTION_QUEUE_ID, NEXT_TXN_ID, TXNS

_CQ = COMPACTION_QUEUE.c
_MAJOR = CompactionType.MAJOR.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the queue that we work on.

    ``number`` is unique to the claim, and part of the names of staged files.
    """

    id: int
    number: int
    entity: Entity
    worker_id: str
    is_new: bool  #: true if we entered the row


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRow:
    """A row that a worker has claimed."""

    id: int
    entity: Entity
    worker_id: str


class Hive2:
    """Reads and writes a metastore of Hive 2.3."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        database.adapt(dialect.adapt)
        self._database = database
        self._dialect = dialect
        self.catalog = Catalog(database)
        self.locations = Locations(database)
        self.claim_token = ClaimToken(database)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def snapshot(self) -> ValidTxnList:
        """Returns the snapshot now; a transaction without a row has committed (Hive 2's ``getOpenTxnsInfo``)."""
        with self._database.read() as conn:
            watermark = conn.execute(select(NEXT_TXN_ID.c.NTXN_NEXT)).scalar_one() - 1
            rows = conn.execute(select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID <= watermark)).all()
        aborted = frozenset(TxnId(row.TXN_ID) for row in rows if row.TXN_STATE == txn_states.ABORTED)
        return ValidTxnList(
            high_watermark=TxnId(watermark),
            open=frozenset(TxnId(row.TXN_ID) for row in rows) - aborted,
            aborted=aborted,
        )

    @retried
    def claim(self, entity: Entity, worker_id: str) -> Claim:
        """Takes the row of ``entity``, or enters a new row as taken.

        Raises:
            Refused: a worker compacts the entity already, or a minor compaction waits for a worker.
        """
        with self._database.write() as conn:
            lock_scheduler(conn, self._dialect)
            number = self._draw(conn)
            rows = conn.execute(self._dialect.for_update(select(COMPACTION_QUEUE).where(*_is_active(entity)))).all()
            for row in rows:
                if row.CQ_STATE == State.WORKING.value:
                    raise Refused(f"{entity}: {row.CQ_WORKER_ID} compacts it (compaction {row.CQ_ID}); wait for that")
                if row.CQ_TYPE != _MAJOR:
                    raise Refused(
                        f"{entity}: compaction {row.CQ_ID}, a minor, waits for Hive 2's worker; wait for that"
                    )
            values = {
                "CQ_STATE": State.WORKING.value,
                "CQ_WORKER_ID": worker_id,
                "CQ_START": now_ms(conn),
            }
            if rows:
                conn.execute(update(COMPACTION_QUEUE).where(_CQ.CQ_ID == rows[0].CQ_ID).values(**values))
                return Claim(id=rows[0].CQ_ID, number=number, entity=entity, worker_id=worker_id, is_new=False)
            new = {
                "CQ_ID": number,
                "CQ_DATABASE": entity.database,
                "CQ_TABLE": entity.table,
                "CQ_PARTITION": entity.partition,
                "CQ_TYPE": _MAJOR,
            }
            conn.execute(insert(COMPACTION_QUEUE).values(**new, **values))
            return Claim(id=number, number=number, entity=entity, worker_id=worker_id, is_new=True)

    @retried
    def record(self, claim: Claim, highest: WriteId, run_as: str) -> None:
        """Records the highest compacted transaction and the user who removes files, before files are staged.

        ``highest`` is the number of the base. Hive 2 itself records the high watermark, up to which its cleaner forgets
        aborted transactions; but those above the base may still have files.

        Raises:
            LostClaim: the row is no longer ours.
        """
        with self._database.write() as conn:
            self._lock_claimed(conn, claim)
            values = {"CQ_HIGHEST_TXN_ID": highest, "CQ_RUN_AS": run_as}
            conn.execute(update(COMPACTION_QUEUE).where(_CQ.CQ_ID == claim.id).values(**values))

    @contextmanager
    def committing(self, claim: Claim, *, table_id: int, partition_id: int | None, location: str) -> Iterator[None]:
        """Locks our row while the body names the base; then the row is ready for cleaning.

        Raises:
            LostClaim: the row is no longer ours, or its table has moved; nothing has changed.
            CommitUnknown: the answer to the commit was lost.
        """
        with self._database.write() as conn:
            self._lock_claimed(conn, claim)
            must_be_same_place(
                conn, claim.id, claim.entity, table_id=table_id, partition_id=partition_id, location=location
            )
            yield
            values = {"CQ_STATE": State.READY_FOR_CLEANING.value, "CQ_WORKER_ID": None}
            conn.execute(update(COMPACTION_QUEUE).where(_CQ.CQ_ID == claim.id).values(**values))

    @retried
    def let_go(self, claim: Claim) -> None:
        """Gives up a claim: deletes a row that we entered, and gives any other row back to Hive 2's workers."""
        with self._database.write() as conn:
            ours = (_CQ.CQ_ID == claim.id, *_worked_by(claim.worker_id))
            if claim.is_new:
                conn.execute(delete(COMPACTION_QUEUE).where(*ours))
            else:
                conn.execute(update(COMPACTION_QUEUE).where(*ours).values(**_WAITS))

    def working(self) -> list[ClaimedRow]:
        """Returns the rows that a worker has claimed."""
        with self._database.read() as conn:
            rows = conn.execute(select(COMPACTION_QUEUE).where(_CQ.CQ_STATE == State.WORKING.value)).all()
        return [
            ClaimedRow(
                id=row.CQ_ID,
                entity=Entity(database=row.CQ_DATABASE, table=row.CQ_TABLE, partition=row.CQ_PARTITION),
                worker_id=row.CQ_WORKER_ID or "",
            )
            for row in rows
        ]

    @retried
    def revoke(self, claimed: ClaimedRow) -> None:
        """Puts the row of a dead worker back to waiting (Hive 2's ``revokeFromLocalWorkers``)."""
        with self._database.write() as conn:
            dead = (_CQ.CQ_ID == claimed.id, *_worked_by(claimed.worker_id))
            conn.execute(update(COMPACTION_QUEUE).where(*dead).values(**_WAITS))

    def _lock_claimed(self, conn: Connection, claim: Claim) -> Row[Any]:
        query = select(COMPACTION_QUEUE).where(_CQ.CQ_ID == claim.id, *_worked_by(claim.worker_id))
        row = conn.execute(self._dialect.for_update(query)).first()
        if row is None:
            raise LostClaim(f"compaction {claim.id} of {claim.entity} is no longer worked on by {claim.worker_id}")
        return row

    def _draw(self, conn: Connection) -> int:
        next_id = conn.execute(self._dialect.for_update(select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT))).scalar_one()
        conn.execute(update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=next_id + 1))
        return int(next_id)


def write_ids(txns: ValidTxnList, entity: Entity) -> ValidWriteIdList:
    """Returns the snapshot of one table.

    In Hive 2 the number of a transaction is its write ID in every table.
    """
    return ValidWriteIdList(
        table=f"{entity.database}.{entity.table}",
        high_watermark=WriteId(txns.high_watermark),
        open=frozenset(map(WriteId, txns.open)),
        aborted=frozenset(map(WriteId, txns.aborted)),
    )


_WAITS = {"CQ_STATE": State.INITIATED.value, "CQ_WORKER_ID": None, "CQ_START": None}


def _is_active(entity: Entity) -> tuple[Any, ...]:
    """Returns the conditions for rows of ``entity`` that wait or are being worked on."""
    partition = _CQ.CQ_PARTITION.is_(None) if entity.partition is None else _CQ.CQ_PARTITION == entity.partition
    states = (State.INITIATED.value, State.WORKING.value)
    return (_CQ.CQ_DATABASE == entity.database, _CQ.CQ_TABLE == entity.table, partition, _CQ.CQ_STATE.in_(states))


def _worked_by(worker_id: str) -> tuple[Any, ...]:
    return (_CQ.CQ_STATE == State.WORKING.value, _CQ.CQ_WORKER_ID == worker_id)
