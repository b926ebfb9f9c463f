"""Results of the initiator's last look at each entity: one row for each, for lists of thousands of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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
from compactor.compaction.entry import Entity
from compactor.compaction.health import Condition
from compactor.database.clock import now_ms
from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.state.state_tables import CONDITIONS, alone

_C = CONDITIONS.c
_AT_ONCE = 1000  #: rows in one statement
_NAME = _C.DB_NAME + "." + _C.TABLE_NAME + case((_C.PART_NAME.is_(None), ""), else_="/" + _C.PART_NAME)
_BYTES: ColumnElement[Any] = _C.BASE_BYTES + _C.DELTA_BYTES
#: The orders of a list.
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
class Seen:
    """One entity as of the last look at it. Times are epoch ms of the metastore's clock.

    ``condition`` is the result of the last look into its directory, which may be an older one; None before the first.
    ``last_compacted`` is the end of its newest compaction that succeeded, as far as the history goes back. ``basis`` is what
    the decision was based on, if it may stand in later passes.
    """

    entity: Entity
    outcome: str
    because: str
    flips: tuple[str, ...] = ()
    condition: Condition | None = None
    last_compacted: int | None = None
    at: int = 0
    basis: Basis | None = None

    @property
    def is_settled(self) -> bool:
        """True if there was nothing to merge or to clean, and no obstacle."""
        return self.outcome == "notneeded" and self.condition is not None and self.condition.deltas == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A filter: ``find`` is a part of ``db.table/partition`` in any case, ``outcomes`` empty means all of them."""

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
    """The tables and partitions of a database that had one outcome and are in one step of health: 0 is below 20, 4 is 80
    and more, None unknown."""

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
    def record(self, metastore: str, seen: Sequence[Seen], gone: Collection[Entity] = ()) -> None:
        """Stores the results of a look in place of the one before; entities that are gone are forgotten."""
        rows = {entity_key(one.entity): one for one in seen}
        lost = [entity_key(entity) for entity in gone]
        with self._database.write() as conn:
            alone(conn)
            for some in _chunks([*rows, *lost]):
                kept = self._known(conn, metastore, [key for key in some if key in rows and not rows[key].condition])
                conn.execute(delete(CONDITIONS).where(_C.METASTORE == metastore, _C.ENTITY_KEY.in_(some)))
                made = [_row(metastore, key, _with(rows[key], kept.get(key))) for key in some if key in rows]
                if made:
                    conn.execute(insert(CONDITIONS), made)

    def page(
        self,
        metastore: str,
        wanted: Wanted | None = None,
        *,
        order: str = "health",
        descending: bool = False,
        limit: int,
        offset: int = 0,
    ) -> list[Seen]:
        """Returns rows in an order of ``ORDERS``, then by name; rows never measured come last.

        Raises:
            BadSetting: there is no such order.
        """
        column = ORDERS.get(order)
        if column is None:
            raise BadSetting(f"order {order!r}: expected one of {', '.join(ORDERS)}")
        query = _of(select(_C.ENTITY_KEY), metastore, wanted)
        unknown = case((column.is_(None), 1), else_=0)
        query = query.order_by(
            unknown, column.desc() if descending else column, _C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME
        )
        with self._database.read() as conn:
            # keys first: of 100,000 rows only a few numbers each are sorted
            keys = conn.execute(query.limit(limit).offset(offset)).scalars().all()
            found = self._known(conn, metastore, keys)
        return [found[key] for key in keys if key in found]

    def count(self, metastore: str, wanted: Wanted | None = None) -> int:
        """Returns the number of rows."""
        with self._database.read() as conn:
            return int(conn.execute(_of(select(func.count()), metastore, wanted)).scalar_one())

    def entities(self, metastore: str) -> set[Entity]:
        """Returns the rows of all entities."""
        query = select(_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME).where(_C.METASTORE == metastore)
        with self._database.read() as conn:
            return {
                Entity(database=row.DB_NAME, table=row.TABLE_NAME, partition=row.PART_NAME)
                for row in conn.execute(query)
            }

    def outcomes(self, metastore: str) -> dict[str, int]:
        """Returns the number of rows by outcome."""
        query = select(_C.OUTCOME, func.count().label("n")).where(_C.METASTORE == metastore).group_by(_C.OUTCOME)
        with self._database.read() as conn:
            return {row.OUTCOME: int(row.n) for row in conn.execute(query)}

    def spread(self, metastore: str) -> list[Share]:
        """Returns the numbers of rows by database, outcome and step of health, by database."""
        # by table first, in the order of the index: nothing but those few sums is sorted
        sums = [func.sum(case((condition, 1), else_=0)).label(f"N{n}") for n, condition in enumerate(_STEPS.values())]
        tables = select(_C.DB_NAME, _C.OUTCOME, *sums).where(_C.METASTORE == metastore)
        of = tables.group_by(_C.DB_NAME, _C.TABLE_NAME, _C.OUTCOME).subquery().c
        numbers = [func.sum(of[f"N{n}"]) for n in range(len(_STEPS))]
        query = select(of.DB_NAME, of.OUTCOME, *numbers).group_by(of.DB_NAME, of.OUTCOME).order_by(of.DB_NAME)
        with self._database.read() as conn:
            rows = conn.execute(query).all()
        return [
            Share(database, outcome, step, int(n))
            for database, outcome, *found in rows
            for step, n in zip(_STEPS, found, strict=True)
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

    def of(self, metastore: str, entities: Collection[Entity]) -> dict[Entity, Seen]:
        """Returns the rows of these entities."""
        with self._database.read() as conn:
            found = self._known(conn, metastore, [entity_key(entity) for entity in entities])
        return {seen.entity: seen for seen in found.values()}

    def tables(self, metastore: str) -> list[tuple[str, str]]:
        """Returns database and name of every table with rows."""
        query = select(_C.DB_NAME, _C.TABLE_NAME).where(_C.METASTORE == metastore).distinct()
        with self._database.read() as conn:
            return [(row.DB_NAME, row.TABLE_NAME) for row in conn.execute(query)]

    def stored_decisions(
        self, metastore: str, tables: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], dict[str | None, StoredDecision]]:
        """Returns the decisions that may stand, by database and table, then by partition."""
        found: dict[tuple[str, str], dict[str | None, StoredDecision]] = {table: {} for table in tables}
        columns = (_C.DB_NAME, _C.TABLE_NAME, _C.PART_NAME, _C.DIGEST, _C.OPEN_DIGEST, _C.NEWEST_TXN_ID, _C.OUTCOME)
        query = select(*columns, _C.SEEN_AT).where(
            _C.METASTORE == metastore, _C.DIGEST.is_not(None), _of_tables(tables)
        )
        with self._database.read() as conn:
            for database, table, partition, *decision in conn.execute(query).all():
                if (of_table := found.get((database, table))) is not None:
                    of_table[partition] = StoredDecision._make(decision)
        return found

    @retried
    def forget_bases(self, metastore: str, table: tuple[str, str] | None = None) -> None:
        """Lets no decision stand, of one table or of all."""
        query = update(CONDITIONS).where(_C.METASTORE == metastore)
        if table is not None:
            query = query.where(_C.DB_NAME == table[0], _C.TABLE_NAME == table[1])
        with self._database.write() as conn:
            conn.execute(query.values(DIGEST=None))

    @retried
    def forget_tables(self, metastore: str, tables: Collection[tuple[str, str]]) -> None:
        """Deletes the rows of tables that are gone."""
        with self._database.write() as conn:
            for database, table in tables:
                here = (_C.METASTORE == metastore, _C.DB_NAME == database, _C.TABLE_NAME == table)
                conn.execute(delete(CONDITIONS).where(*here))

    def unsettled(self, metastore: str, before: int) -> list[Seen]:
        """Returns rows of looks before ``before`` that show something to merge or to clean, or an obstacle."""
        calm = (_C.OUTCOME == "notneeded") & (func.coalesce(_C.DELTAS, 1) == 0)
        query = select(CONDITIONS).where(_C.METASTORE == metastore, _C.SEEN_AT < before, ~calm)
        with self._database.read() as conn:
            return [_seen(row) for row in conn.execute(query).mappings()]

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes rows not looked at for that long; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(CONDITIONS).where(_C.SEEN_AT < now_ms(conn) - older_than_ms)).rowcount

    def _known(self, conn: Connection, metastore: str, keys: Sequence[str]) -> dict[str, Seen]:
        found: dict[str, Seen] = {}
        for some in _chunks(keys):
            query = select(CONDITIONS).where(_C.METASTORE == metastore, _C.ENTITY_KEY.in_(some))
            found |= {row["ENTITY_KEY"]: _seen(row) for row in conn.execute(query).mappings()}
        return found


def _of(query: Select[Any], metastore: str, wanted: Wanted | None) -> Select[Any]:
    query = query.select_from(CONDITIONS).where(_C.METASTORE == metastore)
    if wanted is None:
        return query
    if wanted.outcomes:
        query = query.where(or_(*(_C.OUTCOME == literal(outcome) for outcome in wanted.outcomes)))
    for word in wanted.find.lower().split():
        query = query.where(func.lower(_NAME).contains(word, autoescape=True))
    return query


def _of_tables(tables: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    """Returns the condition for rows of ``tables``, which also others may meet that share their names.

    Two plain lists, since a server compares each row with each pair of a list of pairs.
    """
    return _C.DB_NAME.in_({database for database, _ in tables}) & _C.TABLE_NAME.in_({table for _, table in tables})


def _with(seen: Seen, known: Seen | None) -> Seen:
    """Returns the columns to update: a look that did not reach the directory keeps the result of the one before."""
    return seen if known is None else replace(seen, condition=known.condition)


def entity_key(entity: Entity) -> str:
    """Returns a digest of the names, since Hive's names together are longer than any database's keys may be."""
    names = json.dumps([entity.database, entity.table, entity.partition])
    return hashlib.sha256(names.encode()).hexdigest()


def _row(metastore: str, key: str, seen: Seen) -> dict[str, Any]:
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
    }


def _seen(row: RowMapping) -> Seen:
    condition = None
    if row["HEALTH"] is not None:
        condition = Condition(**{name: row[name.upper()] for name in _FIGURES})
    return Seen(
        entity=Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]),
        outcome=row["OUTCOME"],
        because=row["BECAUSE"],
        flips=tuple(json.loads(row["FLIPS"])),
        condition=condition,
        last_compacted=row["LAST_COMPACTED"],
        at=row["SEEN_AT"],
        basis=None if row["DIGEST"] is None else Basis(row["DIGEST"], row["OPEN_DIGEST"], TxnId(row["NEWEST_TXN_ID"])),
    )


def _chunks(keys: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(keys)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
