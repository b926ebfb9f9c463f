"""Requests of spark-submit's own client to Kubernetes on behalf of our launchers; no pod is started."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

import compactor
from compactor.batches.assembly import plan_batches
from compactor.requests.request import request_compaction
from compactor.site.site import Site, own_state
from tests.support.airflow_home import prepare
from tests.support.downloads import ROOT
from tests.support.kubernetes_api import KubernetesApi, kubernetes_api
from tests.support.spark_cluster import SPARK
from tests.support.tables import insert, make_table

prepare()
#: The oldest and the newest Kubernetes whose schemas are at hand.
RELEASES = ("1.31", ".".join(version("kubernetes-validate").split(".")[:2]))
APPLICATION = f"local://{Path(compactor.__file__).parent}/launch/job/worker_job.py"
TEMPLATES = ROOT / "docker" / "kubernetes"


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with kubernetes_api() as serving:
        yield serving


@pytest.fixture
def site(deployment: Site, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site with a request, whose spark-defaults.conf is as docs/spark.md has it."""
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="t", properties={"hive.compactor.job.queue": "etl"})
    defaults = {
        "spark.kubernetes.namespace": "etl",
        "spark.kubernetes.container.image": "registry.example/compactor:1",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.podTemplateFile": TEMPLATES / "driver.yaml",
        "spark.kubernetes.executor.podTemplateFile": TEMPLATES / "executor.yaml",
    }
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in defaults.items()))
    environment = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    for key in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(key, raising=False)
    return deployment


def checked(api: KubernetesApi) -> dict[str, Any]:
    """Returns the driver's pod, after Kubernetes' own schemas have passed it and all that was made with it."""
    for _, made in api.made:
        for release in RELEASES:
            kubernetes_validate.validate(made, release, strict=True)
    assert {made["kind"] for _, made in api.made} >= {"Pod", "Service", "ConfigMap"}
    (pod,) = api.of_kind("Pod")
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["serviceAccountName"] == "compactor-driver"
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["image"] == "registry.example/compactor:1"
    assert {"mountPath": "/etc/compactor", "name": "compactor", "readOnly": True} in container["volumeMounts"]
    [executor] = [
        m["data"]["podspec-configmap-key"] for m in api.of_kind("ConfigMap") if "podspec" in str(m["data"].keys())
    ]
    assert executor == (TEMPLATES / "executor.yaml").read_text()
    return dict(pod)


def test_compactor_submit(site: Site, api: KubernetesApi, metastore_url: str, warehouse: Path) -> None:
    command = ["compactor", "submit", "--json", "--master", f"k8s://{api.url}", "--deploy-mode", "cluster"]
    hive_conf = warehouse.parent / "hive"
    hive_conf.mkdir()
    (hive_conf / "hive-site.xml").write_text(
        "<configuration><property><name>compactor.spark.hadoop.fs.s3a.secret.key</name><value>M4rk-of-the-site</value>"
        "</property></configuration>"
    )
    environment = {
        "COMPACTOR_METASTORE_URL": metastore_url,
        "COMPACTOR_WAREHOUSE": str(warehouse),
        "COMPACTOR_HIVE_CONF": str(hive_conf),
    }
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    pod = checked(api)
    (container,) = pod["spec"]["containers"]
    told = container["args"][container["args"].index(APPLICATION) :]
    assert told == [APPLICATION, "--metastore", "default", "--batch", "1"]
    assert {"name": "COMPACTOR_CONFIG", "value": "/etc/compactor/compactor.toml"} in container["env"]
    assert "PYSPARK_PYTHON" not in {one["name"] for one in container["env"]}  # this machine's is not the pod's
    assert str(warehouse) not in json.dumps(api.made)
    assert "M4rk-of-the-site" not in json.dumps(pod)
    properties = [m["data"]["spark.properties"] for m in api.of_kind("ConfigMap") if "spark.properties" in m["data"]]
    assert "spark.hadoop.fs.s3a.secret.key=M4rk-of-the-site" in "".join(
        properties
    )  # Spark's own way (docs/security.md)
    (batch,) = own_state(site).batches.find(site.name)
    (said,) = json.loads(done.stdout)
    assert said["state"] == "its application goes on"
    assert said["application"] == batch.application_id == f"etl:{pod['metadata']['name']}"


def test_the_operator(site: Site, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    from compactor.airflow.operators import CompactionSubmitOperator

    connection = {
        "conn_type": "spark",
        "host": f"k8s://{api.url}",
        "extra": {"deploy-mode": "cluster", "namespace": "etl"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", "/etc/compactor/compactor.toml")
    (planned,) = plan_batches(site)
    operator = CompactionSubmitOperator(
        task_id="compact", metastore="default", batch_id=planned.batch_id, run_as="hive", job="here-compactor-default.t"
    )
    name = operator._submit({"ti": None}, operator.prepare_launch())
    pod = checked(api)
    (container,) = pod["spec"]["containers"]
    assert name == f"etl:{pod['metadata']['name']}"
    assert container["args"][container["args"].index("--proxy-user") + 1] == "hive"
    assert container["args"][-5:] == [APPLICATION, "--metastore", "default", "--batch", str(planned.batch_id)]
    assert {"name": "COMPACTOR_CONFIG", "value": "/etc/compactor/compactor.toml"} in container["env"]
