"""Sums over the rows of each table on which the initiator's decisions depend.

Equal sums mean equal rows.

The database computes them, so a table that has not changed costs one row of an answer. They compare contents, not numbers
that count up: a transaction that commits late under a small id changes them too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, String, case, cast, func, select

from compactor.compaction.states import State
from compactor.database.text_hash import mix_bits, short_hash, text_hash
from compactor.metastore.catalog.locations import in_catalog
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.queue_rows import CC, KNOWN_ENDED
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    DBS,
    PARTITIONS,
    SDS,
    SORT_COLS,
    TBLS,
)

_MOST_NAMED = 1000  #: tables that a statement names; it reads all if there are more
_W = COMPLETED_TXN_COMPONENTS.c


@dataclass(frozen=True, slots=True)
class TableSums:
    """The sums of one table, each as text; empty without rows.

    ``writes`` is over its rows in COMPLETED_TXN_COMPONENTS, ``places`` over ids, names and locations of its partitions,
    ``ended`` over its rows in the history.
    """

    writes: str = ""
    places: str = ""
    ended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllSums:
    """The sums of all tables, by database and name, all at the same instant.

    ``written`` has the number of recorded writes of each table that has any. ``sorted`` are the tables with a partition
    whose files are sorted.
    """

    written: Mapping[tuple[str, str], int]
    sorted: frozenset[tuple[str, str]]
    _writes: Mapping[tuple[str, str], str] = field(repr=False)
    _places: Mapping[tuple[str, str], str] = field(repr=False)
    _ended: Mapping[tuple[str, str], str] = field(repr=False)

    def of_table(self, name: tuple[str, str]) -> TableSums:
        """Returns the sums of the table that the rows of writers call ``name``."""
        return TableSums(self._writes.get(name, ""), self._places.get(_as_stored(name), ""), self._ended.get(name, ""))

    def have_order(self, name: tuple[str, str]) -> bool:
        """Returns true if a partition of the table that the rows of writers call ``name`` has sorted files."""
        return _as_stored(name) in self.sorted


NO_SUMS = AllSums(written={}, sorted=frozenset(), _writes={}, _places={}, _ended={})


def read_table_sums(metastore: Metastore, tables: Collection[tuple[str, str]] | None = None) -> AllSums:
    """Returns the sums of all tables, or at least of ``tables``.

    Four statements of one reading transaction suffice.
    """
    exactly = metastore.dialect.exactly
    lower = None if tables is None else [_as_stored(name) for name in tables]
    written, past = (_W.CTC_DATABASE, _W.CTC_TABLE), (CC.CC_DATABASE, CC.CC_TABLE)
    stored = (DBS.c.NAME, TBLS.c.TBL_NAME)
    with metastore.database.read() as conn:
        here = (_W.CTC_TABLE.is_not(None), *_are_of(tables, *written))
        writes = _read(conn, [exactly(name) for name in written], _sum_writes(), *here)
        here = (in_catalog(), *_are_of(lower, *stored))
        places = _read(conn, list(stored), _sum_places(metastore.dialect), *here, source=_stored_partitions())
        ended = _read(conn, [exactly(name) for name in past], _sum_ended(), KNOWN_ENDED, *_are_of(tables, *past))
        with_order = _stored_partitions().join(SORT_COLS, SORT_COLS.c.SD_ID == PARTITIONS.c.SD_ID)
        query = select(DBS.c.NAME, TBLS.c.TBL_NAME).select_from(with_order).where(in_catalog()).distinct()
        in_order = frozenset((row.NAME, row.TBL_NAME) for row in conn.execute(query))
    return AllSums(
        written={name: int(figures[0]) for name, figures in writes.items()},
        sorted=in_order,
        _writes=_as_texts(writes),
        _places=_as_texts(places),
        _ended=_as_texts(ended),
    )


def _are_of(
    tables: Collection[tuple[str, str]] | None, database: ColumnElement[str], table: ColumnElement[str]
) -> list[ColumnElement[bool]]:
    """Returns conditions that all rows of ``tables`` meet, and some others.

    Database and table are tested apart.
    """
    if tables is None or len(tables) > _MOST_NAMED:
        return []
    return [database.in_({name for name, _ in tables}), table.in_({name for _, name in tables})]


def _sum_writes() -> list[ColumnElement[Any]]:
    txn, write_id = _W.CTC_TXNID, func.coalesce(_W.CTC_WRITEID, 0)
    # The partition counts too: a database that was restored hands out the same ids again, for other partitions.
    partition = short_hash(func.coalesce(_W.CTC_PARTITION, ""))
    return [func.count(), func.sum(txn), func.sum(mix_bits(txn * 31 + write_id, partition))]


def _sum_places(dialect: Dialect) -> list[ColumnElement[Any]]:
    # MySQL does not concatenate texts of different collations.
    name, location = dialect.exactly(PARTITIONS.c.PART_NAME), dialect.exactly(func.coalesce(SDS.c.LOCATION, ""))
    row = cast(PARTITIONS.c.PART_ID, String(20)) + " " + name + " " + location
    return [func.count(), func.sum(text_hash(row))]


def _sum_ended() -> list[ColumnElement[Any]]:
    # A failure counts for some time after its request.
    requested = func.coalesce(CC.CC_ENQUEUE_TIME, CC.CC_START, 0)
    others = case((CC.CC_STATE == State.SUCCEEDED.value, 0), else_=1)
    return [func.count(), func.sum(CC.CC_ID), func.sum(others), func.sum(mix_bits(CC.CC_ID * 31 + requested))]


def _stored_partitions() -> Any:
    partitions = PARTITIONS.join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    return partitions.join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)


def _read(
    conn: Connection, names: list[Any], sums: list[ColumnElement[Any]], *where: Any, source: Any = None
) -> dict[tuple[str, str], list[Any]]:
    labels = [name.label(f"name{number}") for number, name in enumerate(names)]
    query = select(*labels, *sums).where(*where).group_by(*names)
    if source is not None:
        query = query.select_from(source)
    return {(database, table): figures for database, table, *figures in conn.execute(query).all()}


def _as_stored(name: tuple[str, str]) -> tuple[str, str]:
    return name[0].lower(), name[1].lower()


def _as_texts(figures: Mapping[tuple[str, str], list[Any]]) -> dict[tuple[str, str], str]:
    return {name: " ".join(str(int(number or 0)) for number in numbers) for name, numbers in figures.items()}
