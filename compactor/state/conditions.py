"""Results of the initiator's last look at each entity: one row for each, for lists of thousands of them."""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.
from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

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
)

from compactor.compaction.entry import Entity
from compactor.compaction.health import Condition
from compactor.database.clock import now_ms
from compactor.database.engine import Database
from compactor.database.retry import retried
from compactor.errors import BadSetting
from compactor.state.tables import CONDITIONS, alone

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
    ``last_compacted`` is the end of its newest compaction that succeeded, as far as the history goes back.
    """

    entity: Entity
    outcome: str
    because: str
    flips: tuple[str, ...] = ()
    condition: Condition | None = None
    last_compacted: int | None = None
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A filter: ``find`` is a part of ``db.table/partition`` in any case, ``outcomes`` empty means all of them."""

    find: str = ""
    outcomes: tuple[str, ...] = ()


class Conditions:
    """Reads and writes COMPACTOR_CONDITIONS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def record(self, metastore: str, seen: Sequence[Seen], gone: Collection[Entity] = ()) -> None:
        """Stores the results of a look in place of the one before; entities that are gone are forgotten."""
        rows = {_key(one.entity): one for one in seen}
        lost = [_key(entity) for entity in gone]
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

    def of(self, metastore: str, entities: Collection[Entity]) -> dict[Entity, Seen]:
        """Returns the rows of these entities."""
        with self._database.read() as conn:
            found = self._known(conn, metastore, [_key(entity) for entity in entities])
        return {seen.entity: seen for seen in found.values()}

    def unsettled(self, metastore: str, before: int) -> list[Seen]:
        """Returns rows of looks before ``before`` that show something to merge or to clean, or an obstacle."""
        calm = (_C.OUTCOME == "notneeded") & (func.coalesce(_C.DELTAS, 1) == 0)
        query = select(CONDITIONS).where(_C.METASTORE == metastore, _C.SEEN_AT < before, ~calm)
        with self._database.read() as conn:
            return [_seen(row) for row in conn.execute(query).mappings()]

    def newest(self, metastore: str) -> int | None:
        """Returns the time of the newest look."""
        with self._database.read() as conn:
            return conn.execute(select(func.max(_C.SEEN_AT)).where(_C.METASTORE == metastore)).scalar()

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


def _with(seen: Seen, known: Seen | None) -> Seen:
    """Returns the columns to update: a look that did not reach the directory keeps the result of the one before."""
    return seen if known is None else replace(seen, condition=known.condition)


def _key(entity: Entity) -> str:
    """Returns a digest of the names, since Hive's names together are longer than any database's keys may be."""
    names = json.dumps([entity.database, entity.table, entity.partition])
    return hashlib.sha256(names.encode()).hexdigest()


def _row(metastore: str, key: str, seen: Seen) -> dict[str, Any]:
    condition = seen.condition
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
    )


def _chunks(keys: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(keys)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
