"""Spark's configuration: the keys that a table or a request may set, and that of an application.

Spark has hundreds of keys that load code, read files, reach hosts or change who runs (``spark.executorEnv.LD_PRELOAD``,
``spark.kubernetes.driver.podTemplateFile``, ``spark.sql.extensions``, ``spark.hadoop.*``), and each release adds more. So
the harmless keys are listed, and their values are parsed. A site's ``compactor.allowed.spark.conf`` chooses among these.

The driver of an application opens compactor.toml at the same path as here, or as a shipped copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

from compactor.base.errors import BadSetting

_SIZE = re.compile(r"[0-9]{1,15}(?:[kKmMgGtT][bB]?|[bB])?")
_COUNT = re.compile(r"[0-9]{1,9}")
_SHARE = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")
_TIME = re.compile(r"[0-9]{1,12}(?:us|ms|s|m|min|h|d)?")
_SWITCH = re.compile(r"true|false")
_CORES = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3}|m)?")

_KINDS = (
    (
        _SIZE,
        "a size such as 8g or 600m",
        """driver.maxResultSize driver.memory driver.memoryOverhead executor.memory executor.memoryOverhead
        executor.pyspark.memory memory.offHeap.size""",
    ),
    (
        _COUNT,
        "a whole number",
        """cores.max default.parallelism driver.cores dynamicAllocation.initialExecutors dynamicAllocation.maxExecutors
        dynamicAllocation.minExecutors executor.cores executor.instances sql.shuffle.partitions task.cpus
        task.maxFailures""",
    ),
    (
        _SHARE,
        "a number such as 0.1",
        """driver.memoryOverheadFactor dynamicAllocation.executorAllocationRatio executor.memoryOverheadFactor
        memory.fraction memory.storageFraction""",
    ),
    (
        _TIME,
        "a time such as 60s",
        """dynamicAllocation.executorIdleTimeout dynamicAllocation.schedulerBacklogTimeout
        dynamicAllocation.sustainedSchedulerBacklogTimeout executor.heartbeatInterval locality.wait locality.wait.node
        locality.wait.process locality.wait.rack network.timeout""",
    ),
    (
        _SWITCH,
        "true or false",
        "dynamicAllocation.enabled dynamicAllocation.shuffleTracking.enabled memory.offHeap.enabled",
    ),
    (
        _CORES,
        "a number of cores such as 2 or 500m",
        """kubernetes.driver.limit.cores kubernetes.driver.request.cores kubernetes.executor.limit.cores
        kubernetes.executor.request.cores""",
    ),
)
#: The pattern of each key's values, and its description.
HARMLESS: Mapping[str, tuple[re.Pattern[str], str]] = MappingProxyType(
    {f"spark.{name}": (pattern, expected) for pattern, expected, names in _KINDS for name in names.split()}
)


def explain_refusal(key: str, text: str, allowed: frozenset[str]) -> str | None:
    """Returns the reason why a table or a request may not set ``key`` to ``text``; None if it may.

    Args:
        allowed: the keys that the site lets them set, if they are harmless.
    """
    if key not in HARMLESS:
        return (
            f"{key} is not one of the sizes, counts, times and switches that a table may set. Other keys can load "
            "code, read files or change who runs: only the site's own configuration may set them, whatever "
            "compactor.allowed.spark.conf lists"
        )
    if key not in allowed:
        listed = ", ".join(sorted(allowed & HARMLESS.keys())) or "nothing"
        return f"{key} is not among the keys that compactor.allowed.spark.conf allows ({listed})"
    pattern, expected = HARMLESS[key]
    return None if pattern.fullmatch(text.strip()) else f"{key} = {text!r}: expected {expected}"


#: The keys of shipped files, and YARN's key for each, which spark-submit sets.
TRAVELS = {
    "spark.archives": "spark.yarn.dist.archives",
    "spark.files": "spark.yarn.dist.files",
    "spark.jars": "spark.yarn.dist.jars",
    "spark.submit.pyFiles": "spark.yarn.dist.pyFiles",
}
_ATTEMPTS = "spark.yarn.maxAppAttempts"
_IN_ENVIRONMENT = frozenset(
    f"spark.yarn.appMasterEnv.{name}" for name in ("COMPACTOR_CONFIG", "COMPACTOR_METASTORE_URL")
)


def driver_config(config: str | None, conf: Mapping[str, str], *, is_cluster: bool) -> str | None:
    """Returns the path at which the driver opens ``config``; None leaves it to its environment.

    Args:
        conf: the application's; the files in its ``spark.files`` are in the working directory of a cluster driver.
        is_cluster: true if the driver runs on another machine, with another environment than ours.
    """
    if not is_cluster or config is None:
        return config
    names = _list_shipped(conf)
    return names.get(config) or names.get(f"file:{config}") or names.get(f"file://{config}") or config


def for_yarn(conf: Mapping[str, str], defaults: Mapping[str, str] = {}, *, is_cluster: bool) -> dict[str, str]:
    """Returns ``conf`` with YARN's keys for archives and files, and one attempt for a cluster driver.

    With Spark's keys, a driver in client mode would fetch archives of hundreds of megabytes and distribute them once more.
    By default YARN would repeat a driver that reports a failed entry. With one attempt YARN starts no other, even when the
    node is lost (``RMAppImpl.AttemptFailedTransition``); the launcher does.

    Args:
        defaults: those of spark-submit; a number of attempts in them is kept.
    """
    moved = {key: TRAVELS[key] for key in ("spark.archives", "spark.files")}
    once = {_ATTEMPTS: "1"} if is_cluster and _ATTEMPTS not in defaults else {}
    result = once | {key: value for key, value in conf.items() if key not in moved}
    for key, name in moved.items():
        values = [value for value in (conf.get(name), conf.get(key)) if value]
        result |= {name: ",".join(values)} if values else {}
    return result


def must_know_metastore(config: str | None, conf: Mapping[str, str]) -> None:
    """Refuses to start a driver on a YARN node without the configuration of a metastore.

    Raises:
        BadSetting: the driver would have no configuration.
    """
    if config or _IN_ENVIRONMENT & conf.keys() or "compactor.toml" in _list_shipped(conf).values():
        return
    raise BadSetting(
        "deploy mode cluster: the driver runs on another machine and sees nothing of this environment, such as "
        "COMPACTOR_METASTORE_URL, and no compactor.toml is named; give --config PATH of one that is on every node, or "
        "ship one with compactor.spark.files = PATH"
    )


def _list_shipped(conf: Mapping[str, str]) -> dict[str, str]:
    """Maps the paths of shipped files to their names in the driver's directory."""
    paths = [
        name.strip()
        for key in ("spark.files", TRAVELS["spark.files"])
        for name in conf.get(key, "").split(",")
        if name.strip()
    ]
    return {path.partition("#")[0]: _name_there(path) for path in paths}


def _name_there(path: str) -> str:
    """Returns the name of a shipped file in the driver's directory."""
    return path.partition("#")[2] or PurePath(path).name
