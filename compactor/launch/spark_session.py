"""The Spark session of a Compactor application."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.base.errors import NotSupported
from compactor.base.private_files import SAFE_PATH
from compactor.base.redaction import is_secret
from compactor.settings.spark_conf import TRAVELS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"  #: spark.driver.extraJavaOptions follow them and win
_PROXY = ".AmIpFilter.param.PROXY_URI_BASES"  #: the end of the key with the address of YARN's proxy


def start_session(name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a Spark session, or takes the one of spark-submit.

    Under spark-submit, its master and queue apply, else ``master`` (local[*]). ``conf`` wins over spark-submit's options,
    except for keys that name files: spark-submit has uploaded the files and changed or renamed these keys. A name from
    ``--name`` wins over ``name``.

    Executors on this machine use this interpreter, because the first ``python3`` on their PATH may lack pyarrow. They import
    nothing from the current directory, where another user may have left a module.

    Raises:
        NotSupported: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotSupported("Spark is not installed: install hive-compactor[spark], or use --in-process") from error
    if master is not None and master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ[SAFE_PATH] = "1"  # Spark starts them by ``python -m``
    submitted = _read_submitted_conf()
    builder = SparkSession.builder.appName(_choose_name(submitted, name))
    if master is not None:
        builder = builder.master(master)
    conf = {**(_default_conf(master) if master else {}), **(conf or {})}
    for key, value in conf.items():
        if not _is_shipped_file(key, submitted):
            builder = builder.config(key, value)
    _start_jvm({"spark.app.name": name, **({"spark.master": master} if master else {}), **conf})
    return builder.getOrCreate()


def _start_jvm(conf: Mapping[str, str]) -> None:
    """Starts the JVM, unless it runs, without the secret keys of ``conf``.

    pyspark puts the other keys on its command line.

    The session passes the secret keys to the running JVM.
    """
    from pyspark import SparkConf, SparkContext

    public = SparkConf(loadDefaults=False)
    public.setAll([(key, value) for key, value in conf.items() if not is_secret(key, value)])
    SparkContext._ensure_initialized(conf=public)


def _default_conf(master: str) -> Mapping[str, str]:
    """Returns the configuration of a session that spark-submit did not start.

    A local JVM compiles its code only once, not a second time for speed: no row passes through it, and the second
    compilation took half as much processor time as all units of a fleet.
    """
    conf = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    return {**conf, _JAVA_OPTIONS: "-XX:TieredStopAtLevel=1"} if master.startswith("local") else conf


def _read_submitted_conf() -> Mapping[str, str]:
    """Returns spark-submit's configuration, which its JVM has; empty without spark-submit."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _is_shipped_file(key: str, submitted: Mapping[str, str]) -> bool:
    """Returns true for a key whose files spark-submit has already uploaded, on YARN under another key."""
    return key in TRAVELS and any(submitted.get(name) for name in (key, TRAVELS[key]))


def _choose_name(submitted: Mapping[str, str], name: str) -> str:
    """Returns the name given to spark-submit, else ``name``.

    Without ``--name`` spark-submit takes the file's name.
    """
    submitted_name = submitted.get("spark.app.name", "")
    return name if submitted_name in ("", Path(sys.argv[0]).name) else submitted_name


def attempt_number(session: SparkSession) -> int:
    """Returns the number of this driver's attempt.

    YARN restarts a driver that ends with an error in cluster mode.
    """
    attempt_id = session.sparkContext._jsc.sc().applicationAttemptId()
    return int(attempt_id.get()) if attempt_id.isDefined() and str(attempt_id.get()).isdigit() else 1


def tracking_url(session: SparkSession) -> str | None:
    """Returns the page on which people watch the application: YARN's proxy if there is one, else Spark."""
    proxies = [value for key, value in session.sparkContext.getConf().getAll() if key.endswith(_PROXY)]
    url: str | None = proxies[0].partition(",")[0] if proxies else session.sparkContext.uiWebUrl
    return url


def is_alive(session: SparkSession) -> bool:
    """Returns true if the session's JVM exists and works.

    Under spark-submit a driver outlives a killed JVM.
    """
    from py4j.protocol import Py4JError

    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):  # the context was stopped and no longer has a JVM
        return False
