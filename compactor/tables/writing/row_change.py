"""The change of one row, by an UPDATE, DELETE or MERGE, as it travels to those who write it; see ``changed_rows``."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

KIND = "row__change"  #: the column of ``Kind``
FILE = "row__file"  #: the column of the file that holds the row: its partition, "" without one, and its number
FILE_TYPE = pa.struct([pa.field("partition", pa.string()), pa.field("number", pa.int32())])
EXACT = "row__exact"  #: a struct of timestamps with all of their digits, by column; NULL where the column has the value
CHECK = "hive.merge.cardinality.check"


class Kind(enum.IntEnum):
    """The change of one row."""

    NOTHING = 0  #: matched, and left as it is; it counts for the check alone
    DELETE = 1
    UPDATE = 2
    INSERT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The numbers of rows that a statement has deleted, updated and inserted."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0

    @classmethod
    def total(cls, parts: Iterable[Changed]) -> Changed:
        every = list(parts)
        return cls(
            deleted=sum(one.deleted for one in every),
            updated=sum(one.updated for one in every),
            inserted=sum(one.inserted for one in every),
        )
