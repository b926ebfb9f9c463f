"""Hive ACID tables for Spark: ``spark.read`` and ``df.write`` with ``format("hive_acid")``, and
``AcidTable`` to change rows; see docs/spark-tables.md.

Spark starts and ends Python processes for data sources as it needs them, so none of them can hold a transaction. One process
on the driver's host, the *keeper*, holds all transactions as long as the application lives. Executors read and write files
and carry no SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark

from compactor.base.errors import NotSupported

OLDEST_SPARK = (4, 2)  #: the first version with the Python data sources that this package needs


def must_have_data_sources(version: str = pyspark.__version__) -> None:
    """Checks that ``version`` of PySpark has the data sources that this package needs.

    Raises:
        NotSupported: the version is older.
    """
    if tuple(map(int, version.split(".")[:2])) < OLDEST_SPARK:
        raise NotSupported(
            f"PySpark {version} is too old for tables for Spark, which need {OLDEST_SPARK[0]}.{OLDEST_SPARK[1]} or later; "
            "compactor.tables and `compactor sql` read and write tables without Spark, and compactions run on Spark 3.5"
        )


must_have_data_sources()  # before the imports below, which an older Spark does not have
from compactor.spark_tables.acid_table import AcidTable, Merge  # noqa: E402
from compactor.spark_tables.data_source import HiveAcid  # noqa: E402
from compactor.spark_tables.session import forget_stream, register, snapshot  # noqa: E402
from compactor.tables.writing.row_change import Changed  # noqa: E402

if TYPE_CHECKING:
    from compactor.spark_tables.sql_run import sql

__all__ = ["AcidTable", "Changed", "HiveAcid", "Merge", "forget_stream", "register", "snapshot", "sql"]


def __getattr__(name: str) -> Any:
    """Imports ``sql`` on first use, so that executors, which import this package, load no metastore."""
    if name != "sql":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compactor.spark_tables.sql_run import sql

    return sql
