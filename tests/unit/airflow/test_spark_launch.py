from __future__ import annotations

import base64
import json
import logging
import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from compactor.airflow.spark_launch import (
    ClusterSubmission,
    SparkConnection,
    SparkLaunch,
    read_spark_connection,
    store_keytab,
)
from compactor.base.errors import BadSetting

KEYTAB = base64.b64encode(b"keys").decode()


def read(monkeypatch: pytest.MonkeyPatch, connection: str | dict[str, Any]) -> SparkConnection:
    text = connection if isinstance(connection, str) else json.dumps(connection)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", text)
    result = read_spark_connection("spark_default")
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ({"conn_type": "spark", "host": "yarn"}, "yarn"),
        ({"conn_type": "spark", "host": "local[2]"}, "local[2]"),
        ({"conn_type": "spark", "host": "m", "port": 7077}, "spark://m:7077"),
        ({"conn_type": "spark", "host": "spark://m", "port": 7077}, "spark://m:7077"),
        ({"conn_type": "spark", "host": "spark://m1:7077,m2:7077"}, "spark://m1:7077,m2:7077"),
        ({"conn_type": "spark", "host": "k8s://https://api", "port": 6443}, "k8s://https://api:6443"),
        ("spark://m:7077?deploy-mode=client", "spark://m:7077"),
        ("k8s://https%3A%2F%2Fapi:6443", "k8s://https://api:6443"),
        ("yarn://", "yarn"),
        ("spark://yarn?queue=etl", "yarn"),
    ],
)
def test_the_master(monkeypatch: pytest.MonkeyPatch, connection: str | dict[str, Any], master: str) -> None:
    assert read(monkeypatch, connection).master == master


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ({"conn_type": "spark"}, "spark://"),
        ({"conn_type": "spark", "host": "m"}, "m"),
        ({"conn_type": "http", "host": "m", "port": 80}, "http://m:80"),
        ({"conn_type": "spark", "host": "yarn-cluster"}, "yarn-cluster"),
    ],
)
def test_a_master_that_spark_submit_does_not_know_is_refused(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], master: str
) -> None:
    with pytest.raises(BadSetting, match=rf"connection spark_default: .* the master '{master}'; expected: yarn, "):
        read(monkeypatch, connection)


def test_the_fields_of_the_form(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    extra = {
        "queue": "etl",
        "deploy-mode": "cluster",
        "spark-binary": "spark3-submit",
        "namespace": "jobs",
        "principal": "c@X",
        "keytab": KEYTAB,
        "rest-port": "6066",  # of the provider's own operators
    }
    connection = read(monkeypatch, {"conn_type": "spark", "host": "yarn", "extra": extra})
    assert connection == SparkConnection(
        master="yarn",
        deploy_mode="cluster",
        queue="etl",
        namespace="jobs",
        principal="c@X",
        keytab=KEYTAB,
        program="spark3-submit",
    )
    assert KEYTAB not in repr(connection)
    assert caplog.messages == []


def test_a_field_that_the_form_left_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue": "", "deploy-mode": "", "spark-binary": None, "keytab": "", "spark-home": ""}
    connection = read(monkeypatch, {"conn_type": "spark", "host": "yarn", "extra": extra})
    assert connection == SparkConnection(master="yarn")


def test_a_field_that_nothing_reads_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read(monkeypatch, "spark://m:7077?deploy_mode=cluster&spark_binary=x")
    (message,) = caplog.messages
    assert "the extra deploy_mode, spark_binary is not used; known: deploy-mode, " in message


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"spark-binary": "/tmp/evil"}, r"spark-binary is '/tmp/evil'; expected: one of spark-submit, .*\[compactor\]"),
        ({"spark-home": "/opt/spark"}, r"has the extra spark-home; .*\[compactor\] spark_binary"),
    ],
)
def test_a_connection_may_not_name_any_program(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, str], message: str
) -> None:
    with pytest.raises(BadSetting, match=message):
        read(monkeypatch, {"conn_type": "spark", "host": "yarn", "extra": extra})


def test_a_keytab_is_stored_for_this_user_alone_and_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0o022)
    try:
        first = Path(store_keytab("c", KEYTAB))
    finally:
        os.umask(before)
    assert (first.read_bytes(), first.stat().st_mode & 0o777) == (b"keys", 0o600)
    written = first.stat().st_ino
    assert store_keytab("c", f"{KEYTAB[:4]}\n{KEYTAB[4:]}\n") == str(first)  # as base64(1) breaks its lines
    assert first.stat().st_ino == written
    assert store_keytab("c", base64.b64encode(b"others").decode()) != str(first)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_keytab_that_cannot_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(
        BadSetting, match=r"^keytab of Airflow connection c: is not in Base64 .*output of base64 KEYTAB"
    ):
        store_keytab("c", "/etc/c.keytab")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(BadSetting, match=r"^keytab of Airflow connection c: cannot be stored in .*missing.*: No such"):
        store_keytab("c", KEYTAB)


def launch(folder: Path, script: str) -> SparkLaunch:
    program = folder / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)
    return SparkLaunch(
        program=str(program),
        master="yarn",
        deploy_mode="cluster",
        name="n",
        application="/opt/worker.py",
        arguments=("--batch", "1"),
        conf={"spark.b": "2", "spark.a": "x=y z"},
        environment={"HADOOP_CONF_DIR": "/etc/hadoop"},
    )


def test_the_command_line(tmp_path: Path) -> None:
    plain = launch(tmp_path, "")
    assert plain.command[1:] == shlex.split(
        "--master yarn --deploy-mode cluster --name n --conf 'spark.a=x=y z' --conf spark.b=2 /opt/worker.py --batch 1"
    )
    named = replace(
        plain, queue="q", proxy_user="hive", principal="c@X", keytab="/k", properties_file="/proc/self/fd/3"
    )
    assert named.command[7:17] == shlex.split(
        "--queue q --proxy-user hive --principal c@X --keytab /k --properties-file /proc/self/fd/3"
    )


@pytest.mark.parametrize(
    ("line", "application"),
    [
        ("INFO Client: Submitted application application_1700000000000_0007", "application_1700000000000_0007"),
        ("INFO x: submission ID etl:compactor-8f-driver into Kubernetes", "etl:compactor-8f-driver"),
    ],
)
def test_a_submission_returns_the_name_that_spark_submit_reports(tmp_path: Path, line: str, application: str) -> None:
    submission = ClusterSubmission(None, launch(tmp_path, f"echo $HADOOP_CONF_DIR; echo '{line}' >&2; echo done"))
    assert submission.wait(logging.getLogger("t")) == application
    assert list(submission.output) == ["/etc/hadoop", line, "done"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo fine", "succeeded but did not report an application"),
        ("echo application_1_0001; echo 'no such queue'; exit 3", r"(?s)ended with 3\n.*no such queue"),
    ],
)
def test_a_submission_that_failed(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(AirflowException, match=message):
        ClusterSubmission(None, launch(tmp_path, script)).wait(logging.getLogger("t"))
