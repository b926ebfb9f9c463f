"""The HTTP endpoint of metrics: bounded in connections and in time, whoever asks."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MOST_CONNECTIONS = 32  #: at a time; more than that are closed at once
MOST_HEAD = 131_072  #: bytes of a request's first line and headers
PATIENCE = 10.0  #: seconds in which a client has to send a request's head, and again to take its answer


class _Clock:
    """The time that is left to a client for one thing, however it spreads it."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def apply(self, connection: socket.socket) -> None:
        """Lets the next operation on ``connection`` take no more than what is left.

        Raises:
            TimeoutError: nothing is left.
        """
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)


class _Head(io.RawIOBase):
    """The bytes of a request, of which there are ``MOST_HEAD`` at most, and all within ``seconds``."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._clock, self._left = connection, _Clock(seconds), MOST_HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            raise ConnectionAbortedError
        self._clock.apply(self._connection)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Answer(io.BufferedIOBase):
    """An answer, which the client has to take within ``seconds`` from its first byte."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._clock: _Clock | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._clock = self._clock or _Clock(self._seconds)
        try:
            self._clock.apply(self._connection)
            self._connection.sendall(data)  # the time-out is one for all of the data
        except TimeoutError as error:
            raise ConnectionAbortedError from error  # wsgiref logs any other error with its trace
        return len(data)


class _Handler(WSGIRequestHandler):
    patience = PATIENCE

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Head(self.connection, self.patience))
        self.wfile = _Answer(self.connection, self.patience)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a scrape a minute says nothing, and a client's words do not belong into our log."""

    def handle(self) -> None:
        """Answers one request, unless the client has gone or has taken too long."""
        try:
            super().handle()
        except (TimeoutError, ConnectionError):
            self.close_connection = True


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, of which there are ``MOST_CONNECTIONS`` at most."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


@contextmanager
def serving(host: str, port: int, registry: CollectorRegistry) -> Iterator[int]:
    """Answers ``GET /metrics`` until the block ends, and yields the port: a free one for 0.

    Raises:
        OSError: the address cannot be listened on.
    """
    from prometheus_client import make_wsgi_app

    family, address = _resolved(host, port)
    server_class = type("_MetricsServer", (_Server,), {"address_family": family})
    server: WSGIServer = make_server(address, port, make_wsgi_app(registry), server_class, _Handler)
    thread = threading.Thread(target=server.serve_forever, name="metrics")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _resolved(host: str, port: int) -> tuple[int, str]:
    """Returns the family of addresses to which ``host`` belongs, and its address."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, str(address[0])
