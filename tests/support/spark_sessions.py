"""A session of Spark on this machine for tests of ``hive_acid``, and a metastore beside it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compactor.spark_tables import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.log.level": "ERROR",
}


@contextmanager
def local_session(
    folder: Path, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yields a session that knows ``hive_acid``; its JVM ends with the block, as an application's does."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # py4j leaves sockets to the garbage collector
        builder = SparkSession.builder.master(master).appName("tests")
        for key, value in {**CONF, "spark.sql.warehouse.dir": str(folder / "spark"), **(conf or {})}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        register(session)
        try:
            yield session
        finally:
            session.stop()
            gateway: Any = SparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None


def pid_of(session: SparkSession) -> int:
    """Returns the process of the session's JVM."""
    jvm: Any = session.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())
