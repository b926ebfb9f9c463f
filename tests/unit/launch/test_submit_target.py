from __future__ import annotations

import pytest

from compactor.launch.submit_target import WORKER_JOB, SubmitTarget

UPLOADS = {"spark.kubernetes.file.upload.path": "s3a://b/up"}


@pytest.mark.parametrize(
    ("master", "deploy_mode", "conf", "expected"),
    [
        ("k8s://https://api", "cluster", {}, "local:///opt/job.py"),
        ("k8s://https://api", "cluster", UPLOADS, "/opt/job.py"),
        ("k8s://https://api", "client", {}, "/opt/job.py"),
        ("k8s://https://api", None, {}, "/opt/job.py"),
        ("yarn", "cluster", {}, "/opt/job.py"),
    ],
)
def test_a_pod_finds_the_driver_in_its_image(
    master: str, deploy_mode: str | None, conf: dict[str, str], expected: str
) -> None:
    target = SubmitTarget(master=master, deploy_mode=deploy_mode)
    assert target.find_driver_file("/opt/job.py", conf) == expected


def test_the_job_is_a_file_of_ours() -> None:
    assert WORKER_JOB.is_file()
