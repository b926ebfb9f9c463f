"""Spark's daemon of Python workers, with the modules of ``hive_acid`` imported: each worker is forked from it.

Spark forks a worker for each plan of a data source, and by default each imports everything again.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyarrow.orc  # noqa: F401
from pyspark.daemon import manager

from compactor.spark_tables import data_source, reader, writer  # noqa: F401
from compactor.storage import stores  # noqa: F401
from compactor.tables import time_forms  # noqa: F401
from compactor.tables.reading import scan_task_reader  # noqa: F401
from compactor.tables.writing import part_files  # noqa: F401

if __name__ == "__main__":
    manager()
