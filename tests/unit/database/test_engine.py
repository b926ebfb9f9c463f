from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from compactor.base.errors import BadSetting, CommitUnknown, DatabaseUnavailable, NotSupported, TryAgain
from compactor.database.engine import BODY_ATTEMPTS, BODY_PAUSE_SECONDS, Database, open_database, retried
from tests.support.patience import PATIENCE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    with opened.write() as conn:
        conn.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        conn.exec_driver_sql("CREATE TABLE child (id INTEGER REFERENCES parent (id))")
    yield opened
    opened.close()


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.exec_driver_sql("SELECT COUNT(*) FROM parent").scalar_one())


def test_settings_of_every_connection(database: Database) -> None:
    """PROTOCOL 9: WAL, foreign_keys=ON, synchronous=FULL."""
    for open_transaction in (database.read, database.write):
        with open_transaction() as conn:
            pragmas = [
                conn.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
            ]
        assert pragmas == ["wal", 1, 2, 60_000]


def test_a_body_that_raises_leaves_nothing(database: Database) -> None:
    def body() -> None:
        with database.write() as conn:
            conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        body()
    assert count(database) == 0


def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as conn:
        conn.exec_driver_sql("INSERT INTO child VALUES (7)")


def test_a_writing_transaction_excludes_others_from_its_first_statement(database: Database) -> None:
    """PROTOCOL 9: BEGIN IMMEDIATE; two readers of a counter that then write it would draw one number twice."""
    inside, order = threading.Event(), []

    def second() -> None:
        inside.wait(PATIENCE)
        with database.write() as conn:
            order.append(conn.exec_driver_sql("SELECT COUNT(*) FROM parent").scalar_one())

    thread = threading.Thread(target=second)
    thread.start()
    with database.write() as conn:
        inside.set()
        thread.join(0.2)
        assert order == []
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    thread.join(PATIENCE)
    assert order == [1]


def test_other_processes_are_kept_away_from_the_first_statement_on(database: Database) -> None:
    """PROTOCOL 9: BEGIN IMMEDIATE; no lock of this process keeps them from reading the same counter to write it."""
    with (
        database.write(),
        closing(sqlite3.connect(database.path or "", timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="database is locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


def test_a_waiting_writer_does_not_ask_before_its_turn(database: Database) -> None:
    """SQLite would sleep while another thread of this process writes, and for a time after that."""
    second = open_database(f"sqlite:///{database.path}")  # as our own state in a metastore's file
    begun_in: list[str] = []
    for each in (database, second):
        event.listen(each.engine, "begin", lambda conn: begun_in.append(threading.current_thread().name))

    def write(to: Database) -> None:
        with to.write() as conn:
            conn.exec_driver_sql("INSERT INTO parent DEFAULT VALUES")

    others = [
        threading.Thread(target=write, args=[to], name=f"other-{n}") for n, to in enumerate((database, second, second))
    ]
    with database.write():
        for other in others:
            other.start()
        others[0].join(0.2)
        assert begun_in == [threading.current_thread().name]
    for other in others:
        other.join(PATIENCE)
    assert sorted(begun_in[1:]) == [other.name for other in others]
    second.close()
    assert count(database) == 3


def test_a_writer_that_waited_too_long_asks_all_the_same(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compactor.database.sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
    impatient = Database(make_url(f"sqlite:///{database.path}"), sleep=lambda seconds: None)
    with (
        impatient.write(),
        pytest.raises(DatabaseUnavailable, match="database is locked"),
        impatient.write(),
    ):
        pytest.fail("the body must not run")
    with impatient.write() as conn:
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    assert count(database) == 1
    impatient.close()


def test_a_reader_sees_one_instant_and_does_not_wait(database: Database) -> None:
    with database.read() as reader:
        assert reader.exec_driver_sql("SELECT COUNT(*) FROM parent").scalar_one() == 0
        with database.write() as writer:
            writer.exec_driver_sql("INSERT INTO parent VALUES (1)")
        assert reader.exec_driver_sql("SELECT COUNT(*) FROM parent").scalar_one() == 0
    assert count(database) == 1


def test_busy_is_tried_again_and_then_said(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("compactor.database.sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
    slept: list[float] = []
    impatient = Database(make_url(f"sqlite:///{database.path}"), sleep=slept.append, attempts=3)
    with (
        database.write(),
        caplog.at_level(logging.WARNING),
        pytest.raises(DatabaseUnavailable, match="database is locked"),
        impatient.write(),
    ):
        pytest.fail("the body must not run")
    assert len(slept) == 2
    assert "beginning again" in caplog.text
    with impatient.write() as conn:
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")


def test_read_only_refuses_to_write(database: Database) -> None:
    observer = open_database(f"sqlite:///{database.path}", read_only=True)
    with pytest.raises(DatabaseUnavailable, match="read-only"), observer.write():
        pytest.fail("the body must not run")
    with pytest.raises(DatabaseUnavailable, match="readonly"), observer.read() as conn:
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    assert count(observer) == 0


@pytest.fixture
def foreign(database: Database) -> Iterator[Path]:
    """A database that another user may read and neither write nor make files beside."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    path = folder / "theirs.db"
    with sqlite3.connect(database.path) as source, sqlite3.connect(path) as target:
        source.backup(target)
    source.close()
    target.close()
    with open_database(f"sqlite:///{path}").write() as conn:  # WAL, as any metastore of ours
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    folder.chmod(0o555)
    yield path
    folder.chmod(0o755)
    path.unlink()
    folder.rmdir()


def as_somebody_else(path: Path, warm: Path) -> subprocess.CompletedProcess[str]:
    """Counts in a process that may write nothing there; root gives up its rights once everything is imported."""
    script = (
        "import os, sys\n"
        "from compactor.database.engine import open_database\n"
        "def count(path):\n"
        "    with open_database('sqlite:///' + path, read_only=True).read() as conn:\n"
        "        return conn.exec_driver_sql('SELECT COUNT(*) FROM parent').scalar_one()\n"
        "count(sys.argv[2])\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "print(count(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", script, str(path), str(warm)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})


def test_read_only_works_where_the_user_may_write_nothing(foreign: Path, database: Database) -> None:
    done = as_somebody_else(foreign, database.path)
    assert done.stdout == "1\n", done.stderr
    assert [path.name for path in foreign.parent.iterdir()] == ["theirs.db"]


def test_a_missing_file_is_not_made_by_reading(tmp_path: Path) -> None:
    missing = open_database(f"sqlite:///{tmp_path / 'no.db'}")
    with pytest.raises(DatabaseUnavailable, match=r"no\.db.*compactor metastore init"), missing.read():
        pytest.fail("the body must not run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(DatabaseUnavailable, match=r"none/x\.db"),
        open_database(f"sqlite:///{tmp_path}/none/x.db").write(),
    ):
        pytest.fail("the body must not run")


def test_another_kind_of_file_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(DatabaseUnavailable, match="not a database"), open_database(f"sqlite:///{path}").read():
        pytest.fail("the body must not run")


@pytest.mark.parametrize(
    "url",
    [
        "mssql+pyodbc://me:geheim@host/metastore?ssl_password=geheim",
        "postgresql+asyncpg://me:geheim@host/metastore",
        "oracle://me:geheim@host/x",
    ],
)
def test_other_databases_are_refused_by_name_without_their_password(url: str) -> None:
    with pytest.raises(NotSupported, match="supported is SQLite") as refused:
        open_database(url)
    assert "geheim" not in str(refused.value)
    assert "me:***@host" in str(refused.value)


def test_oracle_and_sql_server_have_their_names_in_the_refusal() -> None:
    for url, name in (("oracle+oracledb://h/x", "oracle"), ("mssql+pyodbc://h/x", "mssql")):
        with pytest.raises(NotSupported, match=name):
            open_database(url)


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for url, module, extra in (
        ("postgresql://h/metastore", "psycopg", "postgres"),
        ("mysql://h/metastore", "pymysql", "mysql"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(NotSupported, match=rf"hive-compactor\[{extra}\]"):
            open_database(url)


def test_connections_are_kept_between_transactions(database: Database) -> None:
    with database.write() as conn:
        first = conn.connection.dbapi_connection
    with database.read() as conn:
        assert conn.connection.dbapi_connection is first


def test_a_file_that_was_replaced_is_opened_again(database: Database, tmp_path: Path) -> None:
    """Rows written through a kept connection into a file that has no name any more would be lost."""
    with database.write() as conn:
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    other = open_database(f"sqlite:///{tmp_path / 'other.db'}")
    with other.write() as conn:
        conn.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    other.close()
    for name in ("x.db", "x.db-wal", "x.db-shm"):
        (tmp_path / name).unlink()
    (tmp_path / "other.db").rename(database.path)
    assert count(database) == 0


def test_a_forked_process_makes_connections_of_its_own(database: Database) -> None:
    engine = database.engine
    with database.write() as conn:
        conn.exec_driver_sql("INSERT INTO parent VALUES (1)")
    pid = os.fork()
    if pid == 0:
        good = database.engine is not engine and count(database) == 1
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert database.engine is engine
    assert count(database) == 1


def test_a_database_nobody_uses_any_more_lets_go_of_its_file(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path / 'x.db'}").write() as conn:
        conn.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]


@pytest.mark.parametrize("option", ["many", "-1", "1.5"])
def test_a_threshold_of_prepared_statements_that_is_no_number(option: str) -> None:
    with pytest.raises(BadSetting, match=r"prepare_threshold is .*expected a number of executions.*or None"):
        open_database(f"postgresql://me:geheim@127.0.0.1/x?prepare_threshold={option}")


@pytest.mark.parametrize("option", ["None", "none", "0", "5", ""])
def test_a_threshold_of_prepared_statements(option: str) -> None:
    open_database(f"postgresql://127.0.0.1/x?prepare_threshold={option}").close()


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("mysql://me:geheim@127.0.0.1:1/x?nonsense=1", "'nonsense'"),
        ("mysql://me:geheim@127.0.0.1:1/x?connect_timeout=soon", "'soon'"),
        ("mysql://me:geheim@127.0.0.1:1/x?local_infile=perhaps", "'perhaps'"),
        ("mysql://me:geheim@127.0.0.1:1/x?compress=1", "compress"),
        ("mysql://me:geheim@127.0.0.1:1/x?ssl=true", "'str' object"),
        ("mysql://me:geheim@127.0.0.1:1/x?ssl_ca=/nowhere.pem", "No such file"),
        ("postgresql://me:geheim@/x?host=a&host=b&port=1&port=2", "multihost"),
    ],
)
def test_an_option_that_the_driver_does_not_accept(url: str, because: str) -> None:
    with (
        pytest.raises(
            BadSetting, match=f"database .*: the driver does not accept an option of the URL: .*{because}"
        ) as refused,
        open_database(url).read(),
    ):
        pytest.fail("the body must not run")
    assert "geheim" not in str(refused.value)


def test_a_log_in_that_needs_rsa_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(
            "'cryptography' package is required for sha256_password or caching_sha2_password auth methods"
        )

    monkeypatch.setattr("pymysql.connect", refuse)
    with (
        pytest.raises(
            NotSupported, match=r"'cryptography' package is required.*hive-compactor\[mysql\].*or connect with TLS"
        ),
        open_database("mysql://me@127.0.0.1:1/x").read(),
    ):
        pytest.fail("the body must not run")


@pytest.mark.parametrize("url", ["jdbc:postgresql://h/x?user=me&password=geheim", " JDBC:mysql://h/x"])
def test_a_url_of_java_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(BadSetting, match=r"one of Java's.*expected postgresql\+psycopg://user") as refused:
        open_database(url)
    assert "geheim" not in str(refused.value)


def test_a_malformed_url_is_never_repeated() -> None:
    with pytest.raises(BadSetting) as refused:
        open_database("me:geheim@host")
    assert "geheim" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(NotSupported, match="name a file"):
        open_database(url)


class Body:
    """Fails with each of ``errors`` in turn, then returns what it got."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    @retried
    def run(self, value: int, *, more: int = 0) -> int:
        """As documented."""
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value + more


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_what_works_runs_once(slept: list[float]) -> None:
    body = Body()
    assert (body.run(1, more=2), body.calls, slept) == (3, 1, [])
    assert (body.run.__name__, Body.run.__doc__) == ("run", "As documented.")


def test_what_was_rolled_back_is_done_again_after_longer_and_longer_pauses(slept: list[float]) -> None:
    body = Body(TryAgain("deadlock"), TryAgain("deadlock"), TryAgain("deadlock"))
    assert (body.run(1), body.calls) == (1, 4)
    assert slept == [BODY_PAUSE_SECONDS, BODY_PAUSE_SECONDS * 2, BODY_PAUSE_SECONDS * 3]


def test_the_last_attempts_error_is_the_callers(slept: list[float]) -> None:
    body = Body(*(TryAgain(f"attempt {number}") for number in range(1, 100)))
    with pytest.raises(TryAgain, match=f"attempt {BODY_ATTEMPTS}$"):
        body.run(1)
    assert (body.calls, len(slept)) == (BODY_ATTEMPTS, BODY_ATTEMPTS - 1)


@pytest.mark.parametrize("error", [CommitUnknown("lost"), DatabaseUnavailable("away"), ValueError("bug")])
def test_nothing_else_is_done_again(error: Exception) -> None:
    """A commit whose answer was lost may have happened: only the database knows."""
    body = Body(error)
    with pytest.raises(type(error), match=str(error)):
        body.run(1)
    assert body.calls == 1
