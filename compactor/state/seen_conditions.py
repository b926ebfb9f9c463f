"""Results of the initiator's last look at each entity: one row per entity, for lists of thousands."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from compactor.base.errors import BadSetting
from compactor.base.ids import TxnId
from compactor.compaction.decision_reuse import Basis, StoredDecision
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import CONDITIONS, lock_state
from compactor.state.table_memories import forget_memories, invalidate

_C = CONDITIONS.c
_AT_ONCE = 1000  #: rows in one statement
_NAME = _C.DB_NAME + "." + _C.TABLE_NAME + case((_C.PART_NAME.is_(None), ""), else_="/" + _C.PART_NAME)
_BYTES: ColumnElement[Any] = _C.BASE_BYTES + _C.DELTA_BYTES
#: The orders in which a list may be sorted.
ORDERS: Mapping[str, ColumnElement[Any]] = {
    "table": _NAME,
    "health": _C.HEALTH,
    "deltas": _C.DELTAS,
    "delta_bytes": _C.DELTA_BYTES,
    "delete_ratio": _C.DELETE_BYTES * 1.0 / func.nullif(_BYTES, 0),
    "small_files": _C.SMALL_FILES,
    "files": _C.FILES,
    "bytes": _BYTES,
    "aborts": _C.ABORTS,
    "last_compacted": _C.LAST_COMPACTED,
    "outcome": _C.OUTCOME,
    "at": _C.SEEN_AT,
}
_FIGURES = (
    "base_bytes",
    "delta_bytes",
    "delete_bytes",
    "deltas",
    "files",
    "small_files",
    "obsolete",
    "aborts",
    "health",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEntity:
    """One entity as of the last look at it. Times are epoch ms of the metastore's clock.

    ``condition`` comes from the last look into its directory, which may be older; None before the first.
    ``last_compacted`` is the end of the newest successful compaction in the history. ``basis`` has the inputs of the
    decision, if later passes may reuse it. From ``look_at`` on each pass considers the entity again, even if nothing is
    recorded that it depends on; None if time does not change the decision.
    """

    entity: Entity
    outcome: str
    because: str
    flips: tuple[str, ...] = ()
    condition: Condition | None = None
    last_compacted: int | None = None
    at: int = 0
    basis: Basis | None = None
    look_at: int | None = 0

    @property
    def is_settled(self) -> bool:
        """True if there was nothing to merge or to clean, and no obstacle."""
        return self.outcome == "notneeded" and self.condition is not None and self.condition.deltas == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFilter:
    """Selects rows.

    ``find`` has words of ``db.table/partition``, in any case; empty ``outcomes`` select every outcome.
    """

    find: str = ""
    outcomes: tuple[str, ...] = ()


#: The condition of each step of health.
_STEPS: Mapping[int | None, ColumnElement[bool]] = {
    None: _C.HEALTH.is_(None),
    0: _C.HEALTH < 20,
    1: _C.HEALTH.between(20, 39),
    2: _C.HEALTH.between(40, 59),
    3: _C.HEALTH.between(60, 79),
    4: _C.HEALTH >= 80,
}


class Share(NamedTuple):
    """The number of tables and partitions of a database with one outcome and one step of health.

    Step 0 is a health below 20, step 4 is 80 and more, None is unknown.
    """

    database: str
    outcome: str
    step: int | None
    rows: int


class WorstTable(NamedTuple):
    """A table with the least health of its partitions, and the sums of their deltas and bytes."""

    database: str
    table: str
    partitions: int
    health: int
    deltas: int
    bytes: int


class Conditions:
    """Reads and writes COMPACTOR_CONDITIONS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def record(
        self, metastore: str, seen: Sequence[SeenEntity], gone: Collection[Entity] = (), writer: str | None = None
    ) -> None:
        """Stores the results of a look, which replace earlier ones.

        Deletes the rows of entities that are gone.

        Args:
            writer: the pass that looked. Memories that another pass has of these tables become invalid, as these decisions
                may rest on older rows than the other pass has seen. None for looks whose results no pass reuses.
        """
        rows = {entity_key(look.entity): look for look in seen}
        gone_keys = [entity_key(entity) for entity in gone]
        with self._database.write() as conn:
            lock_state(conn)
            if writer is not None:
                invalidate(conn, metastore, {(s.entity.database, s.entity.table) for s in seen}, except_of=writer)
            for keys in in_parts([*rows, *gone_keys], _AT_ONCE):
                kept = self._known(conn, metastore, [key for key in keys if key in rows and not rows[key].condition])
                conn.execute(delete(CONDITIONS).where(_C.METASTORE == metastore, _C.ENTITY_KEY.in_(keys)))
                values = [
                    _row(metastore, key, _keep_condition(rows[key], kept.get(key))) for key in keys if key in rows
                ]
                if values:
                    conn.execute(insert(CONDITIONS), values)

    def page(
        self,
        metastore: str,
        condition_filter: ConditionFilter | None = None,
        *,
        order: str = "health",
        descending: bool = False,
        limit: int,
        offset: int = 0,
    ) -> list[SeenEntity]:
        """Returns rows in an order of ``ORDERS``, then by deltas and name; rows without the value come last.

        Raises:
            BadSetting: there is no such order.
        """
        column = ORDERS.get(order)
        if column is None:
            raise BadSetting(f"order {order!r}: expected one of {', '.join(ORDERS)}")
        query = _filtered(select(_C.ENTITY_KEY), metastore, condition_filter)
        unknown = case((column.is_(None), 1), else_=0)
        value = column.desc() if descending else column
        query = query.order_by(unknown, value, _C.DELTAS.desc(), _C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME)
        with self._database.read() as conn:
            # Keys first: of 100,000 rows the database sorts only a few numbers each.
            keys = conn.execute(query.limit(limit).offset(offset)).scalars().all()
            rows = self._known(conn, metastore, keys)
        return [rows[key] for key in keys if key in rows]

    def count(self, metastore: str, condition_filter: ConditionFilter | None = None) -> int:
        """Returns the number of rows."""
        with self._database.read() as conn:
            return int(conn.execute(_filtered(select(func.count()), metastore, condition_filter)).scalar_one())

    def looks(self, metastore: str) -> dict[Entity, int]:
        """Returns when each entity that has a row was last looked at (epoch ms)."""
        query = select(_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME, _C.SEEN_AT).where(_C.METASTORE == metastore)
        with self._database.read() as conn:
            return {
                Entity(database=row.DB_NAME, table=row.TABLE_NAME, partition=row.PART_NAME): row.SEEN_AT
                for row in conn.execute(query)
            }

    def outcomes(self, metastore: str) -> dict[str, int]:
        """Returns the number of rows by outcome."""
        query = select(_C.OUTCOME, func.count().label("n")).where(_C.METASTORE == metastore).group_by(_C.OUTCOME)
        with self._database.read() as conn:
            return {row.OUTCOME: int(row.n) for row in conn.execute(query)}

    def spread(self, metastore: str) -> list[Share]:
        """Counts the rows of each database, outcome and step of health; sorted by database."""
        # Sums by table first, in the order of the index, so that the database sorts only these sums.
        sums = [func.sum(case((condition, 1), else_=0)).label(f"N{n}") for n, condition in enumerate(_STEPS.values())]
        tables = select(_C.DB_NAME, _C.OUTCOME, *sums).where(_C.METASTORE == metastore)
        by_table = tables.group_by(_C.DB_NAME, _C.TABLE_NAME, _C.OUTCOME).subquery().c
        numbers = [func.sum(by_table[f"N{n}"]) for n in range(len(_STEPS))]
        query = (
            select(by_table.DB_NAME, by_table.OUTCOME, *numbers)
            .group_by(by_table.DB_NAME, by_table.OUTCOME)
            .order_by(by_table.DB_NAME)
        )
        with self._database.read() as conn:
            rows = conn.execute(query).all()
        return [
            Share(database, outcome, step, int(n))
            for database, outcome, *counts in rows
            for step, n in zip(_STEPS, counts, strict=True)
            if n
        ]

    def worst_tables(self, metastore: str, limit: int) -> list[WorstTable]:
        """Returns tables with their least healthy partition and the sums of all, the worst first."""
        least, deltas, size = func.min(_C.HEALTH), func.sum(_C.DELTAS), func.sum(_BYTES)
        query = select(_C.DB_NAME, _C.TABLE_NAME, func.count(), least, deltas, size)
        query = query.where(_C.METASTORE == metastore, _C.HEALTH.is_not(None)).group_by(_C.DB_NAME, _C.TABLE_NAME)
        query = query.order_by(least, deltas.desc(), _C.DB_NAME, _C.TABLE_NAME).limit(limit)
        with self._database.read() as conn:
            rows = conn.execute(query).all()
        return [WorstTable(d, t, int(n), int(health), int(many), int(b)) for d, t, n, health, many, b in rows]

    def for_entities(self, metastore: str, entities: Collection[Entity]) -> dict[Entity, SeenEntity]:
        """Returns the rows of these entities."""
        with self._database.read() as conn:
            rows = self._known(conn, metastore, [entity_key(entity) for entity in entities])
        return {seen.entity: seen for seen in rows.values()}

    def tables(self, metastore: str) -> list[tuple[str, str]]:
        """Returns database and name of every table with rows."""
        query = select(_C.DB_NAME, _C.TABLE_NAME).where(_C.METASTORE == metastore).distinct()
        with self._database.read() as conn:
            return [(row.DB_NAME, row.TABLE_NAME) for row in conn.execute(query)]

    def stored_decisions(
        self, metastore: str, tables: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], dict[str | None, StoredDecision]]:
        """Returns the decisions that may be reused, by database and table, then by partition."""
        decisions: dict[tuple[str, str], dict[str | None, StoredDecision]] = {table: {} for table in tables}
        columns = (_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME, _C.DIGEST, _C.OPEN_DIGEST, _C.NEWEST_TXN_ID, _C.OUTCOME)
        query = select(*columns, _C.SEEN_AT).where(
            _C.METASTORE == metastore, _C.DIGEST.is_not(None), _of_tables(tables)
        )
        with self._database.read() as conn:
            for database, table, partition, *decision in conn.execute(query).all():
                if (of_table := decisions.get((database, table))) is not None:
                    of_table[partition] = StoredDecision._make(decision)
        return decisions

    def decisions_about(self, metastore: str, entities: Collection[Entity]) -> dict[Entity, StoredDecision]:
        """Returns the decisions about these entities that may be reused."""
        columns = (_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME, _C.DIGEST, _C.OPEN_DIGEST, _C.NEWEST_TXN_ID, _C.OUTCOME)
        query = select(*columns, _C.SEEN_AT).where(_C.METASTORE == metastore, _C.DIGEST.is_not(None))
        decisions: dict[Entity, StoredDecision] = {}
        with self._database.read() as conn:
            for keys in in_parts([entity_key(entity) for entity in entities], _AT_ONCE):
                for database, table, partition, *decision in conn.execute(query.where(_C.ENTITY_KEY.in_(keys))).all():
                    entity = Entity(database=database, table=table, partition=partition)
                    decisions[entity] = StoredDecision._make(decision)
        return decisions

    def due_for_a_look(self, metastore: str, now: int) -> list[Entity]:
        """Returns the entities whose ``look_at`` is reached at ``now``."""
        query = select(_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME).where(_C.METASTORE == metastore, _C.LOOK_AT <= now)
        with self._database.read() as conn:
            return [
                Entity(database=database, table=table, partition=partition)
                for database, table, partition in conn.execute(query).all()
            ]

    @retried
    def stop_looking(self, metastore: str, entities: Collection[Entity], before: int) -> None:
        """Clears ``look_at`` of entities that are no candidates.

        Entities that were looked at at ``before`` or later keep it.
        """
        with self._database.write() as conn:
            lock_state(conn)
            for keys in in_parts([entity_key(entity) for entity in entities], _AT_ONCE):
                here = (_C.METASTORE == metastore, _C.ENTITY_KEY.in_(keys), _C.SEEN_AT < before)
                conn.execute(update(CONDITIONS).where(*here).values(LOOK_AT=None))

    @retried
    def forget_bases(self, metastore: str, table: tuple[str, str] | None = None) -> None:
        """Makes the next pass decide again about one table, or about all."""
        query = update(CONDITIONS).where(_C.METASTORE == metastore)
        if table is not None:
            query = query.where(_C.DB_NAME == table[0], _C.TABLE_NAME == table[1])
        with self._database.write() as conn:
            lock_state(conn)
            conn.execute(query.values(DIGEST=None))
            forget_memories(conn, metastore, table)

    @retried
    def forget_tables(self, metastore: str, tables: Collection[tuple[str, str]]) -> None:
        """Deletes the rows of tables that are gone."""
        with self._database.write() as conn:
            for database, table in tables:
                forget_memories(conn, metastore, (database, table))
                here = (_C.METASTORE == metastore, _C.DB_NAME == database, _C.TABLE_NAME == table)
                conn.execute(delete(CONDITIONS).where(*here))

    def unsettled(self, metastore: str, before: int) -> list[SeenEntity]:
        """Returns rows of looks before ``before`` that have something to merge or to clean, or an obstacle."""
        calm = (_C.OUTCOME == "notneeded") & (func.coalesce(_C.DELTAS, 1) == 0)
        query = select(CONDITIONS).where(_C.METASTORE == metastore, _C.SEEN_AT < before, ~calm)
        with self._database.read() as conn:
            return [_seen(row) for row in conn.execute(query).mappings()]

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes the rows of entities that were last looked at longer ago than this; returns their number.

        Memories of their tables become invalid, since these rely on the rows.
        """
        with self._database.write() as conn:
            lock_state(conn)
            are_old = _C.SEEN_AT < now_ms(conn) - older_than_ms
            tables: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
            query = select(_C.METASTORE, _C.DB_NAME, _C.TABLE_NAME).where(are_old).distinct()
            for metastore, database, table in conn.execute(query).all():
                tables[metastore].add((database, table))
            for metastore, names in tables.items():
                invalidate(conn, metastore, names)
            return conn.execute(delete(CONDITIONS).where(are_old)).rowcount

    def _known(self, conn: Connection, metastore: str, keys: Sequence[str]) -> dict[str, SeenEntity]:
        rows: dict[str, SeenEntity] = {}
        for batch in in_parts(keys, _AT_ONCE):
            query = select(CONDITIONS).where(_C.METASTORE == metastore, _C.ENTITY_KEY.in_(batch))
            rows |= {row["ENTITY_KEY"]: _seen(row) for row in conn.execute(query).mappings()}
        return rows


def _filtered(query: Select[Any], metastore: str, condition_filter: ConditionFilter | None) -> Select[Any]:
    query = query.select_from(CONDITIONS).where(_C.METASTORE == metastore)
    if condition_filter is None:
        return query
    if condition_filter.outcomes:
        query = query.where(or_(*(_C.OUTCOME == literal(outcome) for outcome in condition_filter.outcomes)))
    for word in condition_filter.find.lower().split():
        query = query.where(func.lower(_NAME).contains(word, autoescape=True))
    return query


def _of_tables(tables: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    """Returns a condition that all rows of ``tables`` meet, and some others.

    Database and table are tested apart.

    Two plain lists are faster than a list of pairs, which a server compares with each row one by one.
    """
    return _C.DB_NAME.in_({database for database, _ in tables}) & _C.TABLE_NAME.in_({table for _, table in tables})


def _keep_condition(seen: SeenEntity, known: SeenEntity | None) -> SeenEntity:
    """Returns ``seen`` with the condition of the look before, for a look that did not reach the directory."""
    return seen if known is None else replace(seen, condition=known.condition)


def entity_key(entity: Entity) -> str:
    """Returns a digest of the names, which together may be longer than a key of a database."""
    names = json.dumps([entity.database, entity.table, entity.partition])
    return hashlib.sha256(names.encode()).hexdigest()


def _row(metastore: str, key: str, seen: SeenEntity) -> dict[str, Any]:
    condition, basis = seen.condition, seen.basis
    return {
        "METASTORE": metastore,
        "ENTITY_KEY": key,
        "DB_NAME": seen.entity.database,
        "TABLE_NAME": seen.entity.table,
        "PART_NAME": seen.entity.partition,
        "SEEN_AT": seen.at,
        "OUTCOME": seen.outcome,
        "BECAUSE": seen.because,
        "FLIPS": json.dumps(list(seen.flips)),
        "LAST_COMPACTED": seen.last_compacted,
        **{name.upper(): None if condition is None else getattr(condition, name) for name in _FIGURES},
        "DIGEST": None if basis is None else basis.digest,
        "OPEN_DIGEST": None if basis is None else basis.open,
        "NEWEST_TXN_ID": None if basis is None else basis.newest_txn,
        "LOOK_AT": seen.look_at,
    }


def _seen(row: RowMapping) -> SeenEntity:
    condition = None
    if row["HEALTH"] is not None:
        condition = Condition(**{name: row[name.upper()] for name in _FIGURES})
    return SeenEntity(
        entity=Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]),
        outcome=row["OUTCOME"],
        because=row["BECAUSE"],
        flips=tuple(json.loads(row["FLIPS"])),
        condition=condition,
        last_compacted=row["LAST_COMPACTED"],
        at=row["SEEN_AT"],
        basis=None if row["DIGEST"] is None else Basis(row["DIGEST"], row["OPEN_DIGEST"], TxnId(row["NEWEST_TXN_ID"])),
        look_at=row["LOOK_AT"],
    )
