from __future__ import annotations

import re
import socket
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge

from compactor import __version__
from compactor.answers import metrics
from compactor.answers.metrics import MetastoreCollector, registry_of
from compactor.cli import metrics_server
from compactor.cli.metrics_server import MOST_CONNECTIONS, serve_metrics
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from tests.support.patience import PATIENCE, until
from tests.support.sizes import sized

UP, DOWN = (f'compactor_up{{metastore="default",version="{__version__}"}} {value}' for value in ("1.0", "0.0"))


class Opened:
    """Opens a metastore as the command does, and counts how often."""

    def __init__(self, url: str, warehouse: Path) -> None:
        self._configuration = configure(environment={}, flags={"url": url, "warehouse": str(warehouse)})
        self.times = 0
        self.held = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self) -> AbstractContextManager[Site]:
        self.times += 1
        self.held.set()
        assert self.goes_on.wait(PATIENCE)
        return open_site(self._configuration, read_only=True)


@pytest.fixture
def opened(deployment: Site, metastore_url: str, warehouse: Path) -> Opened:
    return Opened(metastore_url, warehouse)


@contextmanager
def endpoint(opened: Opened, patience: float = PATIENCE) -> Iterator[int]:
    collector = MetastoreCollector("default", opened, patience=patience)
    with serve_metrics("127.0.0.1", 0, registry_of(collector)) as port:
        try:
            yield port
        finally:
            opened.goes_on.set()


def scrape(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        assert answer.status == 200
        return list(answer.read().decode().splitlines())


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def ended(client: socket.socket) -> bool:
    """Waits until the server has closed the connection."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


class CountedClock:
    """Counts how often the time was read."""

    def __init__(self) -> None:
        self.readings: list[float] = []

    def monotonic(self) -> float:
        self.readings.append(time.monotonic())
        return self.readings[-1]


def test_many_clients_at_once_cost_two_readings(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's, and one that began after all the others had asked."""
    clock = CountedClock()
    monkeypatch.setattr(metrics, "time", clock)
    opened.goes_on.clear()
    with endpoint(opened) as port, ThreadPoolExecutor(MOST_CONNECTIONS) as pool:
        first = pool.submit(scrape, port)
        assert opened.held.wait(PATIENCE)
        with ExitStack() as stack:
            clients = [stack.enter_context(closing(connected(port))) for _ in range(MOST_CONNECTIONS - 2)]
            for client in clients:
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            until("their requests", lambda: len(clock.readings) == 2 + len(clients))  # two are of the first client
            opened.goes_on.set()
            for client in clients:
                with client.makefile("rb") as answer:
                    assert UP in answer.read().decode()
        assert UP in first.result()
    assert opened.times == 2


def test_a_reading_that_takes_long_is_alone_and_tells_others_so(opened: Opened) -> None:
    opened.goes_on.clear()
    with endpoint(opened, patience=0.05) as port, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(scrape, port)
        assert opened.held.wait(PATIENCE)
        found = scrape(port)
        opened.goes_on.set()
        assert [line for line in found if not line.startswith("#")] == [DOWN]
        assert UP in slow.result()
        assert UP in scrape(port)
    assert opened.times == 2


def test_clients_that_say_nothing_are_let_go(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Handler, "patience", 0.05)
    with endpoint(opened) as port, ExitStack() as stack:
        clients = [stack.enter_context(closing(connected(port))) for _ in range(MOST_CONNECTIONS)]
        clients[0].sendall(b"GET /metr")
        assert all(ended(client) for client in clients)
        assert UP in until("a free connection", lambda: scrape(port))


def test_clients_that_say_little_are_let_go_as_well(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them sends a byte whenever it can, which renews no time-out."""
    monkeypatch.setattr(metrics_server._Handler, "patience", 0.5)
    with endpoint(opened) as port, ExitStack() as stack:
        clients = [stack.enter_context(closing(connected(port))) for _ in range(MOST_CONNECTIONS)]
        open_ones = set(clients)

        def trickle() -> bool:
            for client in list(open_ones):
                try:
                    client.send(b"G")
                except OSError:
                    open_ones.remove(client)
            return not open_ones

        until("all of them are let go", trickle)
        assert UP in until("a free connection", lambda: scrape(port))


def test_one_operation_may_take_what_is_left_of_the_time_for_all() -> None:
    here, there = socket.socketpair()
    with here, there:
        clock = metrics_server._Clock(1000.0)
        lefts = [clock.apply(here) or here.gettimeout() or 0.0 for _ in range(3)]
    assert 1000.0 >= lefts[0] > lefts[1] > lefts[2] > 1000.0 - PATIENCE


def test_a_client_that_takes_its_answer_slowly_is_let_go(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics_server._Handler, "patience", 0.5)
    registry = CollectorRegistry()
    gauge = Gauge("compactor_long", "x" * 1_000_000, ["name"], registry=registry)
    for number in range(20):
        gauge.labels("y" * 1_000_000 + str(number)).set(1)
    with serve_metrics("127.0.0.1", 0, registry) as port, closing(connected(port)) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        taken = 0

        def take_a_byte() -> bool:
            nonlocal taken
            try:
                taken += len(client.recv(1))
            except ConnectionError:
                return True
            return threading.active_count() == threads

        threads = 0
        assert client.recv(1)
        threads = threading.active_count() - 1
        until("its thread has ended", take_a_byte)
        assert taken < 1_000_000
    assert "Traceback" not in capfd.readouterr().err


def test_random_bytes_end_no_thread_and_no_server(capfd: pytest.CaptureFixture[str]) -> None:
    @settings(max_examples=sized(short=50, whole=2000), deadline=None)
    @given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda words: b"GET /" + words + b"\r\n\r\n"))
    def answer_is_http(words: bytes) -> None:
        with closing(connected(port)) as client, suppress(ConnectionError):
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answer:
                said = answer.read()
            assert not said or re.match(rb"HTTP/1\.[01] (200|400|405|414|431|501|505) |<!DOCTYPE HTML>", said), said

    with serve_metrics("127.0.0.1", 0, CollectorRegistry()) as port:
        answer_is_http()
        threads = threading.active_count()
        assert scrape(port) == []
        until("no thread is left", lambda: threading.active_count() <= threads)
    assert "Traceback" not in capfd.readouterr().err


def test_a_head_without_end_is_refused(opened: Opened) -> None:
    with endpoint(opened) as port, closing(connected(port)) as client:
        with suppress(ConnectionError):
            for number in range(200):
                client.sendall(b"GET / HTTP/1.1\r\n" if not number else b"X: " + b"a" * 10_000 + b"\r\n")
        assert ended(client)
        assert UP in scrape(port)


def test_more_connections_than_are_allowed_are_closed_at_once(opened: Opened) -> None:
    with endpoint(opened) as port, ExitStack() as stack:
        clients = [stack.enter_context(closing(connected(port))) for _ in range(MOST_CONNECTIONS)]
        until("their threads", lambda: threading.active_count() > MOST_CONNECTIONS)
        assert ended(stack.enter_context(closing(connected(port))))
        clients.pop().close()
        assert until("a free connection", lambda: _answered(port))


def _answered(port: int) -> bool:
    try:
        return UP in scrape(port)
    except OSError:
        return False


def test_connections_for_which_there_was_no_thread_take_no_place(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with endpoint(opened) as port:
        with monkeypatch.context() as without_threads:
            without_threads.setattr(threading.Thread, "start", start)
            for _ in range(MOST_CONNECTIONS):
                with connected(port) as client:
                    assert ended(client)
        assert UP in scrape(port)


def test_a_client_that_goes_away_does_no_harm(opened: Opened, capfd: pytest.CaptureFixture[str]) -> None:
    opened.goes_on.clear()
    with endpoint(opened) as port:
        with closing(connected(port)) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert opened.held.wait(PATIENCE)
        opened.goes_on.set()
        assert UP in scrape(port)
    assert "Traceback" not in capfd.readouterr().err


def test_what_is_no_request_is_refused(opened: Opened) -> None:
    with endpoint(opened) as port:
        for words, code in ((b"\x16\x03\x01\x02\r\n\r\n", b"400"), (b"GET /" + b"a" * 65_532, b"414")):
            with closing(connected(port)) as client, client.makefile("rb") as answer:
                client.sendall(words)
                assert code in answer.read()
        assert UP in scrape(port)
    assert opened.times == 1


@pytest.mark.parametrize("broken", ["missing", "garbage", "table"])
def test_a_broken_metastore_is_down_until_it_is_mended(
    broken: str, opened: Opened, deployment: Site, metastore_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path(metastore_url.removeprefix("sqlite:///"))
    with endpoint(opened) as port:
        assert UP in scrape(port)
        deployment.metastore.database.close()
        with _damaged(file, broken):
            found = scrape(port)
        assert [line for line in found if not line.startswith("#")] == [DOWN]
        assert "cannot be read" in caplog.text
        assert UP in scrape(port)


@contextmanager
def _damaged(file: Path, how: str) -> Iterator[None]:
    whole = file.read_bytes()
    match how:
        case "table":
            _rename(file, "COMPACTION_QUEUE", "AWAY")
            yield
            _rename(file, "AWAY", "COMPACTION_QUEUE")
        case "missing":
            file.unlink()
            yield
            file.write_bytes(whole)
        case _:
            file.write_bytes(b"garbage" * 1000)
            yield
            file.write_bytes(whole)


def _rename(file: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"ALTER TABLE {old} RENAME TO {new}")
        database.commit()


def test_an_address_of_the_newer_kind_is_listened_on(opened: Opened) -> None:
    collector = registry_of(MetastoreCollector("default", opened))
    with (
        serve_metrics("::1", 0, collector) as port,
        urllib.request.urlopen(f"http://[::1]:{port}/metrics", timeout=PATIENCE) as answer,
    ):
        assert UP in answer.read().decode()
