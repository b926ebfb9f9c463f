"""The command line of spark-submit for one batch, the cluster that it reaches, and its environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compactor.base.private_files import SAFE_PATH
from compactor.cli.context import CliContext
from compactor.launch.submit_target import LOCAL_MASTER, WORKER_JOB, SubmitTarget
from compactor.launch.yarn_application import make_tag
from compactor.settings.spark_conf import driver_config, for_yarn
from compactor.site.spark_secrets import defaults_file, inherited_path

if TYPE_CHECKING:
    from compactor.batches.assembly import PlannedBatch


_TAGS = "spark.yarn.tags"
_PYTHON, _DRIVERS_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"


def submit_line(
    program: str, context: CliContext, batch: PlannedBatch, target: SparkTarget, properties: int | None = None
) -> Sequence[str]:
    """Returns the command line of one batch's application, without any secret.

    The driver reads the connection from its environment or from compactor.toml. spark-submit reads the site's secret keys
    of Spark from a file that it inherits as the descriptor ``properties``.
    """
    line = [program, "--name", batch.job, *target.options]
    line += ["--properties-file", inherited_path(properties)] if properties is not None else []
    line += ["--queue", batch.queue] if batch.queue else []
    line += ["--proxy-user", batch.run_as] if batch.run_as else []
    conf = for_yarn(batch.conf, target.defaults, is_cluster=target.is_cluster) if target.is_yarn else batch.conf
    for key, value in sorted({**conf, **_added_conf(context, batch, target)}.items()):
        line += ["--conf", f"{key}={value}"]
    driver_file = target.find_driver_file(str(WORKER_JOB), {**target.defaults, **batch.conf})
    line += [driver_file, "--metastore", context.metastore, "--batch", str(batch.batch_id)]
    line += ["--max-seconds", str(batch.max_seconds)] if batch.max_seconds is not None else []
    config = driver_config(config_path(context), {**target.defaults, **batch.conf}, is_cluster=target.is_cluster)
    line += ["--config", config] if config else []
    for key, value in context.flags.items():
        line += ["--set", f"{key}={value}"]
    return line


def _added_conf(context: CliContext, batch: PlannedBatch, target: SparkTarget) -> dict[str, str]:
    """Returns the tag by which YARN lists the batch's applications, and the python of a local driver.

    Without the interpreter, the driver would run the one that is unpacked for executors.
    """
    added = {}
    if target.is_yarn:
        tags = batch.conf.get(_TAGS, target.defaults.get(_TAGS))
        own = make_tag(context.metastore, batch.batch_id, batch.planned_at)
        added[_TAGS] = f"{tags},{own}" if tags else own
    if not (
        target.is_local or target.is_cluster or _DRIVERS_PYTHON in batch.conf or _DRIVERS_PYTHON in target.defaults
    ):
        added[_DRIVERS_PYTHON] = os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable
    return added


def find_executor_python(target: SparkTarget, batch: PlannedBatch) -> str | None:
    """Returns the configured interpreter of a cluster's executors; None if there is none."""
    return batch.conf.get(_PYTHON) or target.defaults.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON")


def submit_environment(target: SparkTarget) -> Mapping[str, str]:
    """Returns our environment.

    Executors of a local master run this interpreter, since the first on PATH may lack pyarrow, and import nothing from the
    current directory.
    """
    env = dict(os.environ)
    if target.is_local:
        env.setdefault("PYSPARK_PYTHON", sys.executable)
        env[SAFE_PATH] = "1"
    return env


def config_path(context: CliContext) -> str | None:
    return context.config or os.environ.get("COMPACTOR_CONFIG")


_MASTER, _MODE = "spark.master", "spark.submit.deployMode"
_ENTRY = re.compile(r"\s*(?P<key>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget(SubmitTarget):
    """Master and deploy mode, with the entries of spark-defaults.conf."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  #: of spark-submit, for what the user chose


def find_target(program: str, master: str | None, deploy_mode: str | None, environ: Mapping[str, str]) -> SparkTarget:
    """Returns the cluster to which ``program``, a spark-submit, sends an application with these options."""
    defaults = _read_defaults(program, environ)
    return SparkTarget(
        master=master or environ.get("MASTER") or defaults.get(_MASTER) or LOCAL_MASTER,
        deploy_mode=deploy_mode or environ.get("DEPLOY_MODE") or defaults.get(_MODE) or "client",
        defaults=defaults,
        options=(
            *(("--master", master) if master else ()),
            *(("--deploy-mode", deploy_mode) if deploy_mode else ()),
        ),
    )


def _read_defaults(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Reads spark-defaults.conf, a Java properties file, where spark-submit looks for it."""
    try:
        lines = defaults_file(program, environ).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    entries = (_ENTRY.match(line) for line in lines if not line.lstrip().startswith(("#", "!")))
    return {entry["key"]: entry["value"] for entry in entries if entry is not None}
