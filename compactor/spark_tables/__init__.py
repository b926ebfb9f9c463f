"""Hive ACID tables for Spark: ``spark.read`` and ``df.write`` with ``format("hive_acid")``, and
``AcidTable`` to change rows; see docs/spark-tables.md.

Processes of Spark's Python data sources come and go, so none of them holds a transaction: one *keeper* on the driver's host
does, for as long as the application lives. Executors read and write files and carry no SQL.
"""

from __future__ import annotations

from compactor.spark_tables.acid_table import AcidTable, Merge
from compactor.spark_tables.data_source import HiveAcid
from compactor.spark_tables.session import register, snapshot
from compactor.tables.writing.changed_rows import Changed

__all__ = ["AcidTable", "Changed", "HiveAcid", "Merge", "register", "snapshot"]
