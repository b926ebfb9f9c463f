"""A store that is far away: everything that passes to and from a server is counted, waits and shares a narrow line."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

_PIECE = 64 * 1024


class _Asked:
    """The time since which a connection's request is complete: each further piece of it sets it anew."""

    def __init__(self) -> None:
        self.since: float | None = None

    def answered(self) -> float | None:
        """Returns that time, once for each request."""
        since, self.since = self.since, None
        return since


class Far:
    """A relay of TCP connections in front of the server at ``url``; ``url`` of its own is what clients use.

    ``delay`` is that of an answer in seconds, the half of it each way; ``speed`` in bytes per second and direction, shared
    by all connections; without either, bytes are only counted: ``sent`` to the server, ``received`` from it.
    ``worked`` is the time in which the server had a whole request of any connection and had not begun to answer it.
    """

    def __init__(self, url: str, *, delay: float = 0.0, speed: float | None = None) -> None:
        target = urlsplit(url)
        self._target = (target.hostname or "", target.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.delay, self.speed = delay, speed
        self._lock = threading.Lock()
        self._free = {"sent": 0.0, "received": 0.0}  #: when the line is free again
        self.reset()

    def reset(self) -> None:
        """Counts from the start."""
        self.sent = self.received = 0
        self._turns: list[tuple[float, float]] = []

    @property
    def bytes(self) -> int:
        """The number of bytes in both directions."""
        return self.sent + self.received

    @property
    def worked(self) -> float:
        """The seconds in which the server worked on at least one request."""
        total = until = 0.0
        for start, end in sorted(self._turns):
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total

    def __enter__(self) -> Far:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            threads, asked = [], _Asked()
            for source, target, way in ((client, server, "sent"), (server, client, "received")):
                due: queue.Queue[tuple[float, bytes]] = queue.Queue(maxsize=64)
                threads.append(threading.Thread(target=self._take, args=(source, due, way, asked), daemon=True))
                threads.append(threading.Thread(target=self._give, args=(target, due, way, asked), daemon=True))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _take(self, source: socket.socket, due: queue.Queue[tuple[float, bytes]], way: str, asked: _Asked) -> None:
        data = b"?"
        while data:
            try:
                data = source.recv(_PIECE)
            except OSError:
                data = b""
            if way == "received" and (since := asked.answered()) is not None:
                self._turns.append((since, time.monotonic()))
            due.put((self._when(way, len(data)), data))

    def _when(self, way: str, size: int) -> float:
        """Returns when the last of ``size`` bytes arrives."""
        with self._lock:
            setattr(self, way, getattr(self, way) + size)
            now = time.monotonic()
            if self.speed:
                self._free[way] = now = max(now, self._free[way]) + size / self.speed
            return now + self.delay / 2

    def _give(self, target: socket.socket, due: queue.Queue[tuple[float, bytes]], way: str, asked: _Asked) -> None:
        data, is_open = b"?", True
        while data:
            when, data = due.get()
            time.sleep(max(0.0, when - time.monotonic()))
            try:
                if is_open and data:
                    if way == "sent":
                        asked.since = time.monotonic()
                    target.sendall(data)
            except OSError:
                is_open = False
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR if not is_open else socket.SHUT_WR)
