"""The locations of many partitions of many tables, read without the rest of their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, tuple_

from compactor.database.engine import Database
from compactor.database.prepared import in_parts
from compactor.metastore.catalog.values import PartitionPlace
from compactor.metastore.schema.tables import PARTITIONS, SDS, SORT_COLS

_P = PARTITIONS.c
_AT_ONCE = 1000  #: partitions that one statement names
_FEW = 20  #: up to this many partitions of a table are read by their names
_SHARE = 4  #: a table is read whole if it has at most this many times the requested partitions


class PartitionPlaces:
    """Reads PARTITIONS and SDS of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def for_partitions(self, names_by_table: Mapping[int, Collection[str]]) -> dict[int, dict[str, PartitionPlace]]:
        """Returns the existing partitions of ``names_by_table`` (PART_NAMEs by TBL_ID), by TBL_ID and PART_NAME."""
        places: dict[int, dict[str, PartitionPlace]] = {table: {} for table in names_by_table}
        whole = self._tables_to_read_whole(
            {table: len(names) for table, names in names_by_table.items() if len(names) > _FEW}
        )
        pairs = [(table, name) for table, names in names_by_table.items() if table not in whole for name in names]
        where = [_P.TBL_ID.in_(batch) for batch in in_parts(list(whole), _AT_ONCE)]
        where += [tuple_(_P.TBL_ID, _P.PART_NAME).in_(named) for named in in_parts(pairs, _AT_ONCE)]
        for condition in where:
            self._read(condition, names_by_table, places)
        return places

    def _tables_to_read_whole(self, name_counts: Mapping[int, int]) -> set[int]:
        """Returns the tables whose partitions are mostly in the request, by the number of requested names."""
        whole: set[int] = set()
        counts = select(_P.TBL_ID, func.count().label("n")).group_by(_P.TBL_ID)
        with self._database.read() as conn:
            for batch in in_parts(list(name_counts), _AT_ONCE):
                rows = conn.execute(counts.where(_P.TBL_ID.in_(batch)))
                whole.update(row.TBL_ID for row in rows if row.n <= _SHARE * name_counts[row.TBL_ID])
        return whole

    def _read(
        self,
        where: ColumnElement[bool],
        names_by_table: Mapping[int, Collection[str]],
        into: Mapping[int, dict[str, PartitionPlace]],
    ) -> None:
        """Reads the partitions ``where``, and adds those in ``names_by_table`` to ``into``."""
        places = select(_P.TBL_ID, _P.PART_ID, _P.PART_NAME, SDS.c.LOCATION).join(SDS, SDS.c.SD_ID == _P.SD_ID)
        sorting = select(_P.PART_ID, SORT_COLS.c.COLUMN_NAME).join(SORT_COLS, SORT_COLS.c.SD_ID == _P.SD_ID)
        with self._database.read() as conn:
            columns = _columns_by_owner(
                conn.execute(sorting.where(where).order_by(_P.PART_ID, SORT_COLS.c.INTEGER_IDX))
            )
            for table, number, name, location in conn.execute(places.where(where)).all():
                if name in names_by_table[table]:
                    sort_columns = tuple(columns.get(number, ()))
                    into[table][name] = PartitionPlace(
                        id=number, name=name, location=location or "", sort_columns=sort_columns
                    )


def _columns_by_owner(rows: Iterable[Any]) -> Mapping[int, Sequence[str]]:
    collected: defaultdict[int, list[str]] = defaultdict(list)
    for owner, column in rows:
        collected[owner].append(column)
    return collected
