"""The ids of catalog rows, as DataNucleus draws them: from SEQUENCE_TABLE, one row for each model class."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.single_rows import inserted
from compactor.metastore.schema.tables import SEQUENCE_TABLE

_MODEL = "org.apache.hadoop.hive.metastore.model."


def draw(conn: Connection, dialect: Dialect, model: str, count: int = 1) -> int:
    """Draws ``count`` ids of a model class such as ``MPartition`` under the row's lock, and returns the first."""
    name = _MODEL + model
    here = SEQUENCE_TABLE.c.SEQUENCE_NAME == name
    found = conn.execute(dialect.for_update(select(SEQUENCE_TABLE.c.NEXT_VAL).where(here))).scalar()
    if found is not None:
        conn.execute(update(SEQUENCE_TABLE).where(here).values(NEXT_VAL=found + count))
        return int(found)
    first = insert(SEQUENCE_TABLE).values(SEQUENCE_NAME=name, NEXT_VAL=1 + count)
    return 1 if inserted(conn, first) else draw(conn, dialect, model, count)


def has_drawn(conn: Connection, model: str) -> bool:
    """Returns true if an id of a model class has been drawn, by anybody: its first rows have 1 as the next one."""
    here = SEQUENCE_TABLE.c.SEQUENCE_NAME == _MODEL + model
    return (conn.execute(select(SEQUENCE_TABLE.c.NEXT_VAL).where(here)).scalar() or 1) > 1
