"""Tables as a program has loaded them, beside what they have become."""

from __future__ import annotations

from compactor.errors import Refused
from compactor.metastore.catalog.values import Table


def must_be_as_loaded(loaded: Table, now: Table) -> None:
    """Refuses a table that has been altered, or dropped and created anew, since rows were fitted to it.

    Raises:
        Refused: its columns, buckets or place are others.
    """
    if _fitted(loaded) != _fitted(now):
        raise Refused(f"{loaded}: was altered or created anew since it was loaded; load it again and write once more")


def _fitted(table: Table) -> tuple[object, ...]:
    """Returns all that decides where and how its rows are written."""
    columns = (table.row_type, table.partition_keys, table.bucket_columns, table.buckets, table.sort_columns)
    return table.id, table.location, *columns
