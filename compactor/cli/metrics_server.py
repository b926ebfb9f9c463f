"""The HTTP endpoint of metrics: bounded in connections and in time, whoever asks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MOST_CONNECTIONS = 32  #: at a time; more than that are closed at once
PATIENCE = 10.0  #: seconds for which a client may say or take nothing


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: a scrape a minute says nothing, and a client's words do not belong into our log."""

    def handle(self) -> None:
        """Answers one request, unless the client has gone or has been silent for too long."""
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
