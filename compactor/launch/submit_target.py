"""Where spark-submit sends an application: its master and deploy mode, and the file of its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: The file that spark-submit starts; its contract is ``--metastore NAME --batch ID``.
WORKER_JOB = Path(__file__).parent / "job" / "worker_job.py"
#: The master where nothing names another.
LOCAL_MASTER = "local[*]"
_UPLOADS = "spark.kubernetes.file.upload.path"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTarget:
    """The master and the deploy mode of an application.

    Without a deploy mode, spark-submit's default counts.
    """

    master: str
    deploy_mode: str | None

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
        """True if the driver runs in the cluster, and goes on there once spark-submit has ended."""
        return self.deploy_mode == "cluster"

    def find_driver_file(self, path: str, conf: Mapping[str, str]) -> str:
        """Returns the path of the driver's file for spark-submit.

        A pod finds it in its image, at the same path as here, unless the configuration names a place for uploads.
        """
        in_pod = self.is_kubernetes and self.is_cluster and _UPLOADS not in conf
        return f"local://{path}" if in_pod else path
