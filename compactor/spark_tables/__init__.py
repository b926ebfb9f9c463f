"""Hive ACID tables for Spark: ``spark.read`` and ``df.write`` with ``format("hive_acid")``, and
``AcidTable`` to change rows; see docs/spark-tables.md.

Processes of Spark's Python data sources come and go, so none of them holds a transaction: one *keeper* on the driver's host
does, for as long as the application lives. Executors read and write files and carry no SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compactor.spark_tables.spark_version import must_have_data_sources

must_have_data_sources()  # before anything is imported that Spark has not
from compactor.spark_tables.acid_table import AcidTable, Merge  # noqa: E402
from compactor.spark_tables.data_source import HiveAcid  # noqa: E402
from compactor.spark_tables.session import forget_stream, register, snapshot  # noqa: E402
from compactor.tables.writing.row_change import Changed  # noqa: E402

if TYPE_CHECKING:
    from compactor.spark_tables.sql_run import sql

__all__ = ["AcidTable", "Changed", "HiveAcid", "Merge", "forget_stream", "register", "snapshot", "sql"]


def __getattr__(name: str) -> Any:
    """Imports what runs SQL when it is asked for: executors import this package, and no metastore with it."""
    if name != "sql":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compactor.spark_tables.sql_run import sql

    return sql
