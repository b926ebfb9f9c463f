"""The cluster that spark-submit is going to use, as far as its options and spark-defaults.conf say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from compactor.site.spark_secrets import defaults_file

_MASTER, _MODE = "spark.master", "spark.submit.deployMode"
_ENTRY = re.compile(r"\s*(?P<key>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Master and deploy mode, with the site's own keys from spark-defaults.conf."""

    master: str
    deploy_mode: str
    defaults: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  #: of spark-submit, for what is not left to it

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_yarn(self) -> bool:
        return self.master == "yarn"

    @property
    def is_kubernetes(self) -> bool:
        return self.master.startswith("k8s://")

    @property
    def is_cluster(self) -> bool:
        """True if the driver runs on another machine than spark-submit."""
        return self.deploy_mode == "cluster"


def target_of(program: str, master: str | None, deploy_mode: str | None, environ: Mapping[str, str]) -> SparkTarget:
    """Returns where ``program``, a spark-submit, sends an application that is given these options."""
    defaults = _defaults(program, environ)
    return SparkTarget(
        master=master or environ.get("MASTER") or defaults.get(_MASTER) or "local[*]",
        deploy_mode=deploy_mode or environ.get("DEPLOY_MODE") or defaults.get(_MODE) or "client",
        defaults=defaults,
        options=(
            *(("--master", master) if master else ()),
            *(("--deploy-mode", deploy_mode) if deploy_mode else ()),
        ),
    )


def _defaults(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of spark-defaults.conf, a Java properties file, where spark-submit looks for it."""
    try:
        lines = defaults_file(program, environ).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found = (_ENTRY.match(line) for line in lines if not line.lstrip().startswith(("#", "!")))
    return {entry["key"]: entry["value"] for entry in found if entry is not None}
