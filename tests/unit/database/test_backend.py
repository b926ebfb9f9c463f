from __future__ import annotations

import sqlite3

import psycopg.errors as pg
import pymysql.err as my
import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from compactor.database.backend import Retryable, Trouble, log_in_advice
from compactor.database.servers import MySQLBackend, PostgresBackend

POSTGRES = PostgresBackend(make_url("postgresql+psycopg://h/x"))
MYSQL = MySQLBackend(make_url("mysql+pymysql://h/x"))
GALERAS_CONFLICT = "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"


def wrapped(error: Exception, *, disconnected: bool = False) -> DBAPIError:
    return DBAPIError("SELECT", {}, error, connection_invalidated=disconnected)


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (pg.DeadlockDetected("x"), Trouble.BUSY),
        (pg.SerializationFailure("x"), Trouble.BUSY),
        (pg.AdminShutdown("x"), Trouble.LOST),
        (pg.CannotConnectNow("x"), Trouble.LOST),
        (pg.InsufficientPrivilege("x"), Trouble.DENIED),
        (pg.UndefinedTable("x"), Trouble.MISSING),
        (pg.UndefinedColumn("x"), Trouble.MISSING),
        (pg.UniqueViolation("x"), Trouble.BUG),
        (pg.SyntaxError("x"), Trouble.BUG),
        (pg.DiskFull("x"), Trouble.OTHER),
        (pg.IdleSessionTimeout("x"), Trouble.LOST),
        (pg.IdleInTransactionSessionTimeout("x"), Trouble.LOST),
        (pg.TransactionTimeout("x"), Trouble.LOST),
        (pg.DuplicatePreparedStatement("x"), Trouble.POOLED),
        (pg.InvalidSqlStatementName("x"), Trouble.POOLED),
        (pg.ProtocolViolation("bind message supplies 0 parameters, but prepared statement requires 1"), Trouble.POOLED),
        (pg.ProtocolViolation("server login has been failing, cached error: server conn crashed?"), Trouble.LOST),
        (pg.UntranslatableCharacter("x"), Trouble.UNSTORABLE),
        (pg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), Trouble.UNSTORABLE),
        (pg.ReadOnlySqlTransaction("x"), Trouble.OTHER),  # of our own reading transaction
        (pg.OperationalError("connection refused"), Trouble.LOST),
        (pg.OperationalError('password authentication failed for user "u"'), Trouble.DENIED),
    ],
)
def test_errors_of_postgresql(error: Exception, trouble: Trouble) -> None:
    assert POSTGRES.trouble(wrapped(error)) is trouble


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (my.OperationalError(1213, "Deadlock found"), Trouble.BUSY),
        (my.OperationalError(1205, "Lock wait timeout exceeded"), Trouble.BUSY),
        (my.OperationalError(1305, "SAVEPOINT sa_savepoint_4 does not exist"), Trouble.BUSY),
        (my.OperationalError(2013, "Lost connection"), Trouble.LOST),
        (my.OperationalError(2003, "Can't connect"), Trouble.LOST),
        (my.OperationalError(1045, "Access denied"), Trouble.DENIED),
        (my.OperationalError(1142, "SELECT command denied"), Trouble.DENIED),
        (my.ProgrammingError(1146, "Table doesn't exist"), Trouble.MISSING),
        (my.IntegrityError(1062, "Duplicate entry"), Trouble.BUG),
        (my.DataError(1406, "Data too long"), Trouble.BUG),
        (my.OperationalError(1114, "The table is full"), Trouble.OTHER),
        (my.OperationalError(1226, "User 'u' has exceeded the 'max_user_connections' resource"), Trouble.LOST),
        (my.OperationalError(4031, "The client was disconnected by the server because of inactivity"), Trouble.LOST),
        (my.OperationalError(1047, "WSREP has not yet prepared node for application use"), Trouble.LOST),
        (my.OperationalError(3101, "Plugin instructed the server to rollback"), Trouble.BUSY),
        (my.OperationalError(1180, GALERAS_CONFLICT), Trouble.BUSY),
        (my.DataError(1366, "Incorrect string value: '\\xC5\\x82' for column `x`"), Trouble.UNSTORABLE),
        (my.DataError(1366, "Incorrect integer value: 'x' for column `x`"), Trouble.BUG),
        (my.OperationalError(1267, "Illegal mix of collations"), Trouble.UNSTORABLE),
        (my.OperationalError(3854, "Cannot convert string"), Trouble.UNSTORABLE),
        (my.OperationalError(1290, "running with the --secure-file-priv option"), Trouble.OTHER),
    ],
)
def test_errors_of_mysql(error: Exception, trouble: Trouble) -> None:
    assert MYSQL.trouble(wrapped(error)) is trouble


def test_a_connection_that_the_driver_gave_up_is_lost() -> None:
    assert MYSQL.trouble(wrapped(my.OperationalError(9999, "x"), disconnected=True)) is Trouble.LOST
    assert POSTGRES.trouble(wrapped(pg.InterfaceError("x"), disconnected=True)) is Trouble.LOST


@pytest.mark.parametrize(
    ("backend", "error"),
    [
        (POSTGRES, pg.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction")),
        (MYSQL, my.OperationalError(1290, "running with the --super-read-only option so it cannot execute this")),
        (MYSQL, my.OperationalError(1290, "running with the --read_only option so it cannot execute this")),
        (MYSQL, my.InternalError(1836, "Running in read-only mode")),
    ],
)
def test_a_server_that_was_demoted(backend: PostgresBackend | MySQLBackend, error: Exception) -> None:
    """The engine has given up the connection then: the refusal of our own reading transaction means something else."""
    assert backend.trouble(wrapped(error, disconnected=True)) is Trouble.READ_ONLY
    assert backend.trouble(wrapped(error)) is Trouble.OTHER


def test_which_failed_commits_surely_changed_nothing() -> None:
    """PROTOCOL 5: all others are CommitUnknown."""
    assert POSTGRES.is_rolled_back(wrapped(pg.SerializationFailure("x")))
    assert MYSQL.is_rolled_back(wrapped(my.OperationalError(1213, "x")))
    assert MYSQL.is_rolled_back(wrapped(my.OperationalError(1305, "SAVEPOINT sa_savepoint_4 does not exist")))
    for error in (pg.AdminShutdown("x"), pg.StatementCompletionUnknown("x"), pg.OperationalError("x")):
        assert not POSTGRES.is_rolled_back(wrapped(error))
    for idle in (pg.IdleSessionTimeout("x"), pg.IdleInTransactionSessionTimeout("x"), pg.ReadOnlySqlTransaction("x")):
        assert POSTGRES.is_rolled_back(wrapped(idle))
    for number in (1836, 3101, 4031):
        assert MYSQL.is_rolled_back(wrapped(my.OperationalError(number, "x")))
    assert MYSQL.is_rolled_back(wrapped(my.OperationalError(1180, GALERAS_CONFLICT)))
    assert MYSQL.is_rolled_back(wrapped(my.OperationalError(1290, "running with the --super-read-only option")))
    for text in (
        "Error while appending streaming replication fragment(provider status: Not connected to Primary Component)",
        "Got error 28 - 'No space left on device' during COMMIT",
        'Got error 1490 "unknown" during COMMIT',
    ):
        assert not MYSQL.is_rolled_back(wrapped(my.OperationalError(1180, text)))
    for number in (1205, 1290, 2006, 2013, 3100):
        assert not MYSQL.is_rolled_back(wrapped(my.OperationalError(number, "x")))


@pytest.mark.parametrize(
    ("patterns", "matches"),
    [
        ("", False),
        ("^Deadlock", True),
        ("^deadlock", False),
        ("40001$,nothing", True),
        ("Can't serialize.*,^Deadlock, with.*,.*ORA-08176.*", False),  # a comma before a blank is part of a pattern
        (r".*SQLState=40001, ErrorCode=1213.*", True),
    ],
)
def test_patterns_of_a_site(patterns: str, matches: bool) -> None:
    """``hive.txn.retryable.sqlex.regex`` meets message, SQLSTATE and the text that Hive makes of an error."""
    error = my.OperationalError(1213, "Deadlock found", sqlstate="40001")
    assert Retryable(patterns).matches(wrapped(error)) is matches


def test_patterns_of_a_site_on_postgresql() -> None:
    assert Retryable("40P01").matches(wrapped(pg.DeadlockDetected("x")))
    assert not Retryable("40P01").matches(wrapped(sqlite3.OperationalError("locked")))


def test_a_log_in_by_kerberos_that_fails_says_what_to_do() -> None:
    message = "GSSAPI continuation error: Ticket expired"
    assert log_in_advice(message) == "; log in again with kinit; a keytab in KRB5_CLIENT_KTNAME logs in automatically"
    assert log_in_advice("password authentication failed") == ""
