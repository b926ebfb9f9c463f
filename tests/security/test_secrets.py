"""No secret of the site's configuration is in what a run leaves behind, prints, logs, or shows in the list of processes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import insert as sql_insert

from compactor.batches.assembly import plan_batches
from compactor.cli.program import program
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import DATABASE_PARAMS, TABLE_PARAMS
from compactor.requests.request import request_compaction
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from compactor.site.spark_secrets import inherited_path, properties_file
from tests.support.patience import PATIENCE
from tests.support.planted_secrets import (
    DATABASE_PROPERTIES,
    ENVIRONMENT,
    LOCATION_SECRET,
    MARK,
    PLANTED,
    REQUEST_PROPERTIES,
    SPARK,
    TABLE_PROPERTIES,
    files_with_a_mark,
    watching_processes,
    write_site,
)
from tests.support.tables import insert, make_table

Compactor: TypeAlias = Callable[..., Result]
SOURCES = ("compactor.toml", "hive-site.xml", "token")
DATABASE = ("metastore.db", "metastore.db-wal", "metastore.db-shm")
COMMAND = shutil.which("compactor") or "compactor"


@pytest.fixture
def planted(deployment: Site, metastore_url: str, warehouse: Path, tmp_path: Path) -> Path:
    """The folder of a site with a table that is due."""
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    _plant(deployment, table)
    folder = tmp_path / "site"
    folder.mkdir()
    write_site(folder, metastore_url, warehouse)
    return folder


def _plant(site: Site, table: Table) -> None:
    with site.metastore.database.write() as conn:
        for key, value in TABLE_PROPERTIES.items():
            conn.execute(sql_insert(TABLE_PARAMS).values(TBL_ID=table.id, PARAM_KEY=key, PARAM_VALUE=value))
        for key, value in DATABASE_PROPERTIES.items():
            conn.execute(sql_insert(DATABASE_PARAMS).values(DB_ID=1, PARAM_KEY=key, PARAM_VALUE=value))


@pytest.fixture
def compactor(planted: Path, monkeypatch: pytest.MonkeyPatch) -> Compactor:
    """Runs a command of the site in this process."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("COMPACTOR_METASTORE_URL", raising=False)
    monkeypatch.setenv("COMPACTOR_CONFIG", str(planted / "compactor.toml"))
    monkeypatch.setenv("JAVA_HOME", str(planted))  # no JVM is asked for its version
    monkeypatch.chdir(planted)
    return lambda *arguments: CliRunner().invoke(program, arguments)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ENVIRONMENT, "COMPACTOR_CONFIG": str(folder / "compactor.toml")}
    environment.pop("COMPACTOR_METASTORE_URL", None)
    return subprocess.run(
        [COMMAND, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout}\n{done.stderr}"


def test_there_are_thirty_of_them() -> None:
    assert PLANTED >= 30


PLACE = f"s3a://KEY:{LOCATION_SECRET}@bucket/w/t"
PROPERTY = next(f"{key}={value}" for key, value in REQUEST_PROPERTIES.items())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["explain", "default.t"], 0),
        (["show", "settings"], 0),
        (["overview"], 0),
        (["plan", "default.t"], 0),
        (["doctor"], None),
        (["run", "initiator", "--once"], 0),
        (["compact", "default.t", "--property", PROPERTY], 2),
        (["override", "default.t", PROPERTY], 2),
        (["sql", "SHOW CREATE TABLE default.t"], 0),
        (["sql", "DESCRIBE FORMATTED default.t"], 0),
        (["--json", "sql", "DESCRIBE EXTENDED default.t"], 0),
        (["dump", PLACE], None),
        (["--metastore", "away", "doctor"], 1),
        (["--metastore", "away", "show", "compactions"], 1),
        (["--set", f"compactor.spark.authenticate.secret={MARK}flag", "overview"], 2),
        (["--set", f"compactor.memory=s3a://K:{MARK}flag@b", "overview"], 2),
    ],
)
def test_no_command_says_one(planted: Path, compactor: Compactor, line: list[str], code: int | None) -> None:
    if "away" in line:
        write_site(planted, "sqlite:////nowhere/metastore.db", planted, away=True)
    for options in (["-vv"], ["-vv", "--json"]):
        done = compactor(*options, *line)
        assert code in (None, done.exit_code), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        assert MARK not in done.output
        assert "Traceback" not in done.output
    if line[0] == "explain":
        shown = json.loads(done.stdout)["spark_conf"]
        assert shown["spark.authenticate.secret"] == "***"
        assert shown["spark.executor.memory"] == "700m"
    assert files_with_a_mark(planted.parent, (*SOURCES, *DATABASE)) == {}


def test_neither_a_plan_nor_our_state_has_one(deployment: Site, warehouse: Path) -> None:
    settings = Settings.of([Layer(name="flag", values={f"compactor.spark.{key}": v for key, v in SPARK.items()})])
    assert {key.removeprefix("spark.") for key in settings.secret_spark_conf} == {*SPARK, "redaction.regex"}
    assert settings.public_spark_conf == {}
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    insert(deployment, table, [2])
    request_compaction(deployment, table="t", type="major")
    site = replace(deployment, settings=Settings.of([*deployment.settings.layers, *settings.layers]))
    site = replace(site, settings=replace(site.settings, spark_conf=settings.spark_conf))
    (planned,) = plan_batches(site)
    assert MARK not in json.dumps(planned.to_json())
    assert MARK not in repr(planned)
    assert deployment.state is not None
    assert dict(deployment.state.batches.get(planned.batch_id).conf) == {}


def test_submit_hands_them_over_in_a_file(
    compactor: Compactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, from which the one who launches it is the only one to read, and not in the environment either."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/lines\nenv >> {tmp_path}/lines\n'
        'while [ "$1" != --properties-file ]; do shift; done\n'
        f'ls -lL "$2" >> {tmp_path}/mode\ncat "$2" > {tmp_path}/token\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert compactor("compact", "default.t").exit_code == 0
    done = compactor("submit")
    assert "submit: 1 batches, 1 failed" in done.stdout, done.output
    lines = (tmp_path / "lines").read_text()
    assert "--conf spark.executor.memory=700m" in lines
    own = {text for name, text in ENVIRONMENT.items()}
    assert [line for line in lines.splitlines() if MARK in line and line.partition("=")[2] not in own] == []
    assert (tmp_path / "mode").read_text().startswith("-rw------- ")
    handed = (tmp_path / "token").read_text()
    for key, value in SPARK.items():
        assert f"spark.{key}=" in handed
        assert re.search(f"{MARK}[\\w-]*", value)[0] in handed  # type: ignore[index]


@pytest.mark.whole
def test_spark_submit_reads_what_no_command_line_shows(tmp_path: Path) -> None:
    """Its own defaults too, and each text as it was, whatever characters it has."""
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.of.the.site  kept\nspark.app.secret weak\n")
    secrets = {"spark.app.secret": f"{MARK}a=b:c#d!e\\f 'g' \u00fc", "spark.x": "postgresql://u:p@h/x?a=b"}
    script = tmp_path / "app.py"
    script.write_text(
        "import hashlib, json\n"
        "from pyspark import SparkConf, SparkContext\n"
        "SparkContext._ensure_initialized()\n"
        "print('CONF', json.dumps({k: hashlib.sha256(v.encode()).hexdigest() for k, v in SparkConf().getAll()}))\n"
    )
    with properties_file(secrets, defaults) as descriptor, watching_processes() as seen:
        assert descriptor is not None
        program = Path(sys.executable).with_name("spark-submit")
        done = subprocess.run(
            [program, "--master", "local[1]", "--properties-file", inherited_path(descriptor), str(script)],
            pass_fds=(descriptor,),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    conf = json.loads(done.stdout.partition("CONF ")[2].partition("\n")[0])
    wanted = {**secrets, "spark.of.the.site": "kept"}
    assert {key: conf.get(key) for key in wanted} == {
        key: hashlib.sha256(value.encode()).hexdigest() for key, value in wanted.items()
    }
    assert [line for line in seen if MARK in line] == []
    assert any(str(script) in line for line in seen)


@pytest.mark.whole
@pytest.mark.parametrize(
    "line", [["submit", "--master", "local[1]"], ["run", "worker", "--once", "--master", "local[1]"]], ids=" ".join
)
def test_a_run_leaves_none_behind(planted: Path, deployment: Site, line: list[str]) -> None:
    request_compaction(deployment, table="t", type="major")
    with watching_processes() as seen:
        done = run(planted, "-vv", *line)
    assert done.returncode == 0, said(done)
    assert MARK not in said(done)
    assert [entry for entry in deployment.metastore.entries.queue() if entry.state is State.INITIATED] == []
    assert any("SparkSubmit" in process for process in seen)
    assert [process for process in seen if MARK in process] == []
    assert files_with_a_mark(planted.parent, (*SOURCES, *DATABASE)) == {}
    with deployment.metastore.database.read() as conn:
        names = conn.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars().all()
        rows = {name: repr(conn.exec_driver_sql(f'SELECT * FROM "{name}"').fetchall()) for name in names}
    assert [name for name, text in rows.items() if MARK in text] == ["DATABASE_PARAMS", "TABLE_PARAMS"]


def test_an_option_of_java_with_a_secret_is_refused_by_name(planted: Path, compactor: Compactor) -> None:
    config = planted / "compactor.toml"
    option = f'"compactor.spark.driver.extraJavaOptions" = "-Djavax.net.ssl.keyStorePassword={MARK}java"\n'
    config.write_text(config.read_text().replace('"compactor.spark.executor.m', f'{option}"compactor.spark.executor.m'))
    assert compactor("compact", "default.t").exit_code == 0
    done = compactor("submit")
    assert done.exit_code == 2
    assert "compactor.spark.driver.extraJavaOptions holds a secret" in done.stderr
    assert MARK not in done.output
