"""Sends bytes over a local socket between processes of one user.

The kernel tells the user at the other end.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from compactor.base.errors import BadMessage, ForeignProcess
from compactor.base.identities import process_user, user_name

LONGEST = 256 << 20  #: bytes of one message; a plan with a million files is shorter
SEND_WITHIN_S = 60.0  #: a connected process has to send its request within so many seconds
_LENGTH = struct.Struct("!Q")
_PIECE = 1 << 20
_CREDENTIALS = struct.Struct("3i")  #: ``struct ucred`` (unix(7)): process, user and group


class KeeperConnection:
    """One end of a connection between a keeper and a process of its user.

    A message is its length and its bytes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def wait_at_most(self, seconds: float | None) -> None:
        """Sets how long ``receive`` waits for the next bytes; None means forever."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Sends one message.

        Raises:
            OSError: the other process is gone.
        """
        self._socket.sendall(_LENGTH.pack(len(data)))
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Returns the next message. It takes only as much memory as bytes have arrived.

        Raises:
            EOFError, OSError: the other process is gone or silent.
            BadMessage: the message is too long.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > LONGEST:
            raise BadMessage(f"a message of {length} bytes; at most {LONGEST} are read")
        return self._read(length)

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self._socket.recv(min(length - len(data), _PIECE))
            if not piece:
                raise EOFError(f"the connection ended after {len(data)} of {length} bytes")
            data += piece
        return bytes(data)


def connect(path: Path) -> KeeperConnection:
    """Returns a connection to the process of this user that listens at ``path``.

    Raises:
        OSError: nobody listens there.
        ForeignProcess: a process of another user listens there; nothing was sent to it.
    """
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(str(path))
        if (user := _peer_user(connected)) != os.geteuid():
            raise ForeignProcess(
                f"{path}: a process of user {user_name(user)} listens here; expected one of user {process_user()}. Nothing "
                "was sent to it; find out who created the socket"
            )
    except BaseException:
        connected.close()
        raise
    return KeeperConnection(connected)


def listen(path: Path) -> socket.socket:
    """Returns a socket that listens at ``path``; replaces an abandoned socket there."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(128)
    return listening


def accept(listening: socket.socket) -> KeeperConnection | None:
    """Returns the waiting connection; None if it belongs to another user, from whom nothing is read."""
    connected, _ = listening.accept()
    if _peer_user(connected) != os.geteuid():
        connected.close()
        return None
    return KeeperConnection(connected)


def _peer_user(connected: socket.socket) -> int:
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
