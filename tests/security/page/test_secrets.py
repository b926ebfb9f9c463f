"""No secret of the site is in an answer of the page, in an XCom, a lineage event, Airflow's audit log or a log."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert as sql_insert

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema.tables import DATABASE_PARAMS, TABLE_PARAMS
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.security.page.conftest import JSON, OURS, PAGE, Server
from tests.security.page.routes import ACTIONS, filled, reading
from tests.support.airflow_home import prepare
from tests.support.patience import until
from tests.support.planted_secrets import (
    CONNECTION_SECRET,
    DATABASE_PROPERTIES,
    ENVIRONMENT,
    LOCATION_SECRET,
    MARK,
    READS_TOKEN,
    REQUEST_PROPERTIES,
    TABLE_PROPERTIES,
    write_site,
)
from tests.support.tables import insert, make_table


@pytest.fixture
def planted(site: Site, place: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site with a table that is due and one at a location with a key."""
    table = make_table(site, place.warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "far",
            f"s3a://KEY:{LOCATION_SECRET}@bucket/w/far",
            [Column(name="a", type="int")],
            parameters={"transactional": "true", "transactional_properties": "default"},
        )
    )
    with site.metastore.database.write() as conn:
        for key, value in TABLE_PROPERTIES.items():
            conn.execute(sql_insert(TABLE_PARAMS).values(TBL_ID=table.id, PARAM_KEY=key, PARAM_VALUE=value))
        for key, value in DATABASE_PROPERTIES.items():
            conn.execute(sql_insert(DATABASE_PARAMS).values(DB_ID=1, PARAM_KEY=key, PARAM_VALUE=value))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert write_site(place.folder, place.url, place.warehouse) == place.config


@pytest.fixture
def away(planted: None, place: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more metastores whose databases do not answer, one of them known by an Airflow connection alone."""
    write_site(place.folder, place.url, place.warehouse, away=True)
    monkeypatch.setenv("AIRFLOW__COMPACTOR__METASTORES", "default,away,connected")
    monkeypatch.setenv("AIRFLOW__COMPACTOR__CONN_ID", "compactor_{metastore}")
    for name, more in {
        "default": {},
        "away": {},
        "connected": {
            "password": f"postgresql+psycopg://hive:{CONNECTION_SECRET}@127.0.0.1:1/hive?connect_timeout=1",
            "extra": json.dumps({"state_url": f"mysql+pymysql://hive:{CONNECTION_SECRET}@127.0.0.1:1/state"}),
        },
    }.items():
        connection = json.dumps({"conn_type": "hive_compactor", **more})
        monkeypatch.setenv(f"AIRFLOW_CONN_COMPACTOR_{name.upper()}", connection)


@pytest.mark.usefixtures("planted")
def test_no_answer_has_one(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for path in reading():
            for query in ("", "?table=default.t", "?table=default.far"):
                for role in (None, "viewer", "user", "op", "admin") if "far" not in query else ("viewer",):
                    answer = server.get(f"{PAGE}/{path}{query}", role)
                    assert answer.status < 500 or answer.status == 503, answer.text
                    assert MARK not in answer.text, path
    shown = server.get(f"{PAGE}/settings?table=default.t").json
    assert shown["spark_conf"]["spark.hadoop.fs.s3a.secret.key"] == "***"
    assert shown["spark_conf"]["spark.authenticate.secret"] == "***"
    assert shown["spark_conf"]["spark.executor.memory"] == "700m"
    assert MARK not in caplog.text


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("metastore", ["default", "away", "connected"])
def test_no_error_of_a_database_has_one(server: Server, metastore: str, caplog: pytest.LogCaptureFixture) -> None:
    page = PAGE.replace("default", metastore)
    path = "explain?table=default.t" if metastore == "default" else "queue"
    assert MARK not in server.get(f"{page}/{path}").text
    assert MARK not in caplog.text


@pytest.mark.usefixtures("planted")
def test_neither_an_action_nor_its_row_has_one(server: Server) -> None:
    bodies: list[dict[str, Any]] = [
        {"table": "default.t", "properties": REQUEST_PROPERTIES},
        {"table": "default.t", "key": "compactor.spark.x.secret", "value": f"{MARK}a"},
        {"table": "default.t", "key": "compactor.memory", "value": f"s3a://K:{MARK}b@bucket"},
        {"table": "default.far", "type": f"password={MARK}c"},
    ]
    for path in ACTIONS:
        for body in bodies:
            answer = server.ask("POST", f"{PAGE}/{filled(path, 10**9)}", "user", json.dumps(body), {**OURS, **JSON})
            assert MARK not in answer.text, (path, body)
    token = {"Authorization": f"Bearer {READS_TOKEN}"}
    assert MARK not in server.ask("POST", f"{PAGE}/reads", None, json.dumps({"token": READS_TOKEN}), token).text
    assert _in_airflows_database() == {}


@pytest.mark.usefixtures("planted")
def test_neither_an_xcom_nor_lineage_has_one(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    from compactor.airflow import tasks
    from compactor.airflow.assets import make_lineage

    request_compaction(site, table="default.t", type="major")
    with caplog.at_level(logging.DEBUG):
        scanned = tasks.scan("default")
        dry = tasks.dry_run("default", ["default.t"], {"partition": None, "type": None})
        (planned,) = tasks.plan("default")
        lineage = make_lineage("default", [1])
    assert planned["conf"] == {"spark.executor.memory": "700m"}
    assert MARK not in json.dumps([scanned, dry, planned, repr(lineage)], default=str)
    assert MARK not in caplog.text


@pytest.mark.usefixtures("planted")
def test_a_task_hands_them_to_spark_submit_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program in place of spark-submit says what it got, in both ways to start it."""
    from compactor.airflow.operators import CompactionSubmitOperator
    from compactor.airflow.spark_launch import ClusterSubmission
    from compactor.launch import driver_processes

    program = tmp_path / "spark-submit"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/line\n'
        f'while [ "$1" != --properties-file ]; do shift; done\ncat "$2" > {tmp_path}/properties\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    operator = CompactionSubmitOperator(
        task_id="compact",
        metastore="default",
        batch_id=1,
        spark_binary=str(program),
        conf={"spark.executor.memory": "700m", "spark.own.password": f"{MARK}own"},
    )
    with operator.without_secrets(operator.prepare_launch()) as launch:
        ClusterSubmission(None, launch)._process.communicate()
        assert "ssl.keyPassword=M4rk-" in (tmp_path / "properties").read_text()
        (tmp_path / "properties").unlink()
        log = tmp_path / "log"
        name = driver_processes.start(launch.command, dict(ENVIRONMENT), log, inherits=launch.inherits)
    until("the process has ended", lambda: driver_processes.is_gone(name))
    assert MARK not in (tmp_path / "line").read_text()
    assert "spark.executor.memory=700m" in (tmp_path / "line").read_text()
    properties = (tmp_path / "properties").read_text()
    assert "spark.hadoop.fs.s3a.secret.key=M4rk-" in properties
    assert f"spark.own.password={MARK}own" in properties


def _in_airflows_database() -> dict[str, str]:
    """Returns the tables of Airflow's database that hold a secret."""
    found = {}
    with closing(sqlite3.connect(prepare() / "airflow.db")) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = repr(database.execute(f'SELECT * FROM "{table}"').fetchall())
            if MARK in rows:
                found[table] = rows[max(0, rows.index(MARK) - 100) : rows.index(MARK) + 30]
    return found
