"""Failures that a database server causes its clients: one clear sentence each, nothing half done, and retries where
possible.
"""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress

import pytest
from sqlalchemy import select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

from compactor.base.errors import CommitUnknown, DatabaseUnavailable, NotSupported, TryAgain
from compactor.base.ids import TxnId
from compactor.database.engine import Database, open_database, retried
from compactor.database.server_traits import ServerTraits, server_traits
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from tests.support import servers
from tests.support.patience import PATIENCE, until
from tests.support.places import PASSWORD, Place
from tests.support.ports import free_port

#: PyMySQL leaves the socket of a connection that broke to the garbage collector, which speaks of it.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")

_OWN_ID = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}


@pytest.fixture
def metastore(place: Place) -> Iterator[Metastore]:
    opened = open_metastore("default", place.url)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Warnings of the garbage collector are given in the test that it is about."""
    yield
    gc.collect()


def own_id(conn: object, kind: str) -> int:
    return int(conn.exec_driver_sql(_OWN_ID[kind]).scalar_one())  # type: ignore[attr-defined]


# --- isolation ----------------------------------------------------------------------------------------------------


def test_a_writer_sees_what_committed_since_it_began(metastore: Metastore) -> None:
    """PROTOCOL 9: READ COMMITTED on every server connection; MariaDB's default makes the MAX(TXN_ID) stale."""
    newest = select(t.TXNS.c.TXN_ID).order_by(t.TXNS.c.TXN_ID.desc()).limit(1)
    with metastore.database.write() as conn:
        assert conn.execute(newest).scalar_one() == 0
        threads = [threading.Thread(target=metastore.transactions.open, args=("u", "h"))]
        threads[0].start()
        threads[0].join()
        assert conn.execute(newest).scalar_one() == 1


def test_every_connection_is_set_to_read_committed(place: Place) -> None:
    """PROTOCOL 9: also for what somebody begins on it without us."""
    ask = {
        "postgresql": "SHOW default_transaction_isolation",
        "mysql": "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')",
    }
    if place.server.kind == "postgresql":  # a site's default, as MariaDB's own is
        place.server.sql(
            f"ALTER DATABASE {place.name} SET default_transaction_isolation = 'repeatable read';", "postgres"
        )
    database = open_database(place.url)
    with database.read() as conn:
        isolation = [row[-1] for row in conn.exec_driver_sql(ask[place.server.kind])][-1]
    assert isolation.lower().replace("-", " ") == "read committed"
    database.close()


def test_a_reader_sees_one_instant_and_writes_nothing(metastore: Metastore) -> None:
    count = select(t.TXNS.c.TXN_ID)
    with metastore.database.read() as conn:
        assert len(conn.execute(count).all()) == 1
        metastore.transactions.open("u", "h")
        assert len(conn.execute(count).all()) == 1
    with pytest.raises(DatabaseUnavailable, match=r"(?i)read.only"), metastore.database.read() as conn:
        conn.execute(t.TXNS.update().values(TXN_USER="x"))


# --- who may not --------------------------------------------------------------------------------------------------


def test_wrong_password(place: Place) -> None:
    url = make_url(place.user("reader", place.may_read())).set(password="wr%ong")
    with pytest.raises(DatabaseUnavailable, match=r"(?i)reader:\*\*\*@.*(authentication failed|access denied)") as said:
        open_metastore("default", url.render_as_string(hide_password=False))
    assert "wr%ong" not in str(said.value)
    assert "\n" not in str(said.value)


def test_a_user_that_may_only_read_observes_and_is_refused_the_rest(metastore: Metastore, place: Place) -> None:
    [txn] = metastore.transactions.open("u", "h")
    url = place.user("reader", place.may_read())
    observer = open_metastore("default", url, read_only=True)
    assert [found.id for found in observer.transactions.open_transactions()] == [txn]
    observer.close()
    acting = open_metastore("default", url)
    with pytest.raises(DatabaseUnavailable, match=r"(?i)denied.*mode observe") as said:
        acting.transactions.open("u", "h")
    assert PASSWORD not in str(said.value)
    acting.close()
    assert metastore.transactions.newest() == txn


def test_no_such_database(place: Place) -> None:
    url = make_url(place.url).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnavailable, match=r"(?i)nowhere.*(does not exist|unknown database)"):
        open_metastore("default", url)


def test_no_server_there(place: Place) -> None:
    query = {"host": "/nowhere"} if place.server.kind == "postgresql" else {"unix_socket": "/nowhere/s"}
    url = make_url(place.url).update_query_dict(query).render_as_string(hide_password=False)
    slept: list[float] = []
    with pytest.raises(DatabaseUnavailable, match="nowhere"), Database(make_url(url), sleep=slept.append).read():
        pytest.fail("the body must not run")
    assert slept, "a server that is just starting is waited for"


def test_no_metastore_there(place: Place) -> None:
    place.server.drop("empty")
    url = place.server.make("empty")
    with pytest.raises(DatabaseUnavailable, match="has no table VERSION"):
        open_metastore("default", url)
    place.server.drop("empty")


def test_a_table_that_is_missing(metastore: Metastore, place: Place) -> None:
    metastore.transactions.open("u", "h")
    name = '"MIN_HISTORY_LEVEL"' if place.server.kind == "postgresql" else "MIN_HISTORY_LEVEL"
    place.server.sql(f"DROP TABLE {name};", place.name)
    with pytest.raises(DatabaseUnavailable, match=r"MIN_HISTORY_LEVEL.*not the one that VERSION names"):
        metastore.transactions.open("u", "h")
    assert metastore.transactions.newest() == 1


# --- connections that break ---------------------------------------------------------------------------------------


def test_a_connection_that_died_in_the_pool_is_not_noticed(metastore: Metastore, place: Place) -> None:
    with metastore.database.read() as conn:
        dead = own_id(conn, place.server.kind)
    place.kill(dead)
    assert metastore.transactions.open("u", "h") == [1]


def test_a_connection_that_breaks_within_a_transaction_is_tried_again(metastore: Metastore, place: Place) -> None:
    calls = []

    @retried
    def work() -> None:
        with metastore.database.write() as conn:
            calls.append(own_id(conn, place.server.kind))
            conn.execute(t.TXNS.update().values(TXN_USER="x"))
            if len(calls) == 1:
                place.kill(calls[0])
            conn.execute(t.TXNS.update().values(TXN_HOST="y"))

    work()
    assert len(calls) == 2
    with metastore.database.read() as conn:
        assert conn.execute(select(t.TXNS.c.TXN_USER, t.TXNS.c.TXN_HOST)).one() == ("x", "y")


def test_a_connection_that_breaks_at_the_commit_leaves_it_unknown(metastore: Metastore, place: Place) -> None:
    """PROTOCOL 5: a commit whose answer was lost is CommitUnknown, which is never repeated by itself."""
    calls = []

    @retried
    def work() -> None:
        with metastore.database.write() as conn:
            calls.append(1)
            conn.execute(t.TXNS.update().values(TXN_USER="x"))
            place.kill(own_id(conn, place.server.kind))

    with pytest.raises(CommitUnknown, match="answer to a commit was lost"):
        work()
    assert len(calls) == 1


# --- sessions that were idle for too long -------------------------------------------------------------------------


@pytest.fixture
def impatient(place: Place) -> Iterator[Place]:
    """A server that ends sessions which send nothing for a while, within a transaction or not."""
    if place.server.kind == "mysql":
        place.server.sql("SET GLOBAL wait_timeout = 1;", "mysql")
        yield place
        place.server.sql("SET GLOBAL wait_timeout = 28800;", "mysql")
        return
    names = place.server.sql(f"SELECT name FROM pg_settings WHERE name IN ({_IDLE});", "postgres").split()
    for name in names:  # PostgreSQL 12 has one of them
        place.server.sql(f"ALTER DATABASE {place.name} SET {name} = '300ms';", "postgres")
    yield place


_IDLE = "'idle_session_timeout', 'idle_in_transaction_session_timeout'"


@pytest.mark.parametrize("place", [name for name in servers.NAMES if name != "postgresql-12"], indirect=True)
def test_sessions_that_were_idle_in_the_pool_are_renewed(impatient: Place) -> None:
    metastore = open_metastore("default", impatient.url)
    sessions: list[int] = []
    all_open = threading.Barrier(4, timeout=PATIENCE)

    def read() -> None:
        with metastore.database.read() as conn:
            sessions.append(own_id(conn, impatient.server.kind))
            all_open.wait()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for session in sessions:
        impatient.wait_for_end(session)
    for number in range(1, 6):
        assert metastore.transactions.open("u", "h") == [number]
        assert metastore.transactions.newest() == number
    metastore.close()


@pytest.mark.parametrize("last", [False, True], ids=["before a statement", "before the commit"])
def test_a_transaction_that_was_idle_for_too_long_is_tried_again(impatient: Place, last: bool) -> None:
    """Nothing was sent meanwhile, so nothing is in doubt, even if the next thing to send was the commit."""
    database, calls = open_database(impatient.url), 0

    @retried
    def work() -> None:
        nonlocal calls
        calls += 1
        with database.write() as conn:
            conn.execute(t.TXNS.update().values(TXN_USER="x"))
            if calls == 1:
                impatient.wait_for_end(own_id(conn, impatient.server.kind))
            if not last:
                conn.execute(t.TXNS.update().values(TXN_HOST="y"))

    if last and impatient.server.kind == "mysql":
        with pytest.raises(CommitUnknown):  # these close the connection without a word
            work()
    else:
        work()
        assert calls == 2
    database.close()


@pytest.mark.parametrize("place", ["postgresql-18"], indirect=True)
def test_a_transaction_that_takes_too_long_is_tried_again(place: Place) -> None:
    """PostgreSQL 17 and later (25P04)."""
    place.server.sql(f"ALTER DATABASE {place.name} SET transaction_timeout = '500ms';", "postgres")
    database, calls = open_database(place.url), 0

    @retried
    def work() -> None:
        nonlocal calls
        calls += 1
        with database.write() as conn:
            conn.execute(t.TXNS.update().values(TXN_USER="x"))
            if calls == 1:
                place.wait_for_end(own_id(conn, place.server.kind))

    work()
    assert calls == 2
    database.close()


@pytest.mark.parametrize("nested", [False, True], ids=["", "within a savepoint"])
def test_a_deadlock_is_resolved_by_trying_again(metastore: Metastore, nested: bool) -> None:
    """MySQL takes the savepoint along, and so its end fails in place of the statement."""
    ids = metastore.transactions.open("u", "h", count=2)
    both_hold = threading.Barrier(2, timeout=PATIENCE)
    tries: list[int] = []

    def work(first: TxnId, second: TxnId) -> None:
        waits = True

        @retried
        def cross() -> None:
            nonlocal waits
            tries.append(first)
            with metastore.database.write() as conn:
                conn.execute(t.TXNS.update().where(first == t.TXNS.c.TXN_ID).values(TXN_META_INFO=str(first)))
                if waits:
                    waits = False
                    both_hold.wait()
                with conn.begin_nested() if nested else nullcontext():
                    conn.execute(t.TXNS.update().where(second == t.TXNS.c.TXN_ID).values(TXN_META_INFO=str(first)))

        cross()

    threads = [threading.Thread(target=work, args=pair) for pair in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    # one at least was the victim; who tries again before the other one has noticed meets him once more
    assert set(tries) == set(ids)
    assert len(tries) > len(ids)
    with metastore.database.read() as conn:
        both = conn.execute(select(t.TXNS.c.TXN_META_INFO).where(t.TXNS.c.TXN_ID.in_(ids))).scalars().all()
    assert len(both) == 2
    assert len(set(both)) == 1, "each did all of it or nothing"


def test_a_sites_own_errors_are_tried_again(place: Place) -> None:
    """``hive.txn.retryable.sqlex.regex`` is matched against message, SQLSTATE and code."""
    failing = (
        "SELECT 1/0" if place.server.kind == "postgresql" else "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'by zero'"
    )
    plain = open_database(place.url)
    with pytest.raises((DBAPIError, DatabaseUnavailable)) as said, plain.write() as conn:
        conn.exec_driver_sql(failing)
    assert not isinstance(said.value, TryAgain)
    told = open_database(place.url, retryable="^Deadlock,.*by zero$")
    with pytest.raises(TryAgain, match="by zero"), told.write() as conn:
        conn.exec_driver_sql(failing)
    plain.close()
    told.close()


# --- the server dies ----------------------------------------------------------------------------------------------


@pytest.fixture(params=servers.NAMES)
def mortal(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """A server of its own, since killing a shared one would break other tests."""
    with servers.start(request.param) as running:
        yield running


def test_a_connection_that_dies_between_its_last_statement_and_its_end(mortal: servers.Server) -> None:
    """Everything read before is right, and nothing is left to roll back."""
    database = open_database(mortal.make("metastore"))
    for _ in range(2):
        with database.read() as conn:
            assert conn.execute(select(1)).scalar() == 1
            mortal.end(signal.SIGKILL)
            mortal.start()
    database.close()


def test_a_server_that_is_killed_leaves_nothing_half_done(mortal: servers.Server) -> None:
    """All that was answered is there after the restart, all there is whole, and the clients go on by themselves."""
    url = mortal.make("metastore", servers.hive_schema(mortal.kind, "4.0.0"))
    metastore = open_metastore("default", url)
    answered: list[tuple[TxnId, int]] = []
    failed: list[Exception] = []
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            try:
                [txn] = metastore.transactions.open("u", "h")
                answered.append((txn, metastore.write_ids.allocate(txn, "default", "t")))
                metastore.transactions.commit(txn)
            except (DatabaseUnavailable, CommitUnknown) as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        until("some transactions", lambda: len(answered) > 20)
        mortal.end(signal.SIGKILL)
        before = len(answered)
        mortal.start()
        until("as many after the restart", lambda: len(answered) >= before + 20)
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE)
    mapped = metastore.write_ids.transactions("default", "t")
    states = metastore.transactions.states([*mapped.values()])
    assert {(txn, write_id) for write_id, txn in mapped.items()} >= set(answered)
    assert set(states) == set(mapped.values())
    assert metastore.write_ids.next("default", "t") == max(mapped) + 1
    with metastore.database.read() as conn:
        history = set(conn.execute(select(t.MIN_HISTORY_LEVEL.c.MHL_TXNID)).scalars())
    opened = {found.id for found in metastore.transactions.open_transactions()}
    assert history == opened
    with suppress(DatabaseUnavailable):
        metastore.close()


# --- log-in, and what stands in between ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mysql-9.7"])
def test_a_log_in_without_tls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL's default needs RSA then, which PyMySQL leaves to another package."""
    with servers.start(name, port=(port := free_port())) as server:
        server.make("plain")
        server.sql(
            f"CREATE USER u@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON plain.* TO u@'127.0.0.1';", "plain"
        )
        user = URL.create("mysql+pymysql", "u", PASSWORD, "127.0.0.1", port, "plain", {"ssl_disabled": "true"})
        database = open_database(user.render_as_string(hide_password=False))
        monkeypatch.setattr("pymysql._auth._have_cryptography", False)
        with pytest.raises(NotSupported, match=r"run `pip install hive-compactor\[mysql\]`, or connect with TLS"):
            ask(database)
        monkeypatch.undo()
        assert ask(database) == "u@127.0.0.1"
        database.close()


def ask(database: Database) -> str:
    with database.read() as conn:
        return str(conn.exec_driver_sql("SELECT current_user()").scalar_one())


@pytest.mark.whole
@pytest.mark.parametrize(("kept", "option"), [(0, ""), (0, "?prepare_threshold=None"), (200, "?prepare_threshold=5")])
def test_a_pooler_in_transaction_mode(place_behind_pooler: Callable[[int], str], kept: int, option: str) -> None:
    """psycopg prepares what it sends often, and PgBouncer keeps as many statements of a client as it is told to."""
    url = place_behind_pooler(kept) + option
    committed: list[TxnId] = []

    def work(metastore: Metastore) -> None:
        for _ in range(20):
            [txn] = metastore.transactions.open("u", "h")
            metastore.write_ids.allocate(txn, "default", "t")
            metastore.transactions.commit(txn)
            committed.append(txn)

    metastore = open_metastore("default", url)
    threads = [threading.Thread(target=work, args=(metastore,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(committed) == list(range(1, 121))
    assert server_traits(metastore.database) == ServerTraits(has_pooler=True, prepares=kept > 0)
    metastore.close()


@pytest.fixture
def place_behind_pooler(server: Callable[[str], servers.Server]) -> Iterator[Callable[[int], str]]:
    running = server("postgresql")
    running.make("pooled", servers.hive_schema("postgresql", "4.0.0"))
    with ExitStack() as stack:

        def start(kept: int) -> str:
            pooler = servers.pgbouncer(running, pool_mode="transaction", max_prepared_statements=kept)
            return stack.enter_context(pooler).format(name="pooled")

        yield start
    running.drop("pooled")
