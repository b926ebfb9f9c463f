"""Values over a local socket, between processes of one user."""

from __future__ import annotations

import os
import socket
import struct
from multiprocessing.connection import Connection
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  #: of ``struct ucred`` (unix(7)): process, user and group


def connect(path: Path) -> Connection:
    """Returns a connection to whoever listens at ``path``.

    Raises:
        OSError: nobody does.
    """
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(path))
        return Connection(made.detach())


def listen(path: Path) -> socket.socket:
    """Returns a socket that listens at ``path``, where there may be one that nobody listens at any longer."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(128)
    return listening


def accept(listening: socket.socket) -> Connection | None:
    """Returns the connection that waits; None if it is not this user's: what comes over it is unpickled."""
    made, _ = listening.accept()
    with made:
        credentials = made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
            return None
        return Connection(made.detach())
