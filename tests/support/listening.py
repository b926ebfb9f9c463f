"""A host that listens and never answers: whatever is sent to it is seen."""

from __future__ import annotations

import socket
import threading


class Listener:
    """Accepts connections at ``host`` and ``port``, notes what arrives first on each, and closes them."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.received: list[bytes] = []
        self._socket = socket.create_server((host, port))
        self._thread = threading.Thread(target=self._serve, name="listener")

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                self.received.append(connection.recv(65536))
