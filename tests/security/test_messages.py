"""No message and no JSON shows a password, whatever URL it was put into, and no form of URL ends with a trace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import insert as sql_insert

from compactor.base.errors import CompactorError
from compactor.cli.program import program
from compactor.database.engine import open_database
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TABLE_PARAMS
from compactor.requests.request import request_compaction
from compactor.site.site import Site

SECRET = "geheim"
JDBC = (
    "jdbc:oracle:thin:hive/geheim@db:1521/x",
    "jdbc:oracle:thin:hive/geheim@//db:1521/x",
    "jdbc:oracle:thin:hive/geheim@(DESCRIPTION=(ADDRESS=(HOST=db)))",
    "jdbc:oracle:oci:hive/geheim@db",
    "jdbc:sqlserver://db;user=hive;password=geheim",
    "jdbc:derby:;user=hive;password=geheim",
    "jdbc:postgresql://hive:geheim@db/metastore",
    "jdbc:postgresql://db[/metastore?password=geheim",
    "jdbc:postgresql://[::1/metastore?password=geheim",
    "jdbc:postgresql://db]/metastore?password=geheim",
    "jdbc:postgresql://db/metastore?password=geheim&sslMagic=geheim",
    "jdbc:mysql://(host=db,user=hive,password=geheim)/metastore",
    "jdbc:mysql://db/metastore?password=geheim&sslMode=geheim",
    "jdbc:mysql://db/metastore?trustCertificateKeyStorePassword=geheim",
    "jdbc:geheim",
    "geheim",
)
URLS = (
    "oracle+oracledb://hive:geheim@db/x",
    "oracle://hive/geheim@db:1521/x",
    "jdbc:oracle:thin:hive/geheim@db:1521/x",
    "postgresql://hive/geheim@db.invalid/metastore",
    "postgresql://db.invalid/metastore;password=geheim",
    "postgresql://hive%3Ageheim@db.invalid/metastore",
    "postgresql://hive:geheim@[::1/metastore",
    "postgresql://hive:ge[heim@db.invalid/geheim@x",
    "mssql://hive:geheim@db/x",
    "hive:geheim@db",
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # no JVM is asked for its version
    monkeypatch.delenv("COMPACTOR_METASTORE_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


@pytest.mark.parametrize("jdbc", JDBC)
@pytest.mark.parametrize("arguments", [("doctor", "--json"), ("doctor",), ("show", "tables")], ids=" ".join)
def test_a_jdbc_url(jdbc: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    escaped = jdbc.replace("&", "&amp;")
    given = f"<property><name>javax.jdo.option.ConnectionURL</name><value>{escaped}</value></property>"
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{given}</configuration>")
    monkeypatch.setenv("COMPACTOR_HIVE_CONF", str(tmp_path))
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, SystemExit)
    assert SECRET not in done.output
    if "--json" in arguments:
        assert "javax.jdo.option.ConnectionURL" in json.loads(done.stdout)["findings"][0]["found"]


@pytest.mark.parametrize("url", URLS)
def test_a_url_of_ours(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", url)
    for arguments in (("doctor", "--json"), ("show", "tables")):
        done = run(*arguments)
        assert isinstance(done.exception, SystemExit)
        assert SECRET not in done.output
    with pytest.raises(CompactorError) as refused, open_database(url).read():
        raise AssertionError("it was reached")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        '[storage.hdfs]\nurl = "ftp://hive:geheim@nn"\n',
        '[storage.hdfs]\nauthorities = ["hive:geheim@nn"]\n',
        '[storage.hdfs]\nauthorities = "hive:geheim@nn"\n',
        '[storage."hdfs://hive:geheim@nn"]\nuser = "x"\n',
        '[storage.s3]\nsecret = "geheim"\nsecret = "geheim"\n',
    ],
)
def test_a_table_of_storage(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compactor.toml").write_text(text)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////nowhere/m.db")
    done = run("doctor", "--json")
    assert json.loads(done.stdout)["findings"][0]["level"] == "fail"
    assert SECRET not in done.output


FORGED = "\n2026-11-24 12:00:00,000 INFO compactor.worker: default.neighbour entry 1: succeeded"
NAME = f"x\x1b]0;title\x07\x1b[2J\x9b1m\u202e\r{FORGED}"


def test_no_name_forges_a_line_or_commands_a_terminal(
    site: Site, hostile: Table, metastore_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of files, properties, users and pools are strangers'."""
    os.symlink("/etc", Path(hostile.location, NAME))
    request_compaction(site, table="default.hostile", type="major")
    site.metastore.transactions.open(NAME[:60], NAME[:60])
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(TABLE_PARAMS).values(TBL_ID=hostile.id, PARAM_KEY="compactor.mode", PARAM_VALUE=NAME))
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    runs = [f"run {role} --once" for role in ("initiator", "cleaner", "housekeeper")]
    for line in (
        *runs,
        "run worker --once --in-process",
        "explain default.hostile",
        "show compactions",
        "show tables",
        "show blockers",
        "show transactions",
        "show settings default.hostile",
        "doctor",
    ):
        for options in (["-v"], ["-v", "--json"]):
            done = run(*options, *line.split())
            said = f"{done.stdout}\n{done.stderr}"
            assert all(one.isprintable() for one in said.split("\n")), line
            assert FORGED not in said, line
