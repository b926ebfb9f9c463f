"""The submit operator: one batch of queue entries as one Spark application."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

import compactor
from compactor.airflow.configuration import text

#: The file that spark-submit starts; its one contract is ``--metastore NAME --batch ID``.
APPLICATION = Path(compactor.__file__).parent / "jobs" / "worker.py"
#: The master where no connection says another.
LOCAL_MASTER = "local[*]"


class CompactionSubmitOperator(SparkSubmitOperator):
    """Submits one planned batch under its queue and its run-as user.

    Only names and numbers stand on the command line: the driver finds the database by its own configuration. A task
    that is tried again submits the same batch, and a batch has one driver only, so no entry is worked on twice.
    """

    #: Nothing is a template: parts of ``conf`` come from table properties, which anybody may write who owns a table.
    template_fields: Sequence[str] = ()

    def __init__(
        self,
        *,
        metastore: str,
        batch_id: int | str,
        queue_name: str | None = None,
        run_as: str | None = None,
        conf: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.metastore = metastore
        self.batch_id = batch_id
        self.queue_name = queue_name
        self.run_as = run_as
        # A client-mode driver cannot be found again, and a detached one is guarded by its batch row.
        kwargs.setdefault("durable", False)
        kwargs.setdefault("conn_id", text("spark_conn_id"))
        super().__init__(
            application=str(APPLICATION),
            name=f"compactor-{metastore}-{batch_id}",
            application_args=["--metastore", metastore, "--batch", str(batch_id)],
            yarn_queue=queue_name,
            proxy_user=run_as,
            conf=dict(conf or {}),
            spark_binary=kwargs.pop("spark_binary", None) or spark_binary(),
            env_vars=kwargs.pop("env_vars", None) or driver_environment(),
            **kwargs,
        )

    def execute(self, context: Any) -> Any:
        """Submit and wait. Where a connection says where the metastore is, the driver inherits that as environment:
        on a command line or in Spark's configuration a password would be there for all to read."""
        from compactor.airflow.hooks import CompactorHook

        os.environ.update(CompactorHook(self.metastore).driver_environment())
        try:
            return super().execute(context)
        finally:
            _close_pipe(self._hook)

    def _get_hook(self) -> SparkSubmitHook:
        """The provider's hook; its fallback for a missing connection is YARN, ours is this machine."""
        hook = super()._get_hook()
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            self.log.info("no Airflow connection %s: Spark runs here, as %s", self._conn_id, LOCAL_MASTER)
            hook._connection.update(master=LOCAL_MASTER, queue=self.queue_name)
            hook._is_yarn = hook._is_yarn_cluster_mode = False
        return hook


def _close_pipe(hook: SparkSubmitHook | None) -> None:
    """The provider leaves the pipe of the command that it started to the garbage collector."""
    started = hook._submit_sp if hook is not None else None
    if started is not None and started.stdout is not None:
        started.stdout.close()


def spark_binary() -> str:
    """``[compactor] spark_binary``: as written if it is a path or on PATH, else the one beside the running python."""
    wanted = text("spark_binary")
    if "/" in wanted or shutil.which(wanted) is not None:
        return wanted
    beside = Path(sys.executable).with_name(wanted)
    return str(beside) if beside.exists() else wanted


def driver_environment() -> dict[str, str]:
    """What the driver needs from here: which python runs executors, and where the configuration lies. No secret."""
    config = text("config")
    return {"PYSPARK_PYTHON": sys.executable} | ({"COMPACTOR_CONFIG": config} if config else {})
