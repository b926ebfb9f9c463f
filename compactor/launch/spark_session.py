"""The Spark session of a Compactor application."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.base.errors import NotSupported
from compactor.base.redaction import is_secret
from compactor.settings.driver_config import TRAVELS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"  #: come before spark.driver.extraJavaOptions, which therefore win
_PROXY = ".AmIpFilter.param.PROXY_URI_BASES"  #: the end of the key by which YARN's master says it


def session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a session; under spark-submit the master and the queue are spark-submit's, else ``master`` (local[*]).

    ``conf`` wins over what spark-submit was told, but not where files are named: spark-submit has uploaded those, and
    changed or renamed the key. The name that its ``--name`` gave wins over ``name``.

    Executors on this machine run this interpreter: the first ``python3`` on their PATH has no pyarrow.

    Raises:
        NotSupported: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotSupported("Spark is not installed: install hive-compactor[spark], or use --in-process") from error
    if master is not None and master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = _given()
    builder = SparkSession.builder.appName(_name(given, name))
    if master is not None:
        builder = builder.master(master)
    wanted = {**(_defaults(master) if master else {}), **(conf or {})}
    for key, value in wanted.items():
        if not _is_shipped(key, given):
            builder = builder.config(key, value)
    _start_jvm({"spark.app.name": name, **({"spark.master": master} if master else {}), **wanted})
    return builder.getOrCreate()


def _start_jvm(conf: Mapping[str, str]) -> None:
    """Starts the JVM, unless there is one, with the keys of ``conf`` that its command line may show, where pyspark puts
    them. The session passes the others to the JVM once it runs."""
    from pyspark import SparkConf, SparkContext

    public = SparkConf(loadDefaults=False)
    public.setAll([(key, value) for key, value in conf.items() if not is_secret(key, value)])
    SparkContext._ensure_initialized(conf=public)


def _defaults(master: str) -> Mapping[str, str]:
    """Returns what a session of ``master`` gets that spark-submit did not start.

    No row passes through the JVM: where it is also the executor, compiling its own code twice, as servers do, took as much
    of the processors as half of the units of a fleet.
    """
    found = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    return {**found, _JAVA_OPTIONS: "-XX:TieredStopAtLevel=1"} if master.startswith("local") else found


def _given() -> Mapping[str, str]:
    """Returns what spark-submit was told; empty without it. Its JVM has it, and Python does not ask by itself."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _is_shipped(key: str, given: Mapping[str, str]) -> bool:
    """Returns true for a key that names files of which spark-submit has taken care; on YARN it has a name of its own."""
    return key in TRAVELS and any(given.get(name) for name in (key, TRAVELS[key]))


def _name(given: Mapping[str, str], name: str) -> str:
    """Returns the name that somebody gave to spark-submit, else ``name``; unasked, it names an application by its file."""
    found = given.get("spark.app.name", "")
    return name if found in ("", Path(sys.argv[0]).name) else found


def attempt(session: SparkSession) -> int:
    """Returns the number of the attempt that this driver is: YARN starts a driver of its own again that ended badly."""
    found = session.sparkContext._jsc.sc().applicationAttemptId()
    return int(found.get()) if found.isDefined() and str(found.get()).isdigit() else 1


def tracking_url(session: SparkSession) -> str | None:
    """Returns where people see the application: YARN's proxy, which they can reach and may pass, else Spark's own page."""
    proxies = [value for key, value in session.sparkContext.getConf().getAll() if key.endswith(_PROXY)]
    found: str | None = proxies[0].partition(",")[0] if proxies else session.sparkContext.uiWebUrl
    return found


def is_alive(session: SparkSession) -> bool:
    """Returns true if the session's JVM exists and works; under spark-submit a driver outlives a JVM that is killed."""
    from py4j.protocol import Py4JError

    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):  # the context was stopped and no longer has a JVM
        return False
