"""The night on which clocks go back, on servers that are in a zone with summer time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import insert, update

from compactor.base.ids import TxnId
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from tests.support import servers
from tests.support.places import Place

FIRST = 1_792_888_200  #: 02:30 in Berlin, summer time; an hour later it is 02:30 again
BEFORE, SECOND, AFTER = FIRST - 3_600, FIRST + 3_600, FIRST + 7_200
HOUR, TIMEOUT = 3_600_000, 300_000
#: What Hive writes as a heartbeat (``TxnDbUtil.getEpochFn``).
HIVES_CLOCK = "CAST(ROUND(UNIX_TIMESTAMP(CURTIME(4)) * 1000) AS SIGNED)"
MYSQL = [name for name in servers.NAMES if name.startswith(("mysql", "mariadb"))]


@pytest.fixture(params=MYSQL, scope="module")
def server_in_berlin(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TZ", "Europe/Berlin")
        with servers.start(request.param, "--sysdate-is-now") as server:
            yield server


@pytest.fixture
def berlin(server_in_berlin: servers.Server) -> Iterator[Place]:
    url = server_in_berlin.make("night", servers.hive_schema("mysql", "4.0.0"))
    yield Place(server=server_in_berlin, name="night", url=url)
    server_in_berlin.drop("night")


def open_at(place: Place, second: int) -> Metastore:
    """Opens the metastore at ``second`` of the server's clock, which then stands still."""
    # the server runs this for every session of a user without further rights
    place.server.sql(f"SET GLOBAL init_connect = 'SET timestamp = {second}';", "mysql")
    rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON night.*"
    return open_metastore("default", place.user("night_owl", rights))


def open_hives_transaction(place: Place, second: int) -> int:
    """Inserts a transaction as Hive does, with the server's own zone; returns its heartbeat."""
    row = f"SET timestamp = {second}; INSERT INTO TXNS (TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST)"
    place.server.sql(f"{row} SELECT 'o', {HIVES_CLOCK}, {HIVES_CLOCK}, 'hive', 'h';", place.name)
    return int(place.server.sql("SELECT MAX(TXN_LAST_HEARTBEAT) FROM TXNS;", place.name))


def test_our_clock_is_right_in_both_hours(berlin: Place) -> None:
    for second in (BEFORE, FIRST, SECOND, AFTER):
        metastore = open_at(berlin, second)
        assert metastore.now_ms() == second * 1000
        metastore.close()


@pytest.mark.parametrize("second", [FIRST, SECOND])
def test_nobody_is_timed_out_while_an_hour_occurs_twice(second: int, berlin: Place) -> None:
    """PROTOCOL 8: Hive's heartbeats say nothing in these hours."""
    metastore = open_at(berlin, second)
    silent = metastore.transactions.open("u", "h", count=2)
    with metastore.database.write() as conn:
        conn.execute(update(t.TXNS).values(TXN_LAST_HEARTBEAT=(second - 4 * 3_600) * 1000))
        lock = {"HL_LOCK_EXT_ID": 1, "HL_LOCK_INT_ID": 1, "HL_TXNID": 0, "HL_DB": "d", "HL_LOCK_STATE": "a"}
        heard = (second - 4 * 3_600) * 1000
        lock |= {"HL_LOCK_TYPE": "r", "HL_LAST_HEARTBEAT": heard, "HL_USER": "u", "HL_HOST": "h"}
        conn.execute(insert(t.HIVE_LOCKS).values(**lock))
    assert metastore.transactions.time_out(TIMEOUT) == []
    with metastore.transactions.timing_out(silent[0], TIMEOUT) as newest:
        assert newest is None
    assert metastore.silent_before_ms(TIMEOUT) == 0
    assert len(metastore.locks.show()) == 1
    metastore.close()
    after = open_at(berlin, AFTER)
    assert after.transactions.time_out(TIMEOUT) == silent
    assert after.locks.show() == []
    after.close()


def test_a_transaction_of_the_minute_before_lives_on(berlin: Place) -> None:
    """A heartbeat of 15 s ago, on either side of the moment at which the first of the two hours begins."""
    begins = FIRST - 1_800
    assert open_hives_transaction(berlin, begins - 10) == (begins - 10) * 1000
    metastore = open_at(berlin, begins + 5)
    assert metastore.transactions.time_out(TIMEOUT) == []
    assert [found.id for found in metastore.transactions.open_transactions()] == [TxnId(1)]
    metastore.close()
