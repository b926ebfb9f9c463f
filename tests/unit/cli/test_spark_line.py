from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.batches.assembly import PlannedBatch
from compactor.cli import spark_line
from compactor.cli.context import CliContext
from compactor.cli.spark_line import SparkTarget, find_target

BATCH = PlannedBatch(
    batch_id=7,
    pool="nightly",
    queue="etl",
    run_as="hive",
    conf={"spark.executor.memory": "4g", "spark.executor.cores": "2"},
    entries=3,
    bytes=10,
    job="here-compactor-west-7",
    planned_at=1_700_000_000_000,
)


def target(master: str | None = None, deploy_mode: str | None = None) -> SparkTarget:
    return find_target("/nowhere/bin/spark-submit", master, deploy_mode, {})


def line(batch: PlannedBatch = BATCH, **changed: str) -> list[str]:
    context = CliContext(metastore="west", config="/etc/compactor.toml", flags={"compactor.mode": "clean"})
    return list(spark_line.submit_line("spark-submit", context, batch, target(**changed)))


def test_the_application_is_named_queued_and_run_as() -> None:
    found = line(master="yarn", deploy_mode="cluster")
    assert found[: found.index("--conf")] == [
        *("spark-submit", "--name", "here-compactor-west-7", "--master", "yarn", "--deploy-mode", "cluster"),
        *("--queue", "etl", "--proxy-user", "hive"),
    ]
    assert found[found.index("--conf") :][:4] == [
        "--conf",
        "spark.executor.cores=2",
        "--conf",
        "spark.executor.memory=4g",
    ]
    assert "spark.yarn.tags=compactor-west-7-1700000000000" in found


def test_a_driver_in_the_cluster_is_started_once() -> None:
    once = "spark.yarn.maxAppAttempts=1"
    assert once in line(master="yarn", deploy_mode="cluster")
    assert once not in line(master="yarn")
    assert once not in line(master="k8s://https://api", deploy_mode="cluster")


def test_a_tag_of_the_site_stays() -> None:
    found = line(replace(BATCH, conf={"spark.yarn.tags": "data"}), master="yarn")
    assert "spark.yarn.tags=data,compactor-west-7-1700000000000" in found


def test_a_driver_here_runs_this_interpreter_whatever_executors_unpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """YARN, client mode: an archive is unpacked beside executors alone."""
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    packed = replace(BATCH, conf={"spark.pyspark.python": "./environment/bin/python"})
    here = f"spark.pyspark.driver.python={sys.executable}"
    assert here in line(packed, master="yarn")
    assert here not in line(packed, master="yarn", deploy_mode="cluster")
    assert here not in line(packed, master="local[2]")
    own = replace(BATCH, conf={"spark.pyspark.driver.python": "/opt/python"})
    assert here not in line(own, master="yarn")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/opt/python")
    assert "spark.pyspark.driver.python=/opt/python" in line(packed, master="yarn")


def test_a_driver_elsewhere_opens_the_copy_that_travels() -> None:
    shipped = replace(BATCH, conf={"spark.files": "/etc/compactor.toml"})
    assert "/etc/compactor.toml" in line(shipped, master="yarn")
    found = line(shipped, master="yarn", deploy_mode="cluster")
    assert found[found.index("--config") + 1] == "compactor.toml"


def test_the_job_is_a_file_of_its_own_folder_with_the_batch() -> None:
    found = line()
    job = next(i for i, word in enumerate(found) if word.endswith("worker_job.py"))
    assert Path(found[job]).is_file()
    assert Path(found[job]).parent.name == "job"
    assert found[job + 1 :] == [
        *("--metastore", "west", "--batch", "7", "--config", "/etc/compactor.toml", "--set", "compactor.mode=clean")
    ]


def test_no_proxy_and_no_queue_without_one() -> None:
    batch = PlannedBatch(batch_id=1, pool=None, queue=None, run_as=None, conf={}, entries=1, bytes=1)
    found = line(batch)
    assert "--proxy-user" not in found
    assert "--queue" not in found


def test_nothing_of_the_connection_is_on_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "postgresql://u:hunter2@h/m")
    assert "hunter2" not in " ".join(line())
    assert spark_line.submit_environment(target())["COMPACTOR_METASTORE_URL"] == "postgresql://u:hunter2@h/m"


def test_local_executors_run_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert spark_line.submit_environment(target(master="local[2]"))["PYSPARK_PYTHON"] == sys.executable
    assert spark_line.submit_environment(target(master="local[2]"))["PYTHONSAFEPATH"] == "1"
    assert "PYSPARK_PYTHON" not in spark_line.submit_environment(target(master="yarn"))


def test_executors_of_a_cluster_run_what_somebody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they take the first python3 of their PATH, which submit warns of."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert spark_line.find_executor_python(target(master="yarn"), BATCH) is None
    packed = replace(BATCH, conf={"spark.pyspark.python": "./environment/bin/python"})
    assert spark_line.find_executor_python(target(master="yarn"), packed) == "./environment/bin/python"
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert spark_line.find_executor_python(target(master="yarn"), BATCH) == "/opt/python"


def test_a_pod_has_the_driver_s_file_in_its_image() -> None:
    pod = {"master": "k8s://https://api", "deploy_mode": "cluster"}
    assert any(word.startswith("local:///") and word.endswith("launch/job/worker_job.py") for word in line(**pod))
    uploads = replace(BATCH, conf={"spark.kubernetes.file.upload.path": "s3a://b/up"})
    assert not any(word.startswith("local://") for word in line(uploads, **pod))
    assert not any(word.startswith("local://") for word in line(master="k8s://https://api"))


def test_yarn_gets_archives_by_its_own_key() -> None:
    packed = replace(BATCH, conf={"spark.archives": "a.tar.gz#environment"})
    assert "spark.yarn.dist.archives=a.tar.gz#environment" in line(packed, master="yarn")
    assert "spark.archives=a.tar.gz#environment" in line(packed, master="spark://m:7077")


DEFAULTS = """# of the site
spark.master            yarn
spark.submit.deployMode=cluster
spark.executor.memory:  4g   \n
! spark.pyspark.python /no
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    return tmp_path


def test_options_win_over_the_site_s_defaults(home: Path) -> None:
    found = find_target("spark-submit", None, None, {"SPARK_HOME": str(home)})
    assert (found.master, found.deploy_mode, found.options) == ("yarn", "cluster", ())
    assert found.defaults["spark.executor.memory"] == "4g"
    assert "spark.pyspark.python" not in found.defaults
    assert (found.is_yarn, found.is_cluster, found.is_local) == (True, True, False)
    given = find_target("spark-submit", "local[2]", "client", {"SPARK_HOME": str(home)})
    assert (given.is_local, given.is_cluster) == (True, False)
    assert given.options == ("--master", "local[2]", "--deploy-mode", "client")


def test_the_defaults_are_where_spark_submit_finds_them(home: Path, tmp_path: Path) -> None:
    assert find_target(str(home / "bin" / "spark-submit"), None, None, {}).is_yarn
    assert find_target("x", None, None, {"SPARK_CONF_DIR": str(home / "conf"), "SPARK_HOME": "/nowhere"}).is_yarn
    assert find_target("/nowhere/bin/spark-submit", None, None, {}).is_local
