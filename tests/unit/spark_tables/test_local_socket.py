"""Bytes over a local socket."""

from __future__ import annotations

import os
import socket
import struct
import threading
from pathlib import Path

import pytest

from compactor.base.errors import BadMessage, ForeignProcess
from compactor.base.identities import user_name
from compactor.spark_tables import local_socket
from compactor.spark_tables.local_socket import KeeperConnection, accept, connect, listen


def test_messages_of_any_length_go_there_and_back(tmp_path: Path) -> None:
    long = os.urandom(3_000_000)
    with listen(tmp_path / "s") as listening, connect(tmp_path / "s") as here:
        there = accept(listening)
        assert there is not None
        with there:
            sending = threading.Thread(target=lambda: [here.send(data) for data in (b"", b"a", long)])
            sending.start()
            assert [there.receive() for _ in range(3)] == [b"", b"a", long]
            sending.join()


def test_a_process_of_another_user_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(tmp_path / "s") as listening, connect(tmp_path / "s") as here:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert accept(listening) is None
        with pytest.raises((EOFError, ConnectionResetError)):
            here.receive()


def test_nothing_is_sent_to_a_process_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(tmp_path / "s") as listening:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(
            ForeignProcess, match=f"process of user {user_name(os.getuid())} listens here; expected one of user 12345"
        ):
            connect(tmp_path / "s")
        there, _ = listening.accept()
        with there:
            assert there.recv(1) == b""


def test_a_socket_that_nobody_listens_at_is_replaced(tmp_path: Path) -> None:
    listen(tmp_path / "s").close()
    with pytest.raises(OSError):
        connect(tmp_path / "s")
    with listen(tmp_path / "s"), connect(tmp_path / "s"):
        pass


@pytest.mark.parametrize("length", [local_socket.LONGEST + 1, 2**63, 2**64 - 1])
def test_a_message_that_is_too_long_is_refused_before_it_is_read(length: int) -> None:
    here, there = socket.socketpair()
    with here, KeeperConnection(there) as connection:
        here.sendall(struct.pack("!Q", length))
        with pytest.raises(BadMessage, match=f"{length} bytes; at most {local_socket.LONGEST}"):
            connection.receive()


def test_a_message_that_breaks_off_takes_no_more_memory_than_has_come() -> None:
    here, there = socket.socketpair()
    with KeeperConnection(there) as connection:
        here.sendall(struct.pack("!Q", local_socket.LONGEST) + b"abc")
        here.close()
        with pytest.raises(EOFError, match=f"3 of {local_socket.LONGEST} bytes"):
            connection.receive()


def test_a_process_that_says_nothing_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    with here, KeeperConnection(there) as connection:
        connection.wait_at_most(0.01)
        with pytest.raises(TimeoutError):
            connection.receive()
