"""The locations of many partitions of many tables, without all the rest that ``Catalog.partitions`` reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, func, select, tuple_

from compactor.database.engine import Database
from compactor.metastore.catalog.values import PartitionPlace
from compactor.metastore.schema.tables import PARTITIONS, SDS, SORT_COLS

_P = PARTITIONS.c
_AT_ONCE = 1000  #: partitions that one statement names
_FEW = 20  #: partitions of a table that are always read by their names
_SHARE = 4  #: a table is read whole if it has no more than so many times the partitions that are wanted


class PartitionPlaces:
    """Reads PARTITIONS and SDS of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, wanted: Mapping[int, Collection[str]]) -> dict[int, dict[str, PartitionPlace]]:
        """Returns those of the partitions that exist, by TBL_ID and PART_NAME; ``wanted`` are PART_NAMEs by TBL_ID."""
        found: dict[int, dict[str, PartitionPlace]] = {table: {} for table in wanted}
        whole = self._to_read_whole({table: len(names) for table, names in wanted.items() if len(names) > _FEW})
        pairs = ((table, name) for table, names in wanted.items() if table not in whole for name in names)
        where = [_P.TBL_ID.in_(some) for some in _chunks(whole)]
        where += [tuple_(_P.TBL_ID, _P.PART_NAME).in_(named) for named in _chunks(pairs)]
        for condition in where:
            self._read(condition, wanted, found)
        return found

    def _to_read_whole(self, wanted: Mapping[int, int]) -> set[int]:
        """Returns the tables of which not many more partitions exist than are wanted."""
        whole: set[int] = set()
        counts = select(_P.TBL_ID, func.count().label("n")).group_by(_P.TBL_ID)
        with self._database.read() as conn:
            for some in _chunks(wanted):
                rows = conn.execute(counts.where(_P.TBL_ID.in_(some)))
                whole.update(row.TBL_ID for row in rows if row.n <= _SHARE * wanted[row.TBL_ID])
        return whole

    def _read(
        self,
        where: ColumnElement[bool],
        wanted: Mapping[int, Collection[str]],
        found: Mapping[int, dict[str, PartitionPlace]],
    ) -> None:
        """Adds what is ``wanted`` of the partitions ``where`` to those ``found``."""
        places = select(_P.TBL_ID, _P.PART_ID, _P.PART_NAME, SDS.c.LOCATION).join(SDS, SDS.c.SD_ID == _P.SD_ID)
        sorting = select(_P.PART_ID, SORT_COLS.c.COLUMN_NAME).join(SORT_COLS, SORT_COLS.c.SD_ID == _P.SD_ID)
        with self._database.read() as conn:
            columns = _grouped(conn.execute(sorting.where(where).order_by(_P.PART_ID, SORT_COLS.c.INTEGER_IDX)))
            for table, number, name, location in conn.execute(places.where(where)).all():
                if name in wanted[table]:
                    sort_columns = tuple(columns.get(number, ()))
                    found[table][name] = PartitionPlace(
                        id=number, name=name, location=location or "", sort_columns=sort_columns
                    )


def _grouped(rows: Iterable[Any]) -> Mapping[int, Sequence[str]]:
    collected: defaultdict[int, list[str]] = defaultdict(list)
    for owner, column in rows:
        collected[owner].append(column)
    return collected


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
