"""Where the driver of an application finds compactor.toml: at the same path, or as a copy that travels with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from compactor.errors import BadSetting

_SHIPPED = ("spark.files", "spark.yarn.dist.files")
_IN_ENVIRONMENT = ("spark.yarn.appMasterEnv.", "spark.kubernetes.driverEnv.")
_OWN = ("COMPACTOR_CONFIG", "COMPACTOR_METASTORE_URL")


def driver_config(config: str | None, conf: Mapping[str, str], *, is_cluster: bool) -> str | None:
    """Returns the path by which the driver opens ``config``; None leaves it to the driver's own environment.

    Args:
        conf: of the application; a file that its ``spark.files`` names lies in a cluster driver's own directory.
        is_cluster: true if the driver runs on another machine, with another environment than ours.

    Raises:
        BadSetting: the driver would know nothing of any metastore.
    """
    if not is_cluster:
        return config
    shipped = [name for key in _SHIPPED for name in conf.get(key, "").split(",") if name.strip()]
    names = {path.strip().partition("#")[0]: _name_there(path.strip()) for path in shipped}
    if config is not None:
        return names.get(config) or names.get(f"file:{config}") or names.get(f"file://{config}") or config
    told = {f"{prefix}{name}" for prefix in _IN_ENVIRONMENT for name in _OWN}
    if told & conf.keys() or "compactor.toml" in names.values():
        return None
    raise BadSetting(
        "deploy mode cluster: the driver runs on another machine and sees nothing of this environment, such as "
        "COMPACTOR_METASTORE_URL, and no compactor.toml is named; give --config PATH of one that is on every node, or name "
        "one that travels along by compactor.spark.files = PATH"
    )


def _name_there(path: str) -> str:
    """Returns the name of a shipped file in the driver's directory."""
    return path.partition("#")[2] or PurePath(path).name
