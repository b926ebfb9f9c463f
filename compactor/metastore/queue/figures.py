"""Figures of the queue and the history, counted by the database, so that their size does not matter.

A schema that lacks columns (Hive 3.1 and older) keeps values outside of its rows. There the failures and the rows of the
last day are read and counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, case, func, select

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.lost_count import LOST, lost_workers
from compactor.compaction.states import State
from compactor.metastore.queue.queue_rows import CC, CQ, KNOWN_ENDED, KNOWN_QUEUED
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

_STATES = tuple(state.value for state in State)
#: The time since which a row of the queue is in its state.
_SINCE: Mapping[State, ColumnElement[Any]] = {
    State.INITIATED: case((CQ.CQ_ENQUEUE_TIME > 0, CQ.CQ_ENQUEUE_TIME)),
    State.WORKING: case((CQ.CQ_START > 0, CQ.CQ_START)),
    State.READY_FOR_CLEANING: case((CQ.CQ_COMMIT_TIME > 0, CQ.CQ_COMMIT_TIME), else_=CQ.CQ_START),
}


class EndedFigures(NamedTuple):
    """The history in numbers of rows."""

    states: Mapping[State, int]
    failed_lately: int
    worker_versions: frozenset[str]  #: of recent compactions
    lost_out: int  #: tables and partitions whose last compaction failed because it lost its workers


class QueueFigures:
    """Counts the rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table

    def queued(self) -> dict[State, int]:
        """Returns the number of rows of the queue in each state."""
        state = CQ.CQ_STATE
        query = select(state, func.count()).where(KNOWN_QUEUED, state.in_(_STATES)).group_by(state)
        with self._table.database.read() as conn:
            return {State(code): int(n) for code, n in conn.execute(query).all()}

    def ended(self, failed_from: int = 0, began_from: int = 0) -> EndedFigures:
        """Returns the figures of the history in one pass over it.

        Args:
            failed_from: ``failed_lately`` counts failures from this time on (epoch ms).
            began_from: ``worker_versions`` are those of compactions that began at this time or later (epoch ms).
        """
        # To group the whole history a database would sort it. Most compactions have succeeded, so only the others are
        # grouped. A count of all rows, which reads no row, gives the number of successes.
        failed = CC.CC_STATE == State.FAILED.value
        known = case((KNOWN_ENDED, 1), else_=0)
        others = select(
            CC.CC_STATE,
            known,
            func.count(),
            func.sum(case((failed & (CC.CC_END >= failed_from), 1), else_=0)),
            func.sum(case((failed & CC.CC_ERROR_MESSAGE.startswith(LOST), 1), else_=0)),
        )
        others = others.where(~(KNOWN_ENDED & (CC.CC_STATE == State.SUCCEEDED.value))).group_by(CC.CC_STATE, known)
        worked = select(CC.CC_WORKER_VERSION).where(func.coalesce(CC.CC_START, 0) >= began_from)
        worked = worked.where(KNOWN_ENDED, CC.CC_STATE.in_(_STATES)).distinct()
        is_whole, states, lately, lost = self._table.rows.is_whole, Counter[State](), 0, 0
        with self._table.database.read() as conn:
            unsuccessful = conn.execute(others).all()
            total = int(conn.execute(select(func.count()).select_from(COMPLETED_COMPACTIONS)).scalar_one())
            versions = {version for version in conn.execute(worked).scalars() if version} if is_whole else set()
        for code, is_known, rows, recent, losing in unsuccessful:
            if is_known and code in _STATES:
                states[State(code)] += int(rows)
                lately, lost = lately + int(recent), lost + int(losing)
        states[State.SUCCEEDED] = max(0, total - sum(int(row[2]) for row in unsuccessful))
        states = +states
        if not self._table.rows.is_whole:
            states, versions = self._split_shared_codes(states), self._versions_of_ended(began_from)
            lost = states[State.FAILED]  # their messages are stored outside of the rows
        return EndedFigures(states, lately, frozenset(versions), self._lost_out() if lost else 0)

    def _split_shared_codes(self, states: Counter[State]) -> Counter[State]:
        """Returns ``states`` with correct numbers for states that share a code in this schema."""
        shared = {State(code) for code in self._table.dialect.substitutes.values()} & states.keys()
        read = self._ended(KNOWN_ENDED, CC.CC_STATE.in_([state.value for state in shared])) if shared else []
        return Counter({state: n for state, n in states.items() if state not in shared}) + Counter(
            entry.state for entry in read
        )

    def _versions_of_ended(self, since: int) -> set[str]:
        read = self._ended(KNOWN_ENDED, CC.CC_START >= since)
        return {entry.worker_version for entry in read if entry.worker_version}

    def oldest(self, state: State) -> Entry | None:
        """Returns the row of the queue that has been in ``state`` for the longest time; rows without a time come last.

        ``state`` is initiated, working or ready for cleaning.
        """
        since = _SINCE[state]
        query = select(COMPACTION_QUEUE).where(KNOWN_QUEUED, CQ.CQ_STATE == state.value)
        query = query.order_by(since.is_(None), since, CQ.CQ_ID).limit(1)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(query).mappings())
        return entries[0] if entries else None

    def working_since(self, before: int) -> int:
        """Counts the rows on which workers have been working since before ``before`` (epoch ms)."""
        query = select(func.count()).where(KNOWN_QUEUED, CQ.CQ_STATE == State.WORKING.value, CQ.CQ_START < before)
        with self._table.database.read() as conn:
            return int(conn.execute(query).scalar_one())

    def worker_versions(self, since: int) -> set[str]:
        """Returns the versions of workers that began to work on a row of the queue at ``since`` (epoch ms) or later."""
        lately = (KNOWN_QUEUED, CQ.CQ_START >= since)
        if not self._table.rows.is_whole:
            return {entry.worker_version for entry in self._queued(*lately) if entry.worker_version}
        query = select(CQ.CQ_WORKER_VERSION).where(*lately).distinct()
        with self._table.database.read() as conn:
            return {version for version in conn.execute(query).scalars() if version}

    def _lost_out(self) -> int:
        failed: list[ColumnElement[bool]] = [KNOWN_ENDED, CC.CC_STATE == State.FAILED.value]
        if self._table.rows.is_whole:
            failed.append(CC.CC_ERROR_MESSAGE.startswith(LOST))
        lost = {entry.entity: entry.id for entry in reversed(self._ended(*failed)) if lost_workers(entry)}
        return len(lost.keys() - self._retried_later(lost)) if lost else 0

    def _retried_later(self, lost: Mapping[Entity, int]) -> set[Entity]:
        """Returns the entities with a later row than the one in ``lost`` that is compacted or has ended."""
        tables, first = {entity.table for entity in lost}, min(lost.values())
        ready = (KNOWN_QUEUED, CQ.CQ_STATE == State.READY_FOR_CLEANING.value, CQ.CQ_TABLE.in_(tables))
        queries: tuple[Select[Any], ...] = (
            select(CQ.CQ_ID, CQ.CQ_DATABASE, CQ.CQ_TABLE, CQ.CQ_PARTITION).where(*ready),
            select(CC.CC_ID, CC.CC_DATABASE, CC.CC_TABLE, CC.CC_PARTITION).where(KNOWN_ENDED, CC.CC_TABLE.in_(tables)),
        )
        with self._table.database.read() as conn:
            rows = [row for query in queries for row in conn.execute(query.where(query.selected_columns[0] > first))]
        there = ((Entity(database=database, table=table, partition=part), n) for n, database, table, part in rows)
        return {entity for entity, number in there if number > lost.get(entity, number)}

    def _queued(self, *conditions: ColumnElement[bool]) -> list[Entry]:
        with self._table.database.read() as conn:
            rows = conn.execute(select(COMPACTION_QUEUE).where(*conditions)).mappings()
            return self._table.rows.readable_queued(rows)

    def _ended(self, *conditions: ColumnElement[bool]) -> list[Entry]:
        query = select(COMPLETED_COMPACTIONS).where(*conditions).order_by(CC.CC_ID.desc())
        with self._table.database.read() as conn:
            return self._table.rows.readable_ended(conn.execute(query).mappings())
