"""The Spark session of a Compactor application."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from compactor.errors import NotSupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a session; under spark-submit the master and the queue are spark-submit's, else ``master`` (local[*]).

    Keys of ``conf`` that spark-submit has set keep its values: it may have changed one, for example to the place where it
    uploaded an archive.

    Executors on this machine run this interpreter: the first ``python3`` on their PATH has no pyarrow.

    Raises:
        NotSupported: pyspark is not installed.
    """
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotSupported("Spark is not installed: install hive-compactor[spark], or use --in-process") from error
    if master is not None and master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    defaults = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"} if master else {}
    given = SparkConf() if master is None else None
    for key, value in {**defaults, **(conf or {})}.items():
        if given is None or not given.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def is_alive(session: SparkSession) -> bool:
    """Returns true if the session's JVM exists and works; under spark-submit a driver outlives a JVM that is killed."""
    from py4j.protocol import Py4JError

    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):  # the context was stopped and no longer has a JVM
        return False
