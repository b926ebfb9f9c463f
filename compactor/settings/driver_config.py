"""The conf of an application on a cluster: files that travel with it, of which its driver opens compactor.toml at the same
path or as such a copy, and how often its driver is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from compactor.base.errors import BadSetting

#: The keys that name files which travel, and what each is called once spark-submit has handed it to YARN.
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
    """Returns the path by which the driver opens ``config``; None leaves it to the driver's own environment.

    Args:
        conf: of the application; a file that its ``spark.files`` names lies in a cluster driver's own directory.
        is_cluster: true if the driver runs on another machine, with another environment than ours.
    """
    if not is_cluster or config is None:
        return config
    names = _shipped(conf)
    return names.get(config) or names.get(f"file:{config}") or names.get(f"file://{config}") or config


def for_yarn(conf: Mapping[str, str], defaults: Mapping[str, str] = {}, *, is_cluster: bool) -> dict[str, str]:
    """Returns ``conf`` with YARN's own keys of archives and files: by Spark's, a driver in client mode would fetch and hand
    them out once more, an archive of hundreds of megabytes included.

    A driver in the cluster is started once: YARN's default would repeat one that says that an entry failed. Of one, YARN
    starts no other even when its node is lost (``RMAppImpl.AttemptFailedTransition``); whoever launched it does.

    Args:
        defaults: of spark-submit; a number of attempts in them stays.
    """
    moved = {key: TRAVELS[key] for key in ("spark.archives", "spark.files")}
    once = {_ATTEMPTS: "1"} if is_cluster and _ATTEMPTS not in defaults else {}
    found = once | {key: value for key, value in conf.items() if key not in moved}
    for key, name in moved.items():
        values = [value for value in (conf.get(name), conf.get(key)) if value]
        found |= {name: ",".join(values)} if values else {}
    return found


def must_know_metastore(config: str | None, conf: Mapping[str, str]) -> None:
    """Refuses to start a driver on a node of YARN that would know nothing of any metastore.

    Raises:
        BadSetting: there is no configuration for it.
    """
    if config or _IN_ENVIRONMENT & conf.keys() or "compactor.toml" in _shipped(conf).values():
        return
    raise BadSetting(
        "deploy mode cluster: the driver runs on another machine and sees nothing of this environment, such as "
        "COMPACTOR_METASTORE_URL, and no compactor.toml is named; give --config PATH of one that is on every node, or name "
        "one that travels along by compactor.spark.files = PATH"
    )


def _shipped(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the names that files which travel have in the driver's directory, by their paths here."""
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
