"""Hive's tables of column statistics, with the columns that are read or written here; those of our own schema has none.

They are no part of ``schema.tables``: releases differ in other columns of theirs, and nothing here inserts a row.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String, Table
from sqlalchemy.types import UserDefinedType

from compactor.metastore.schema.tables import PARTITION_PARAMS, PARTITIONS, TABLE_PARAMS, TBLS

metadata = MetaData()


class _Double(UserDefinedType[float]):
    """A double as the driver reads and writes it; SQLAlchemy's own asks a running query how to."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "DOUBLE PRECISION"


#: The columns of figures, in which Hive keeps those of every type.
FIGURES = (
    *("LONG_LOW_VALUE", "LONG_HIGH_VALUE", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE"),
    *("BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS", "NUM_TRUES", "NUM_FALSES"),
)
ENGINE = "hive"  #: of Hive's own rows; those of other engines are left alone


def _table(name: str, owner: str) -> Table:
    return Table(
        name,
        metadata,
        Column("CS_ID", BigInteger, primary_key=True, autoincrement=False),
        Column(owner, BigInteger, nullable=False),
        Column("COLUMN_NAME", String(767)),
        Column("COLUMN_TYPE", String(128)),
        Column("LONG_LOW_VALUE", BigInteger),
        Column("LONG_HIGH_VALUE", BigInteger),
        Column("DOUBLE_LOW_VALUE", _Double),
        Column("DOUBLE_HIGH_VALUE", _Double),
        Column("BIG_DECIMAL_LOW_VALUE", String(4000)),
        Column("BIG_DECIMAL_HIGH_VALUE", String(4000)),
        Column("NUM_NULLS", BigInteger, nullable=False),
        Column("NUM_DISTINCTS", BigInteger),
        Column("AVG_COL_LEN", _Double),
        Column("MAX_COL_LEN", BigInteger),
        Column("NUM_TRUES", BigInteger),
        Column("NUM_FALSES", BigInteger),
        Column("LAST_ANALYZED", BigInteger, nullable=False),
        Column("ENGINE", String(128), nullable=False),  # since Hive 4
    )


TAB_COL_STATS = _table("TAB_COL_STATS", "TBL_ID")
PART_COL_STATS = _table("PART_COL_STATS", "PART_ID")

#: What is written here and in which ways; the rights of the database's user that statistics need.
WRITTEN = (
    ((TABLE_PARAMS, PARTITION_PARAMS), ("INSERT", "UPDATE")),
    ((TBLS, PARTITIONS, TAB_COL_STATS, PART_COL_STATS), ("UPDATE",)),
)
