"""The HTTP endpoint of metrics, which limits connections, bytes and time of every client."""

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

MOST_CONNECTIONS = 32  #: at a time; further ones are closed at once
MOST_HEAD = 131_072  #: bytes of a request's first line and headers
PATIENCE = 10.0  #: seconds in which a client must send a request's head, and again seconds to take its answer


class _Clock:
    """The time that a client has for one step, over all its reads or writes."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def apply(self, connection: socket.socket) -> None:
        """Limits the next operation on ``connection`` to the remaining time.

        Raises:
            TimeoutError: no time remains.
        """
        remaining = self._ends - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        connection.settimeout(remaining)


class _Head(io.RawIOBase):
    """The bytes of a request: at most ``MOST_HEAD``, all within ``seconds``."""

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
    """An answer, which the client must take within ``seconds`` from its first byte."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._clock: _Clock | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._clock = self._clock or _Clock(self._seconds)
        try:
            self._clock.apply(self._connection)
            self._connection.sendall(data)  # one time-out covers all the data
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
        """Logs nothing: scrapes are frequent, and a client's text does not belong in our log."""

    def handle(self) -> None:
        """Answers one request, unless the client is gone or too slow."""
        try:
            super().handle()
        except (TimeoutError, ConnectionError):
            self.close_connection = True


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread, at most ``MOST_CONNECTIONS`` at a time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # this machine has no thread left
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


@contextmanager
def serve_metrics(host: str, port: int, registry: CollectorRegistry) -> Iterator[int]:
    """Answers ``GET /metrics`` until the block ends, and yields the port: a free one for 0.

    Raises:
        OSError: the server cannot listen on the address.
    """
    from prometheus_client import make_wsgi_app

    family, address = _resolve(host, port)
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


def _resolve(host: str, port: int) -> tuple[int, str]:
    """Returns the address family of ``host``, and its address."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, str(address[0])
