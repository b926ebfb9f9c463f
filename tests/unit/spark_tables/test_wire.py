"""Values over a local socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.spark_tables.wire import accept, connect, listen


def test_a_value_goes_there_and_back(tmp_path: Path) -> None:
    with listen(tmp_path / "s") as listening, connect(tmp_path / "s") as here:
        there = accept(listening)
        assert there is not None
        with there:
            here.send({"a": 1})
            there.send([there.recv()])
            assert here.recv() == [{"a": 1}]


def test_a_process_of_another_user_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(tmp_path / "s") as listening, connect(tmp_path / "s") as here:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        assert accept(listening) is None
        with pytest.raises((EOFError, ConnectionResetError)):
            here.recv()


def test_a_socket_that_nobody_listens_at_is_replaced(tmp_path: Path) -> None:
    listen(tmp_path / "s").close()
    with pytest.raises(OSError):
        connect(tmp_path / "s")
    with listen(tmp_path / "s"), connect(tmp_path / "s"):
        pass
