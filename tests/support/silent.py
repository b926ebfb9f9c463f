"""A server that accepts every request and answers none of them until it is told to."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_NOT_THERE = {"RemoteException": {"exception": "FileNotFoundException", "message": "there is nothing here"}}


class SilentServer(http.server.ThreadingHTTPServer):
    """As a NameNode it is dead without being down: connections are made, and nothing comes."""

    request_queue_size = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Silent)
        self._held = 0
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self._released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def held(self) -> int:
        """The number of requests that have come and wait for their answer."""
        with self._lock:
            return self._held

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def hold(self) -> None:
        """Waits until ``release``."""
        with self._lock:
            self._held += 1
        self._released.wait()
        with self._lock:
            self._held -= 1

    def release(self) -> None:
        """Has all requests answered from now on: there is nothing here."""
        self._released.set()

    def hang_up(self) -> None:
        """Ends the connections of all who wait for something else than an answer by HTTP."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Silent(http.server.BaseHTTPRequestHandler):
    server: SilentServer

    def do_GET(self) -> None:
        self.server.hold()
        answer = json.dumps(_NOT_THERE).encode()
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def silent_server() -> Iterator[SilentServer]:
    """Yields the server; in the end all that wait are answered."""
    server = SilentServer()
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.release()
        server.shutdown()
        serving.join()
        server.hang_up()
        server.server_close()
