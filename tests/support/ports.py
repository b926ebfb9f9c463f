"""Ports for servers of our own, each given out once."""

from __future__ import annotations

import itertools
import os
import socket

#: Below those that the kernel gives to clients (32768 and up), where one may be taken between the look and the server's
#: start. Each worker of xdist begins in a range of its own, and each run at a place of its own in it.
_FIRST, _EACH = 12_000, 4_000
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 5
_candidates = itertools.cycle(
    range(_FIRST + _WORKER * _EACH, _FIRST + (_WORKER + 1) * _EACH)  # some 4,000: no run needs as many
)
for _ in range(os.getpid() * 37 % _EACH):
    next(_candidates)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on, and that this process has not given out before."""
    for port in itertools.islice(_candidates, _EACH):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError(f"no port is free from {_FIRST + _WORKER * _EACH} on")


def answers(port: int) -> bool:
    """Returns true once somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
