"""An SMTP server that takes every message and keeps it."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType


class MailSink:
    """Listens on a free port of this machine until the block ends; ``messages`` are what it was sent."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="mail")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> MailSink:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        kept = self.messages

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 sink\r\n")
                while line := self.rfile.readline():
                    word = line.strip().upper()
                    if word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        kept.append(self._message())
                    self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                    if word == b"QUIT":
                        return

            def _message(self) -> str:
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line)
                return b"".join(lines).decode("utf-8")

        return Session
