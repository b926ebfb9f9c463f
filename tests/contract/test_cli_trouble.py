"""Trouble with a server, as the command line reports it: one sentence, an exit code, no traceback, no password."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy.engine import make_url

from compactor.cli.program import program
from compactor.database.engine import open_database
from compactor.metastore.metastore import open_metastore
from compactor.metastore.transactions.transactions import Transactions
from compactor.state.state_upgrade import upgrade
from tests.support.places import PASSWORD, Place

pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
FAILED, USAGE = 1, 2


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    """Calls the program on a metastore, from a directory without a compactor.toml."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))

    def call(url: str, *arguments: str) -> Result:
        monkeypatch.setenv("COMPACTOR_METASTORE_URL", url)
        return CliRunner().invoke(program, arguments)

    return call


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collects garbage, so that a warning about a socket appears in the test that caused it."""
    yield
    gc.collect()


def said(result: Result, code: int = FAILED, tries: int = 0) -> str:
    """Returns the one sentence on the error stream, after the log lines about each of ``tries``."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (code, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 1 + tries, result.stderr
    assert PASSWORD not in result.stderr
    assert "Traceback" not in result.stderr
    return lines[-1]


def test_a_wrong_password(place: Place, run: Callable[..., Result]) -> None:
    url = make_url(place.user("reader", place.may_read())).set(password="wr%ong").render_as_string(hide_password=False)
    sentence = said(run(url, "show", "transactions"))
    assert "reader:***@" in sentence
    assert "wr%ong" not in sentence
    assert any(words in sentence.lower() for words in ("authentication failed", "access denied"))


def test_a_missing_privilege(
    place: Place, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner = open_metastore("default", place.url)
    [txn] = owner.transactions.open("u", "h")
    url = place.user("reader", place.may_read())
    seen = run(url, "show", "transactions", "--json")
    assert [row["txnid"] for row in json.loads(seen.stdout)] == [txn]
    own = open_database(f"sqlite:///{tmp_path / 'state.db'}")
    upgrade(own)
    own.close()
    monkeypatch.setenv("COMPACTOR_STATE_URL", f"sqlite:///{tmp_path / 'state.db'}")
    sentence = said(run(url, "--set", "compactor.mode=request", "abort", "transaction", str(txn)))
    assert "denied" in sentence
    assert "grant this user what is missing, or use mode observe" in sentence
    assert owner.transactions.state(txn) == "o"
    owner.close()


def test_a_missing_table(place: Place, run: Callable[..., Result]) -> None:
    name = '"HIVE_LOCKS"' if place.server.kind == "postgresql" else "HIVE_LOCKS"
    place.server.sql(f"DROP TABLE {name};", place.name)
    sentence = said(run(place.url, "show", "locks"))
    assert "HIVE_LOCKS" in sentence
    assert "not the one that VERSION names" in sentence


@pytest.mark.parametrize(("version", "instead"), [("2.3.0", "doctor --before-hive-3"), ("5.0.0", "4.0.0")])
def test_a_foreign_schema_version(version: str, instead: str, place: Place, run: Callable[..., Result]) -> None:
    quote = '"' if place.server.kind == "postgresql" else ""
    place.server.sql(f"UPDATE {quote}VERSION{quote} SET {quote}SCHEMA_VERSION{quote} = '{version}';", place.name)
    sentence = said(run(place.url, "show", "compactions"))
    assert version in sentence
    assert instead in sentence
    checked = run(place.url, "doctor", "--json")
    assert checked.exit_code == FAILED
    (finding,) = [f for f in json.loads(checked.stdout)["findings"] if f["subject"] == "deployment"]
    assert (finding["level"], version in finding["found"]) == ("fail", True)


def test_a_database_that_is_no_metastore(place: Place, run: Callable[..., Result]) -> None:
    place.server.drop("empty")
    sentence = said(run(place.server.make("empty"), "show", "tables"))
    assert "holds no metastore" in sentence
    assert "Hive's schematool" in sentence
    place.server.drop("empty")


def test_a_server_that_is_away(place: Place, run: Callable[..., Result]) -> None:
    query = {"host": "/nowhere"} if place.server.kind == "postgresql" else {"unix_socket": "/nowhere/s"}
    url = make_url(place.url).update_query_dict(query).render_as_string(hide_password=False)
    result = run(url, "show", "transactions")
    assert "nowhere" in said(result, tries=result.stderr.count("no connection to the database, connecting again"))


def test_a_connection_that_breaks(place: Place, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two statements of one reading transaction: nothing is retried behind the reader's back."""
    original = Transactions.unfinished
    own = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}[place.server.kind]

    def broken(self: Transactions) -> object:
        with self._database.read() as conn:
            place.kill(int(conn.exec_driver_sql(own).scalar_one()))
            conn.exec_driver_sql("SELECT 1")
        return original(self)

    monkeypatch.setattr(Transactions, "unfinished", broken)
    sentence = said(run(place.url, "show", "transactions"))
    assert "database " in sentence
    assert any(words in sentence.lower() for words in ("terminat", "lost connection", "closed", "gone away"))


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("oracle+oracledb://scott:tiger@host/hive", "oracle"),
        ("mssql+pyodbc://sa:tiger@host/hive", "mssql"),
        ("derby://tiger", "derby"),
    ],
)
def test_databases_that_are_not_supported(url: str, word: str, run: Callable[..., Result]) -> None:
    sentence = said(run(url, "show", "tables"))
    assert word in sentence
    assert "supported is SQLite" in sentence
    assert "tiger" not in sentence.replace("://tiger", "")


def test_a_url_that_is_none(run: Callable[..., Result]) -> None:
    assert "malformed" in said(run("::", "show", "tables"), USAGE)
