"""Certain facts about the rows of one or more files. They are plain values, so that they travel.

The rule throughout: a figure is exact, or it is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

Extreme: TypeAlias = int | float | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFigures:
    """The figures of one column.

    ``name`` and ``type`` come from the file; ``type`` is written as in Hive. ``values`` counts the rows that are not null.
    ``low`` and ``high`` are None without values, and where they are not known.
    """

    name: str
    type: str
    values: int
    low: Extreme | None = None
    high: Extreme | None = None
    trues: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFigures:
    """The figures of all rows together.

    ``raw_size`` is Hive's ``rawDataSize``; ``columns`` is empty where nothing is known of them.
    """

    rows: int
    raw_size: int
    columns: tuple[ColumnFigures, ...] = ()


def merge_figures(parts: Sequence[RowFigures]) -> RowFigures:
    """Returns the figures of the rows of all ``parts``, whose files have no row in common."""
    valued = [part for part in parts if part.rows]
    columns: tuple[ColumnFigures, ...] = ()
    if len({tuple((column.name, column.type) for column in part.columns) for part in valued}) == 1:
        columns = tuple(_merged(same) for same in zip(*(part.columns for part in valued), strict=True))
    return RowFigures(
        rows=sum(part.rows for part in parts), raw_size=sum(part.raw_size for part in parts), columns=columns
    )


def _merged(parts: Sequence[ColumnFigures]) -> ColumnFigures:
    if len(parts) == 1:
        return parts[0]
    valued = [part for part in parts if part.values]
    return ColumnFigures(
        name=parts[0].name,
        type=parts[0].type,
        values=sum(part.values for part in parts),
        low=_of_all(min, [part.low for part in valued]),
        high=_of_all(max, [part.high for part in valued]),
        trues=_of_all(sum, [part.trues for part in parts]),
    )


def _of_all(combine: Callable[[Sequence[Any]], Any], found: Sequence[Any]) -> Any:
    return combine(found) if found and None not in found else None
