"""An address behind which the database server changes, as a virtual IP or a DNS name does in a failover."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.support.servers import Server


class Address:
    """A port of loopback that forwards new connections to one server; old ones stay where they are."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def url(self, name: str) -> str:
        """Returns the URL of a database at this address."""
        url = make_url(self.server.url.format(name=name))
        at = url.set(host="127.0.0.1", port=self.port, query={})
        return at.render_as_string(hide_password=False)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._sockets):
            end.close()

    def cut(self) -> None:
        """Ends all connections."""
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(_socket(self.server)))
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._sockets += [client, server]
                for ends in ((client, server), (server, client)):
                    thread = threading.Thread(target=_forward, args=ends, daemon=True)
                    self._threads.append(thread)
                    thread.start()


def _socket(server: Server) -> Path:
    return server.folder / (f".s.PGSQL.{server.port}" if server.kind == "postgresql" else "s")


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def address_of(server: Server) -> Iterator[Address]:
    """Yields an address whose server can be replaced."""
    address = Address(server)
    try:
        yield address
    finally:
        address.close()
