"""Rows that count: the first row of a counter, and the ids of catalog rows as DataNucleus draws them."""

from __future__ import annotations

from sqlalchemy import Connection, Insert, insert, select, update
from sqlalchemy.exc import IntegrityError

from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import SEQUENCE_TABLE


def try_insert(conn: Connection, row: Insert) -> bool:
    """Inserts ``row``; returns false if another transaction has just committed one with its key.

    A row that does not exist cannot be locked, so the unique key decides. The caller's transaction goes on.
    """
    try:
        with conn.begin_nested():
            conn.execute(row)
    except IntegrityError:
        return False
    return True


_MODEL = "org.apache.hadoop.hive.metastore.model."


def draw_catalog_ids(conn: Connection, dialect: Dialect, model: str, count: int = 1) -> int:
    """Draws ``count`` ids of a model class under the row's lock, and returns the first.

    A model class is for example ``MPartition``.
    """
    name = _MODEL + model
    here = SEQUENCE_TABLE.c.SEQUENCE_NAME == name
    next_id = conn.execute(dialect.for_update(select(SEQUENCE_TABLE.c.NEXT_VAL).where(here))).scalar()
    if next_id is not None:
        conn.execute(update(SEQUENCE_TABLE).where(here).values(NEXT_VAL=next_id + count))
        return int(next_id)
    first = insert(SEQUENCE_TABLE).values(SEQUENCE_NAME=name, NEXT_VAL=1 + count)
    return 1 if try_insert(conn, first) else draw_catalog_ids(conn, dialect, model, count)


def has_drawn_catalog_ids(conn: Connection, model: str) -> bool:
    """Returns true if anybody has drawn an id of a model class.

    Its first rows have 1 as the next id.
    """
    here = SEQUENCE_TABLE.c.SEQUENCE_NAME == _MODEL + model
    return (conn.execute(select(SEQUENCE_TABLE.c.NEXT_VAL).where(here)).scalar() or 1) > 1
