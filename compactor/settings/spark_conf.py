"""The Spark keys that a table or a request may set: sizes, counts, shares, times and switches of resources.

Spark has hundreds of keys that load code, read files, reach hosts or change who runs (``spark.executorEnv.LD_PRELOAD``,
``spark.kubernetes.driver.podTemplateFile``, ``spark.sql.extensions``, ``spark.hadoop.*``), and each release adds more. So
the harmless keys are listed, and their values are parsed. A site's ``compactor.allowed.spark.conf`` chooses among these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

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


def refusal(key: str, text: str, allowed: frozenset[str]) -> str | None:
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
