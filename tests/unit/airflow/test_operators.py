from __future__ import annotations

import base64
import json
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from compactor.airflow import tasks
from compactor.airflow.operators import (
    CompactionSubmitOperator,
    driver_environment,
    find_spark_binary,
)
from compactor.airflow.spark_launch import SubmissionStopped
from compactor.base.errors import BadSetting
from compactor.launch import driver_processes
from compactor.launch.submit_target import WORKER_JOB
from tests.support.patience import until


def submit(**more: Any) -> CompactionSubmitOperator:
    values = {"metastore": "archive", "batch_id": 41, "queue_name": "etl", "run_as": "hive", "conf": {"spark.x": "1"}}
    return CompactionSubmitOperator(task_id="compact", **values | more)


def command(operator: CompactionSubmitOperator) -> list[str]:
    return operator.prepare_launch().command


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    from airflow.sdk.exceptions import AirflowNotFoundException

    def missing(*_: Any) -> None:
        raise AirflowNotFoundException("The conn_id `spark_default` isn't defined")

    monkeypatch.setattr(BaseHook, "get_connection", missing)


def test_the_command_line_has_names_and_numbers_only(no_connection: None) -> None:
    line = command(submit())
    assert line[-5:] == [str(WORKER_JOB), "--metastore", "archive", "--batch", "41"]
    assert line[line.index("--queue") + 1] == "etl"
    assert line[line.index("--proxy-user") + 1] == "hive"
    assert "spark.x=1" in line


def test_without_a_connection_spark_runs_here(no_connection: None) -> None:
    line = command(submit())
    assert line[line.index("--master") + 1] == "local[*]"


def test_a_connection_says_which_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m", "port": 7077}')
    line = command(submit())
    assert line[line.index("--master") + 1] == "spark://m:7077"
    assert line[line.index("--queue") + 1] == "etl"


def test_no_queue_and_no_user_leave_them_out(no_connection: None) -> None:
    line = command(submit(queue_name=None, run_as=None))
    assert "--queue" not in line
    assert "--proxy-user" not in line


def test_a_table_property_is_never_rendered_as_a_template() -> None:
    """``conf`` holds values of table properties; a template in one would read Airflow's variables and connections."""
    assert tuple(CompactionSubmitOperator.template_fields) == ()
    with DAG("d", schedule=None):
        operator = submit(conf={"spark.executor.memory": "{{ var.value.secret }}"})
    operator.render_template_fields({}, operator.get_template_env())
    assert operator.conf == {"spark.executor.memory": "{{ var.value.secret }}"}


def test_the_application_is_alone_in_its_folder() -> None:
    """spark-submit puts the folder on sys.path: a neighbour named like a module would hide it."""
    assert [p.name for p in WORKER_JOB.parent.glob("*.py") if p.name != "__init__.py"] == ["worker_job.py"]


def test_the_driver_gets_the_path_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver_environment() == {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", "/etc/c.toml")
    assert driver_environment()["COMPACTOR_CONFIG"] == "/etc/c.toml"


def test_spark_submit_is_the_one_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "spark-submit"
    binary.touch(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_spark_binary() == "spark-submit"


def test_spark_submit_is_else_the_one_beside_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_spark_binary() == str(Path(sys.executable).with_name("spark-submit"))


def test_the_program_of_a_connection_counts_unless_the_configuration_names_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    connection = '{"conn_type": "spark", "host": "local", "extra": {"spark-binary": "spark3-submit"}}'
    assert resolved(monkeypatch, connection)[0] == "spark3-submit"
    assert resolved(monkeypatch, connection, spark_binary="/opt/a")[0] == "/opt/a"
    monkeypatch.setenv("AIRFLOW__COMPACTOR__SPARK_BINARY", "/opt/spark/bin/spark-submit")
    assert resolved(monkeypatch, connection)[0] == "/opt/spark/bin/spark-submit"


def test_an_absolute_path_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__SPARK_BINARY", "/opt/spark/bin/spark-submit")
    assert find_spark_binary() == "/opt/spark/bin/spark-submit"


CONFIG = "/etc/c.toml"


def resolved(monkeypatch: pytest.MonkeyPatch, connection: str, **more: Any) -> list[str]:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", CONFIG)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    return command(submit(**more))


YARN = '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "other"}}'
KUBERNETES = (
    '{"conn_type": "spark", "host": "k8s://https://api", "port": 6443, '
    '"extra": {"deploy-mode": "cluster", "namespace": "etl"}}'
)


def test_on_yarn_spark_submit_ends_once_the_application_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    line = resolved(monkeypatch, YARN, job="here-compactor-a.b", planned_at=17)
    assert line[line.index("--master") + 1] == "yarn"
    assert line[line.index("--deploy-mode") + 1] == "cluster"
    assert line[line.index("--queue") + 1] == "etl"
    assert line[line.index("--name") + 1] == "here-compactor-a.b"
    assert "spark.yarn.submit.waitAppCompletion=false" in line
    assert "spark.yarn.tags=compactor-archive-41-17" in line
    assert "spark.yarn.maxAppAttempts=1" in line
    assert not [word for word in line if "driver.python" in word]
    assert not [
        word for word in line if "PYSPARK_PYTHON" in word or "PYTHONSAFEPATH" in word
    ]  # this machine's is not the cluster's
    assert submit().prepare_launch().is_cluster


def test_on_yarn_the_driver_s_configuration_lies_where_the_site_says(monkeypatch: pytest.MonkeyPatch) -> None:
    line = resolved(monkeypatch, YARN)
    assert f"spark.yarn.appMasterEnv.COMPACTOR_CONFIG={CONFIG}" in line
    travels = resolved(monkeypatch, YARN, conf={"spark.files": CONFIG})
    assert "spark.yarn.appMasterEnv.COMPACTOR_CONFIG=c.toml" in travels


def test_on_yarn_a_driver_must_know_of_a_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////srv/metastore.db")
    with pytest.raises(BadSetting, match="driver runs on another machine"):
        command(submit())


def test_on_yarn_a_driver_may_know_the_metastore_by_a_secret_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is no part of the plan, and spark-submit gets it in a file."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    (tmp_path / "compactor.toml").write_text(
        '[metastore.archive]\nurl = "sqlite:////srv/metastore.db"\n[metastore.archive.settings]\n'
        '"compactor.spark.yarn.appMasterEnv.COMPACTOR_METASTORE_URL" = "postgresql://hive:hush@db/m"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert "hush" not in " ".join(command(submit()))


def test_a_driver_here_runs_this_interpreter(monkeypatch: pytest.MonkeyPatch, no_connection: None) -> None:
    """Whatever executors unpack: it would not be there."""
    assert not [word for word in command(submit()) if "driver.python" in word]
    monkeypatch.undo()
    monkeypatch.setenv("AIRFLOW__COMPACTOR__DEPLOY_MODE", "client")
    line = resolved(monkeypatch, YARN, conf={"spark.pyspark.python": "./environment/bin/python"})
    assert f"spark.pyspark.driver.python={sys.executable}" in line
    own = resolved(monkeypatch, YARN, conf={"spark.pyspark.driver.python": "/opt/python"})
    assert "spark.pyspark.driver.python=/opt/python" in own


def test_on_kubernetes_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    line = resolved(monkeypatch, KUBERNETES)
    assert line[line.index("--master") + 1] == "k8s://https://api:6443"
    assert "spark.kubernetes.submission.waitAppCompletion=false" in line
    assert "spark.kubernetes.namespace=etl" in line
    assert submit().prepare_launch().is_cluster


def test_standalone_has_no_cluster_mode_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    standalone = '{"conn_type": "spark", "host": "spark://m", "port": 7077, "extra": {"deploy-mode": "cluster"}}'
    with pytest.raises(BadSetting, match="YARN and Kubernetes only; use client"):
        resolved(monkeypatch, standalone)


def test_a_deploy_mode_that_spark_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "Cluster"}}'
    with pytest.raises(
        BadSetting, match=r"deploy mode 'Cluster' .* connection spark_default; expected: client or cluster"
    ):
        resolved(monkeypatch, connection)


def test_the_configured_deploy_mode_beats_the_connection_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__COMPACTOR__DEPLOY_MODE", "client")
    line = resolved(monkeypatch, YARN)
    assert line[line.index("--deploy-mode") + 1] == "client"
    assert not submit().prepare_launch().is_cluster


def test_a_keytab_that_others_may_read_is_not_handed_to_spark_submit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keytab = tmp_path / "k.keytab"
    keytab.touch(mode=0o600)
    keytab.chmod(0o644)
    monkeypatch.setattr(CompactionSubmitOperator, "_secret_conf", lambda _: {})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", CONFIG)
    for named in ("AIRFLOW__COMPACTOR__KEYTAB", None):
        conf = {} if named else {"spark.kerberos.keytab": f"file:{keytab}"}
        monkeypatch.setenv("AIRFLOW__COMPACTOR__KEYTAB", str(keytab) if named else "")
        operator = submit(run_as=None, conf=conf)
        launch = operator.prepare_launch()
        refusal = pytest.raises(BadSetting, match=r"keytab.* .*/k\.keytab: has mode 0644; expected: 0600")
        with refusal, operator.without_secrets(launch):
            pass
        keytab.chmod(0o600)
        with operator.without_secrets(launch):
            keytab.chmod(0o644)


def test_principal_and_keytab_of_the_connection_are_used_unless_the_configuration_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    extra = {"principal": "c@X", "keytab": base64.b64encode(b"keys").decode(), "queue": "other"}
    connection = json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})
    line = resolved(monkeypatch, connection, run_as=None, queue_name=None)
    assert line[line.index("--principal") + 1] == "c@X"
    assert Path(line[line.index("--keytab") + 1]).read_bytes() == b"keys"
    assert line[line.index("--queue") + 1] == "other"
    monkeypatch.setenv("AIRFLOW__COMPACTOR__PRINCIPAL", "compactor@EXAMPLE.COM")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__KEYTAB", "/etc/c.keytab")
    line = resolved(monkeypatch, connection, run_as=None)
    assert line[line.index("--principal") + 1] == "compactor@EXAMPLE.COM"
    assert line[line.index("--keytab") + 1] == "/etc/c.keytab"


def test_principal_and_keytab_are_dropped_when_impersonating(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit refuses --proxy-user with --principal."""
    monkeypatch.setenv("AIRFLOW__COMPACTOR__PRINCIPAL", "compactor@EXAMPLE.COM")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__KEYTAB", "/etc/c.keytab")
    himself = resolved(monkeypatch, YARN, run_as=None)
    assert himself[himself.index("--principal") + 1] == "compactor@EXAMPLE.COM"
    assert himself[himself.index("--keytab") + 1] == "/etc/c.keytab"
    another = resolved(monkeypatch, YARN, run_as="hive")
    assert "--principal" not in another
    assert "--keytab" not in another
    assert another[another.index("--proxy-user") + 1] == "hive"


def test_what_a_cluster_refuses_is_told_in_its_words_and_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from compactor.base.errors import LaunchFailed

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", CONFIG)
    program = tmp_path / "spark-submit"
    sentence = "Application application_1_0002 submitted by user x to unknown queue: nope"
    program.write_text(f"#!/bin/sh\necho 'YarnException: {sentence}'\nexit 1\n", "utf-8")
    program.chmod(0o755)
    released: list[str] = []

    def give_back(metastore: str, batch_id: int, because: str) -> LaunchFailed:
        released.append(because)
        return LaunchFailed(f"batch {batch_id}: {because}; the batch is given back")

    monkeypatch.setattr(tasks, "give_back", give_back)
    operator = submit(spark_binary=str(program))
    with pytest.raises(
        AirflowException, match=f"^batch 41: its application could not do it: {sentence}; the batch is "
    ):
        operator._submit({"ti": None}, operator.prepare_launch())
    assert released == [f"its application could not do it: {sentence}"]


@pytest.mark.parametrize("launcher", ["process", "spark-submit"])
@pytest.mark.parametrize("text", [None, "#!/no/such/python\n"])
def test_a_spark_submit_that_does_not_start_gives_its_batch_back_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_connection: None, launcher: str, text: str | None
) -> None:
    from compactor.base.errors import LaunchFailed

    monkeypatch.setenv("AIRFLOW__COMPACTOR__LAUNCHER", launcher)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__DRIVER_LOGS", str(tmp_path / "logs"))
    monkeypatch.setattr(CompactionSubmitOperator, "_connection", lambda self: {})
    monkeypatch.setattr(CompactionSubmitOperator, "_secret_conf", lambda self: {})
    program = tmp_path / "spark-submit"
    if text is not None:
        program.write_text(text, "utf-8")
        program.chmod(0o755)
    released: list[str] = []

    def give_back(metastore: str, batch_id: int, because: str) -> LaunchFailed:
        released.append(because)
        return LaunchFailed(f"batch {batch_id}: {because}; the batch is given back")

    monkeypatch.setattr(tasks, "give_back", give_back)
    with pytest.raises(
        AirflowFailException, match=rf"^batch 41: {program} cannot be started: .*hive-compactor\[spark\]"
    ):
        submit(spark_binary=str(program))._launch({"ti": None})
    assert len(released) == 1


def test_a_launch_that_is_refused_gives_its_batch_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from compactor.base.errors import LaunchFailed

    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://m", "extra": "{}"}')
    released: list[str] = []
    monkeypatch.setattr(tasks, "give_back", lambda *words: released.append(words[2]) or LaunchFailed(words[2]))
    with pytest.raises(BadSetting, match="deploy mode cluster"):
        submit(deploy_mode="cluster")._launch({"ti": None})
    assert "deploy mode cluster on spark://m" in released[0]


def test_a_pod_has_the_driver_s_file_in_its_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", KUBERNETES)
    assert f"local://{WORKER_JOB}" in command(submit())
    uploads = submit(conf={"spark.kubernetes.file.upload.path": "s3a://b/up"})
    assert str(WORKER_JOB) in command(uploads)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", CONFIG)
    assert str(WORKER_JOB) in command(submit())


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_connection: None) -> Iterator[Path]:
    """A program in place of spark-submit: it says its session, and runs until the file that it is given exists."""
    program = tmp_path / "spark-submit"
    program.write_text(
        f"#!/bin/sh\necho session $(ps -o sid= -p $$)\nwhile [ ! -e {tmp_path}/end ]; do sleep 0.05; done\n"
        f"echo 'ValueError: no such thing'\nexit $(cat {tmp_path}/end)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__DRIVER_LOGS", str(tmp_path / "logs"))
    monkeypatch.setattr(CompactionSubmitOperator, "_secret_conf", lambda self: {})
    monkeypatch.setattr(CompactionSubmitOperator, "_connection", lambda self: {})
    yield program
    (tmp_path / "end").write_text("0")


def start(
    monkeypatch: pytest.MonkeyPatch, program: Path, state: Any
) -> tuple[CompactionSubmitOperator, list[str], list[tuple[str, ...]]]:
    """Returns an operator, the drivers that it has recorded, and its calls; the task's state is ``state``."""
    from compactor.airflow import task_ends, tasks

    drivers: list[str] = []
    calls: list[tuple[str, ...]] = []

    def read_task_state(ti: Any) -> str | None:
        if isinstance(state, Exception):
            raise state
        return state  # type: ignore[no-any-return]

    monkeypatch.setattr(task_ends, "read_task_state", read_task_state)
    monkeypatch.setattr(tasks, "record_launch", lambda metastore, batch, name: drivers.append(name))
    for name in ("abort", "release"):
        monkeypatch.setattr(tasks, name, lambda metastore, batch, *why, name=name: calls.append((name, *why)))
    return submit(spark_binary=str(program)), drivers, calls


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ConnectionError("the API server is away"), []),
        ("running", []),  # a worker that shuts down
        ("up_for_retry", []),  # the scheduler has missed its heartbeats
        ("deferred", []),  # another try waits for this driver already
        ("failed", [("abort",)]),
        ("success", [("abort",)]),
        ("restarting", [("release", "its task was stopped")]),
        (None, [("release", "its task was stopped")]),
    ],
)
def test_only_a_person_ends_the_driver_of_a_task_that_holds_its_slot(
    monkeypatch: pytest.MonkeyPatch, driver: Path, state: Any, expected: list[tuple[str, ...]]
) -> None:
    operator, drivers, calls = start(monkeypatch, driver, state)
    ended = threading.Thread(target=lambda: (until("it runs", lambda: drivers), operator.on_kill()))
    ended.start()
    with pytest.raises(AirflowException, match=r"this try ends; process:.* goes on"):
        operator._launch({"ti": None})
    ended.join()
    assert calls == expected
    if expected:
        until("the driver has ended", lambda: driver_processes.is_gone(drivers[0]))
    else:
        assert not driver_processes.is_gone(drivers[0])


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("running", []),
        (ConnectionError("the API server is away"), []),
        ("failed", [("record_launch", "application_1_0007"), ("abort",)]),
        ("restarting", [("record_launch", "application_1_0007"), ("release", "its task was stopped")]),
    ],
)
def test_a_task_that_is_ended_ends_its_spark_submit_and_for_a_person_the_application(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: Any, expected: list[tuple[str, ...]]
) -> None:
    """Whatever the cluster has accepted is found by the next try, or ended with the batch."""
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\necho application_1_0007\ntouch {tmp_path}/said\nexec sleep 600\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONFIG", CONFIG)
    monkeypatch.setattr(CompactionSubmitOperator, "_secret_conf", lambda self: {})
    operator, launched, calls = start(monkeypatch, program, state)
    monkeypatch.setattr(
        tasks, "record_launch", lambda metastore, batch, application: calls.append(("record_launch", application))
    )
    monkeypatch.setattr(tasks, "give_back", lambda *_: pytest.fail("it gives the batch back"))

    def end() -> None:
        until("the application is reported", lambda: operator._submission and operator._submission.application)
        operator.on_kill()

    ending = threading.Thread(target=end)
    ending.start()
    with pytest.raises(SubmissionStopped, match="this try ends"):
        operator._launch({"ti": None})
    ending.join()
    assert calls == expected
    assert launched == []


def test_a_time_out_ends_the_driver(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    operator, _, calls = start(monkeypatch, driver, "running")

    def time_out(name: str) -> bool:
        raise AirflowTaskTimeout("too long")

    monkeypatch.setattr(driver_processes, "is_gone", time_out)
    try:
        operator._launch({"ti": None})
    except AirflowTaskTimeout:
        operator.on_kill()
    assert calls == [("release", "its task was stopped")]


def test_a_driver_has_a_session_of_its_own_and_its_output_is_in_the_task_s_log(
    monkeypatch: pytest.MonkeyPatch, driver: Path, caplog: pytest.LogCaptureFixture
) -> None:
    operator, drivers, _ = start(monkeypatch, driver, "running")
    (driver.parent / "end").write_text("0")
    operator._launch({"ti": None})
    pid = drivers[0].split(":")[2]
    lines: list[str] = []
    monkeypatch.setattr(operator.log, "info", lambda form, *values: lines.append(form % values))
    (driver.parent / "end").write_text("0")
    operator._launch({"ti": None})
    assert f"session {drivers[1].split(':')[2]}" in lines
    assert pid != drivers[1].split(":")[2]
    assert list((driver.parent / "logs").iterdir()) == []


def test_a_driver_that_fails_gives_the_batch_back_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    from compactor.base.errors import LaunchFailed
    from compactor.batches.control import BatchStatus
    from compactor.launch.batch_watch import BatchProgress

    operator, _, _ = start(monkeypatch, driver, "running")
    (driver.parent / "end").write_text("3")
    progress = BatchProgress(batch_id=41, status=BatchStatus.LOST)
    monkeypatch.setattr(tasks, "read_progress", lambda metastore, batch: progress)
    monkeypatch.setattr(tasks, "give_back", lambda metastore, batch, because: LaunchFailed(because))
    with pytest.raises(AirflowException, match=r"(?s)its application could not do it: ValueError.*ended with 3"):
        operator._launch({"ti": None})


def test_a_late_task_launches_nothing_and_frees_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without a batch has compacted its entry meanwhile."""
    from compactor.batches.control import BatchStatus
    from compactor.launch.batch_watch import BatchProgress

    released: list[int] = []
    progress = BatchProgress(batch_id=41, status=BatchStatus.WAITS, entries={7: "a.t: succeeded"})
    monkeypatch.setattr(tasks, "read_progress", lambda metastore, batch: progress)
    monkeypatch.setattr(tasks, "release", lambda metastore, batch, because: released.append(batch))
    monkeypatch.setattr(CompactionSubmitOperator, "_launch", lambda *_: pytest.fail("it launches"))
    assert submit().execute({}) == {"7": "a.t: succeeded"}
    assert released == [41]
