"""The oldest version of Spark with the Python data sources that this package needs."""

from __future__ import annotations

import pyspark

from compactor.base.errors import NotSupported

OLDEST = (4, 2)


def must_have_data_sources(version: str = pyspark.__version__) -> None:
    """Checks that ``version`` of PySpark has the data sources that this package needs.

    Raises:
        NotSupported: the version is older.
    """
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise NotSupported(
            f"PySpark {version} is too old for tables for Spark, which need {OLDEST[0]}.{OLDEST[1]} or later; "
            "compactor.tables and `compactor sql` read and write tables without Spark, and compactions run on Spark 3.5"
        )
