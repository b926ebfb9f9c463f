"""Entries of the queue and of the history: read as values, by page, and counted by the database.

A schema that lacks columns (Hive 3.1 and older) keeps values outside of its rows. There the failures and the rows of the
last day are read and counted here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    func,
    or_,
    select,
    true,
    tuple_,
)

from compactor.base.errors import NotFound
from compactor.compaction.lost_count import LOST, lost_workers
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.queue.queue_rows import CC, CQ, KNOWN_ENDED, KNOWN_QUEUED, QUEUE, TAKEN_HERE
from compactor.metastore.queue.queue_table import QueueTable
from compactor.metastore.schema.dialect import entity_is
from compactor.metastore.schema.tables import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
)

_TYPES = tuple(kind.value for kind in CompactionType)
_FINE = CC.CC_STATE == State.SUCCEEDED.value
_STATES = tuple(state.value for state in State)
#: The time since which a row of the queue is in its state.
_SINCE: Mapping[State, ColumnElement[Any]] = {
    State.INITIATED: case((CQ.CQ_ENQUEUE_TIME > 0, CQ.CQ_ENQUEUE_TIME)),
    State.WORKING: case((CQ.CQ_START > 0, CQ.CQ_START)),
    State.READY_FOR_CLEANING: case((CQ.CQ_COMMIT_TIME > 0, CQ.CQ_COMMIT_TIME), else_=CQ.CQ_START),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage:
    """A page of rows, and the number of rows on all pages."""

    entries: tuple[Entry, ...]
    total: int


class Ended(NamedTuple):
    """The compactions of one entity that have ended."""

    newest: int = 0  #: the largest id; 0 if there are none
    at: int = 0  #: the last end, epoch ms
    committed_at: int | None = None  #: the last commit, epoch ms; for a row without one, the end of its cleaning
    others: int = 0  #: the number of compactions that did not succeed


class EndedFigures(NamedTuple):
    """The history in numbers of rows."""

    states: Mapping[State, int]
    failed_lately: int
    worker_versions: frozenset[str]  #: of recent compactions
    lost_out: int  #: tables and partitions whose last compaction failed because it lost its workers


class Entries:
    """Reads entries of the queue and of the history."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._names = [table.dialect.exactly(name) for name in (CC.CC_DATABASE, CC.CC_TABLE, CC.CC_PARTITION)]

    def get(self, entry_id: int) -> Entry:
        """Returns an entry of the queue, or else of the history.

        Raises:
            NotFound: it is in neither of them.
        """
        with self._table.database.read() as conn:
            entries = self._table.rows.queued(conn.execute(QUEUE.where(CQ.CQ_ID == entry_id)).mappings())
            if not entries:
                past = select(COMPLETED_COMPACTIONS).where(CC.CC_ID == entry_id)
                entries = self._table.rows.ended(conn.execute(past).mappings())
        if not entries:
            raise NotFound(f"compaction {entry_id} is neither in the queue nor in the history")
        return entries[0]

    def queue(
        self,
        *,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        states: Collection[State] | None = None,
        pool: str | None = None,
        ids: Collection[int] | None = None,
    ) -> list[Entry]:
        """Returns the entries of the queue that match all filters, by id.

        Skips rows that it cannot understand.
        """
        names: list[tuple[ColumnElement[str], str | None]] = [
            (CQ.CQ_DATABASE, database),
            (CQ.CQ_TABLE, table),
            (CQ.CQ_PARTITION, partition),
        ]
        query = QUEUE.where(KNOWN_QUEUED).order_by(CQ.CQ_ID)
        query = query.where(*(column == value for column, value in names if value is not None))
        if states is not None:
            query = query.where(CQ.CQ_STATE.in_([state.value for state in states]))
        if ids is not None:
            query = query.where(CQ.CQ_ID.in_(ids))
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(query).mappings())
        return [entry for entry in entries if pool is None or entry.pool == pool]

    def working(self) -> list[Entry]:
        """Returns the entries that workers have claimed, by id, without those that are left to Hive."""
        return [entry for entry in self.queue(states=(State.WORKING,)) if entry.left_to is None]

    def waiting(self, ids: Collection[int] | None = None) -> list[Entry]:
        """Returns the requests that our workers may claim, by id; with ``ids`` only these."""
        return [entry for entry in self.queue(states=(State.INITIATED,), ids=ids) if entry.left_to is None]

    def ready_for_cleaning(self) -> list[Entry]:
        """Returns the entries that our cleaner cleans, by id."""
        return [entry for entry in self.queue(states=(State.READY_FOR_CLEANING,)) if entry.left_to is None]

    def history(
        self,
        entity: Entity | None = None,
        limit: int | None = None,
        *,
        table: tuple[str, str] | None = None,
        type: CompactionType | None = None,
    ) -> list[Entry]:
        """Returns the entries of the history, newest first.

        ``entity`` selects one entity, ``table`` (database and name) a table with its partitions, ``type`` one type.
        """
        query = select(COMPLETED_COMPACTIONS).where(KNOWN_ENDED).order_by(CC.CC_ID.desc()).limit(limit)
        if entity is not None:
            query = query.where(entity_is(COMPLETED_COMPACTIONS, "CC", entity))
        if table is not None:
            query = query.where(CC.CC_DATABASE == table[0], CC.CC_TABLE == table[1])
        if type is not None:
            query = query.where(CC.CC_TYPE == type.value)
        with self._table.database.read() as conn:
            return self._table.rows.readable_ended(conn.execute(query).mappings())

    def queue_page(
        self, *, find: str = "", states: Collection[State] | None = None, limit: int, offset: int = 0
    ) -> EntryPage:
        """Returns a page of the queue, oldest first.

        ``find`` has words of ``db.table/partition``, in any case.
        """
        query = _select_rows(COMPACTION_QUEUE, "CQ", find, states)
        page = query.order_by(COMPACTION_QUEUE.c.CQ_ID).limit(limit).offset(offset)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(page).mappings())
            return EntryPage(entries=tuple(entries), total=_count(conn, query))

    def history_page(
        self, *, find: str = "", states: Collection[State] | None = None, limit: int, offset: int = 0
    ) -> EntryPage:
        """Returns a page of the history, newest first; ``find`` as for ``queue_page``."""
        query = _select_rows(COMPLETED_COMPACTIONS, "CC", find, states)
        page = query.order_by(COMPLETED_COMPACTIONS.c.CC_ID.desc()).limit(limit).offset(offset)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_ended(conn.execute(page).mappings())
            return EntryPage(entries=tuple(entries), total=_count(conn, query))

    def queue_of(self, entities: Collection[Entity]) -> dict[Entity, list[Entry]]:
        """Returns the rows of the queue for each of these entities that is queued, oldest first."""
        columns = COMPACTION_QUEUE.c
        tables = sorted({entity.table for entity in entities})
        names = sorted({entity.partition for entity in entities if entity.partition is not None})
        here = columns.CQ_PARTITION.is_(None) | columns.CQ_PARTITION.in_(names)
        query = QUEUE.where(columns.CQ_TYPE.in_(_TYPES), columns.CQ_TABLE.in_(tables), here)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(query.order_by(columns.CQ_ID)).mappings())
        requested, rows = set(entities), defaultdict[Entity, list[Entry]](list)
        for entry in entries:
            if entry.entity in requested:
                rows[entry.entity].append(entry)
        return rows

    def commit_times(self, ids: Collection[int]) -> dict[int, int]:
        """Returns when each of these compactions committed (epoch ms), by id; others are left out."""
        entries = self.queue(ids=ids)
        if missing := set(ids) - {entry.id for entry in entries}:  # a cleaner was faster
            entries += self._read_ended(CC.CC_ID.in_(missing))
        return {entry.id: entry.commit_time for entry in entries if entry.commit_time is not None}

    def ended(
        self,
        tables: Collection[tuple[str, str]],
        partitions: Collection[str | None] | None = None,
        *,
        undone: Collection[int] = (),
    ) -> dict[tuple[str, str], dict[str | None, Ended]]:
        """Returns the ended compactions of each of ``tables``, by partition.

        Args:
            partitions: only these.
            undone: ids of compactions that were undone, and whose commits do not count.
        """
        ended: dict[tuple[str, str], dict[str | None, Ended]] = {table: {} for table in tables}
        stands = CC.CC_ID.not_in(undone) if undone else true()
        figures = (
            func.max(CC.CC_ID),
            func.max(CC.CC_END),
            func.max(case((stands & (CC.CC_COMMIT_TIME > 0), CC.CC_COMMIT_TIME), (stands & _FINE, CC.CC_END))),
            func.sum(case((_FINE, 0), else_=1)),
            func.max(case((stands & _FINE, CC.CC_ID))),
        )
        names = [name.label(f"name{number}") for number, name in enumerate(self._names)]
        query: Select[Any] = select(*names, *figures).where(
            KNOWN_ENDED, _ended_in_tables(tables), _ended_in_partitions(partitions)
        )
        query = query.group_by(*self._names)
        with self._table.database.read() as conn:
            rows = conn.execute(query).all()
        committed = self._table.rows.commit_times_outside([row[-1] for row in rows if row[-1] is not None])
        for database, table, partition, newest, at, commit, others, newest_fine in rows:
            if (of_table := ended.get((database, table))) is not None:
                commit_time = committed.get(newest_fine, commit)
                of_table[partition] = Ended(newest, at or 0, commit_time or None, int(others))
        return ended

    def unsuccessful_histories(
        self, tables: Collection[tuple[str, str]], partitions: Collection[str | None] | None = None
    ) -> Mapping[Entity, Sequence[Entry]]:
        """Returns the history, newest first, of entities with a compaction that did not succeed.

        It is the whole history of these entities of ``tables``.

        With ``partitions``, only these count.
        """
        key = tuple_(CC.CC_DATABASE, CC.CC_TABLE, func.coalesce(CC.CC_PARTITION, ""))
        troubled = COMPLETED_COMPACTIONS.alias("TROUBLED").c
        theirs = select(troubled.CC_DATABASE, troubled.CC_TABLE, func.coalesce(troubled.CC_PARTITION, "")).where(
            troubled.CC_STATE != State.SUCCEEDED.value,
            _ended_in_tables(tables, troubled),
            _ended_in_partitions(partitions, troubled),
        )
        query = select(COMPLETED_COMPACTIONS).where(KNOWN_ENDED, _ended_in_tables(tables), key.in_(theirs))
        with self._table.database.read() as conn:
            rows = conn.execute(query.order_by(CC.CC_ID.desc())).mappings()
            read = self._table.rows.readable_ended(rows)
        by_entity: defaultdict[Entity, list[Entry]] = defaultdict(list)
        for entry in read:
            by_entity[entry.entity].append(entry)
        # MySQL's comparison of names, which uses the index, ignores case and finds other entities too.
        return {
            entity: entries
            for entity, entries in by_entity.items()
            if any(entry.state is not State.SUCCEEDED for entry in entries)
        }

    def ended_since(self, at: int) -> set[Entity]:
        """Returns the entities of which a compaction has ended at ``at`` (epoch ms) or later."""
        names = [name.label(f"name{number}") for number, name in enumerate(self._names)]
        query = select(*names).where(KNOWN_ENDED, CC.CC_END >= at).distinct()
        with self._table.database.read() as conn:
            return {
                Entity(database=database, table=table, partition=partition)
                for database, table, partition in conn.execute(query)
            }

    def count_queued(self) -> dict[State, int]:
        """Returns the number of rows of the queue in each state, without those that are left to Hive."""
        state = CQ.CQ_STATE
        query = select(state, func.count()).where(TAKEN_HERE, state.in_(_STATES)).group_by(state)
        with self._table.database.read() as conn:
            return {State(code): int(n) for code, n in conn.execute(query).all()}

    def count_ended(self, failed_from: int = 0, began_from: int = 0) -> EndedFigures:
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
        read = self._read_ended(KNOWN_ENDED, CC.CC_STATE.in_([state.value for state in shared])) if shared else []
        return Counter({state: n for state, n in states.items() if state not in shared}) + Counter(
            entry.state for entry in read
        )

    def _versions_of_ended(self, since: int) -> set[str]:
        read = self._read_ended(KNOWN_ENDED, CC.CC_START >= since)
        return {entry.worker_version for entry in read if entry.worker_version}

    def oldest(self, state: State) -> Entry | None:
        """Returns the row of the queue that has been in ``state`` for the longest time.

        Rows without a time come last. Rows that are left to Hive do not count.

        ``state`` is initiated, working or ready for cleaning.
        """
        since = _SINCE[state]
        query = QUEUE.where(TAKEN_HERE, CQ.CQ_STATE == state.value)
        query = query.order_by(since.is_(None), since, CQ.CQ_ID).limit(1)
        with self._table.database.read() as conn:
            entries = self._table.rows.readable_queued(conn.execute(query).mappings())
        return entries[0] if entries else None

    def count_working_since(self, before: int) -> int:
        """Counts the rows on which workers have been working since before ``before`` (epoch ms)."""
        query = select(func.count()).where(TAKEN_HERE, CQ.CQ_STATE == State.WORKING.value, CQ.CQ_START < before)
        with self._table.database.read() as conn:
            return int(conn.execute(query).scalar_one())

    def worker_versions(self, since: int) -> set[str]:
        """Returns the versions of workers that began to work on a row at ``since`` (epoch ms) or later."""
        lately = (TAKEN_HERE, CQ.CQ_START >= since)
        if not self._table.rows.is_whole:
            return {entry.worker_version for entry in self._read_queued(*lately) if entry.worker_version}
        query = select(CQ.CQ_WORKER_VERSION).where(*lately).distinct()
        with self._table.database.read() as conn:
            return {version for version in conn.execute(query).scalars() if version}

    def _lost_out(self) -> int:
        failed: list[ColumnElement[bool]] = [KNOWN_ENDED, CC.CC_STATE == State.FAILED.value]
        if self._table.rows.is_whole:
            failed.append(CC.CC_ERROR_MESSAGE.startswith(LOST))
        lost = {entry.entity: entry.id for entry in reversed(self._read_ended(*failed)) if lost_workers(entry)}
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

    def _read_queued(self, *conditions: ColumnElement[bool]) -> list[Entry]:
        with self._table.database.read() as conn:
            rows = conn.execute(QUEUE.where(*conditions)).mappings()
            return self._table.rows.readable_queued(rows)

    def _read_ended(self, *conditions: ColumnElement[bool]) -> list[Entry]:
        query = select(COMPLETED_COMPACTIONS).where(*conditions).order_by(CC.CC_ID.desc())
        with self._table.database.read() as conn:
            return self._table.rows.readable_ended(conn.execute(query).mappings())


def _select_rows(table: Table, prefix: str, find: str, states: Collection[State] | None) -> Select[Any]:
    columns = table.c
    query = (QUEUE if table is COMPACTION_QUEUE else select(table)).where(columns[f"{prefix}_TYPE"].in_(_TYPES))
    if states is not None:
        query = query.where(columns[f"{prefix}_STATE"].in_([state.value for state in states]))
    partition = columns[f"{prefix}_PARTITION"]
    name: ColumnElement[str] = columns[f"{prefix}_DATABASE"] + "." + columns[f"{prefix}_TABLE"]
    name = name + case((partition.is_(None), ""), else_="/" + partition)
    for word in find.lower().split():
        query = query.where(func.lower(name).contains(word, autoescape=True))
    return query


def _count(conn: Any, query: Select[Any]) -> int:
    return int(conn.execute(select(func.count()).select_from(query.subquery())).scalar_one())


def _ended_in_tables(tables: Collection[tuple[str, str]], columns: Any = CC) -> ColumnElement[bool]:
    """Returns a condition that all rows of ``tables`` meet, and some others with one of their names."""
    databases, names = {database for database, _ in tables}, {table for _, table in tables}
    return and_(columns.CC_DATABASE.in_(databases), columns.CC_TABLE.in_(names))


def _ended_in_partitions(partitions: Collection[str | None] | None, columns: Any = CC) -> ColumnElement[bool]:
    """Returns the condition for rows of ``partitions``.

    A None in it means the table itself, no list all rows.
    """
    if partitions is None:
        return true()
    named = columns.CC_PARTITION.in_({name for name in partitions if name is not None})
    return or_(columns.CC_PARTITION.is_(None), named) if None in partitions else named
