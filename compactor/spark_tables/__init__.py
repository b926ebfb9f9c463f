"""Hive ACID tables for Spark: ``spark.read`` and ``df.write`` with ``format("hive_acid")``, and
``AcidTable`` to change rows; see docs/spark-tables.md.

Spark starts and ends Python processes for data sources as it needs them, so none of them can hold a transaction. One process
on the driver's host, the *keeper*, holds all transactions as long as the application lives. Executors read and write files
and carry no SQL.
"""

from __future__ import annotations

from importlib import import_module
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


must_have_data_sources()

if TYPE_CHECKING:
    from compactor.spark_tables.acid_table import AcidTable, Merge
    from compactor.spark_tables.data_source import HiveAcid
    from compactor.spark_tables.session import forget_stream, register, snapshot
    from compactor.spark_tables.sql_run import sql
    from compactor.tables.writing.row_change import Changed

__all__ = ["AcidTable", "Changed", "HiveAcid", "Merge", "forget_stream", "register", "snapshot", "sql"]

_MODULES = {
    "AcidTable": "compactor.spark_tables.acid_table",
    "Changed": "compactor.tables.writing.row_change",
    "HiveAcid": "compactor.spark_tables.data_source",
    "Merge": "compactor.spark_tables.acid_table",
    "forget_stream": "compactor.spark_tables.session",
    "register": "compactor.spark_tables.session",
    "snapshot": "compactor.spark_tables.session",
    "sql": "compactor.spark_tables.sql_run",
}


def __getattr__(name: str) -> Any:
    """Imports a name on first use.

    Every Python worker of an executor imports this package, and uses none of its names.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
