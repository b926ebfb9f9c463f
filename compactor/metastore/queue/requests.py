"""Enters requests for compactions into the queue, or records in the history why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    Connection,
    insert,
    not_,
    or_,
    select,
    tuple_,
    update,
)

import compactor
from compactor.acid import partition_names
from compactor.base.errors import Refused
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.database.clock import now_ms
from compactor.database.engine import retried
from compactor.metastore.mutex import lock_scheduler
from compactor.metastore.queue import queue_rows
from compactor.metastore.queue.queue_rows import CQ
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.free_text import fit_free_text, unfit_names
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    NEXT_COMPACTION_QUEUE_ID,
    NEXT_WRITE_ID,
)

_NWI = NEXT_WRITE_ID.c
_PROPERTIES_LENGTH = 2048  #: CQ_TBLPROPERTIES


class Requests:
    """Enters requests into the queue."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table

    def request(self, request: Request) -> int:
        """Puts a request into the queue and returns its id.

        Raises:
            Refused: a compaction is waiting or working, a finished one covers all writes so far (Hive's
                ``CompactFunction``), or the properties are too long.
        """
        (answer,) = self.request_all([request])
        if isinstance(answer, Refused):
            raise answer
        return answer

    @retried
    def request_all(self, requests: Sequence[Request]) -> list[int | Refused]:
        """Puts requests into the queue in one transaction; returns the id of each, or why it is refused.

        The number of statements does not depend on the number of requests. A second request for the same entity is
        refused.
        """
        properties = [
            queue_rows.encode_properties(request.properties) if request.properties else None for request in requests
        ]
        with self._table.changing() as conn:
            lock_scheduler(conn, self._table.dialect)
            # The lock on the counter's row comes before all reads: it keeps two requesters apart on every database.
            counter = select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT)
            first = int(conn.execute(self._table.dialect.for_update(counter)).scalar_one())
            unfit = unfit_names(conn, [request.entity for request in requests])
            known = _Duplicates(conn, [request.entity for request in requests if request.entity not in unfit])
            now = now_ms(conn)
            answers: list[int | Refused] = []
            rows: list[dict[str, object]] = []
            for request, encoded in zip(requests, properties, strict=True):
                entry_id = first + len(rows)
                refused = self._unknown_type(request) or _too_long(request, encoded)
                refused = refused or _unfit(request, unfit) or known.refusal(request.entity)
                if refused is None:
                    rows.append(dict(fit_free_text(conn, _request_row(entry_id, request, encoded, now))))
                    known.add(request.entity, entry_id)
                answers.append(entry_id if refused is None else refused)
            if rows:
                conn.execute(update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=first + len(rows)))
                # replace: the id may have been drawn before, for a request that was not entered
                self._table.rows.keep({first + number: row for number, row in enumerate(rows)}, replace=True)
                conn.execute(insert(COMPACTION_QUEUE), [self._table.rows.stored(COMPACTION_QUEUE, row) for row in rows])
            return answers

    @retried
    def did_not_initiate(self, entity: Entity, message: str, *, initiator: str | None = None) -> int:
        """Records in the history why nothing was requested; returns the id of that row."""
        with self._table.changing() as conn:
            entry_id = self._table.draw(conn)
            now = now_ms(conn)
            row = {
                "CC_ID": entry_id,
                "CC_DATABASE": entity.database,
                "CC_TABLE": entity.table,
                "CC_PARTITION": entity.partition,
                "CC_STATE": State.DID_NOT_INITIATE.value,
                "CC_TYPE": CompactionType.MINOR.value,  # as in Hive
                "CC_ENQUEUE_TIME": now,
                "CC_START": now,
                "CC_END": now,
                "CC_ERROR_MESSAGE": message,
                "CC_INITIATOR_ID": initiator,
                "CC_INITIATOR_VERSION": compactor.__version__,
            }
            row = dict(fit_free_text(conn, row))
            self._table.rows.keep({entry_id: row}, replace=True)
            conn.execute(insert(COMPLETED_COMPACTIONS).values(**self._table.rows.stored(COMPLETED_COMPACTIONS, row)))
            return entry_id

    def _unknown_type(self, request: Request) -> Refused | None:
        known = self._table.dialect.request_types
        if known is None or request.type.value in known:
            return None
        return Refused(
            f"compaction of {request.entity}: Hive 3.1 does not know {request.type.label.lower()} compactions, and could "
            "not show its queue any more; request a minor or a major one"
        )


def _request_row(entry_id: int, request: Request, properties: str | None, now: int) -> dict[str, object]:
    return {
        "CQ_ID": entry_id,
        "CQ_DATABASE": request.entity.database,
        "CQ_TABLE": request.entity.table,
        "CQ_PARTITION": request.entity.partition,
        "CQ_STATE": State.INITIATED.value,
        "CQ_TYPE": request.type.value,
        "CQ_TBLPROPERTIES": properties,
        "CQ_ENQUEUE_TIME": now,
        "CQ_RUN_AS": request.run_as,
        "CQ_INITIATOR_ID": request.initiator,
        "CQ_INITIATOR_VERSION": compactor.__version__,
        "CQ_RETRY_RETENTION": 0,
        "CQ_POOL_NAME": request.pool,
        "CQ_NUMBER_OF_BUCKETS": request.buckets,
        "CQ_ORDER_BY": request.order_by,
    }


def _unfit(request: Request, unfit: Mapping[Entity, str]) -> Refused | None:
    name = unfit.get(request.entity)
    if name is None:
        return None
    return Refused(
        f"compaction of {request.entity}: the name {name!r} has characters that the column's character set does not have; "
        "give COMPACTION_QUEUE and the other transaction tables one that has them (utf8mb4 on MySQL)"
    )


def _too_long(request: Request, properties: str | None) -> Refused | None:
    if properties is None or len(properties) <= _PROPERTIES_LENGTH:
        return None
    return Refused(
        f"compaction of {request.entity}: its properties take {len(properties)} characters, "
        f"{_PROPERTIES_LENGTH} fit into the queue; pass fewer of them"
    )


class _Duplicates:
    """The rows of the queue that make a new request for one of ``entities`` pointless, whatever its type."""

    def __init__(self, conn: Connection, entities: Sequence[Entity]) -> None:
        self._rows: dict[Entity, tuple[State, int]] = {}
        tables = {(entity.database.lower(), entity.table.lower()) for entity in entities}
        names = {name for entity in entities for name in _forms(entity.partition)}
        counters = select(NEXT_WRITE_ID).where(tuple_(_NWI.NWI_DATABASE, _NWI.NWI_TABLE).in_(tables))
        last = {(row.NWI_DATABASE, row.NWI_TABLE): row.NWI_NEXT - 1 for row in conn.execute(counters)}
        here = [CQ.CQ_PARTITION.in_([name for name in names if name is not None])]
        here += [CQ.CQ_PARTITION.is_(None)] if None in names else []
        columns = (CQ.CQ_ID, CQ.CQ_STATE, CQ.CQ_DATABASE, CQ.CQ_TABLE, CQ.CQ_PARTITION, CQ.CQ_HIGHEST_WRITE_ID)
        states = [state.value for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)]
        query = select(*columns).where(CQ.CQ_STATE.in_(states), tuple_(CQ.CQ_DATABASE, CQ.CQ_TABLE).in_(tables))
        query = query.where(not_(queue_rows.OF_SOFT_DELETE))  # of a table of that name that was dropped
        for row in conn.execute(query.where(or_(*here)).order_by(CQ.CQ_ID)):
            state, table = State(row.CQ_STATE), (row.CQ_DATABASE.lower(), row.CQ_TABLE.lower())
            if state is not State.READY_FOR_CLEANING or row.CQ_HIGHEST_WRITE_ID == last.get(table, 0):
                entity = Entity(database=table[0], table=table[1], partition=row.CQ_PARTITION)
                self._rows.setdefault(entity, (state, row.CQ_ID))

    def refusal(self, entity: Entity) -> Refused | None:
        """Returns the error that refuses a request for ``entity`` and names its oldest row.

        Returns None if it is allowed.
        """
        rows = [row for name in _forms(entity.partition) if (row := self._rows.get(_lower(entity, name)))]
        if not rows:
            return None
        state, entry_id = min(rows, key=lambda row: row[1])
        return Refused(f"Compaction is already scheduled with state='{state.label}' and id={entry_id}")

    def add(self, entity: Entity, entry_id: int) -> None:
        self._rows[_lower(entity, entity.partition)] = (State.INITIATED, entry_id)


def _lower(entity: Entity, partition: str | None) -> Entity:
    return Entity(database=entity.database.lower(), table=entity.table.lower(), partition=partition)


def _forms(partition: str | None) -> tuple[str | None, ...]:
    """Returns every name under which a row of the queue may refer to ``partition``."""
    if partition is None:
        return (None,)
    less = partition_names.unescape_once(partition)
    return tuple(dict.fromkeys((*partition_names.recorded_names(partition), less)))
