"""The loop of a keeper: it answers, survives a request that fails, and ends once there is nothing to hold."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.errors import NotFound
from compactor.rewrite.run.failure import Failure
from compactor.spark_tables.application import process
from compactor.spark_tables.folder import Folder
from compactor.spark_tables.keeper.desk import Desk
from compactor.spark_tables.keeper.server import Server
from compactor.spark_tables.messages import Taken
from compactor.spark_tables.wire import connect, listen


class OddDesk(Desk):
    """Fails when it is asked to."""

    def answer(self, request: Any) -> Any:
        if isinstance(request, Exception):
            raise request
        return request


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_requests_are_answered_until_there_is_nothing_to_hold(tmp_path: Path) -> None:
    folder = Folder(process(os.getpid()), tmp_path / "k")
    folder.make()
    answers: list[Any] = []

    def ask() -> None:
        for request in ("a", NotFound("no table"), ValueError("odd")):
            with connect(folder.socket) as connection:
                connection.send(request)
                assert connection.recv() == Taken()
                answers.append(connection.recv())

    with OddDesk() as desk, listen(folder.socket) as listening:
        asking = threading.Thread(target=ask)
        asking.start()
        server = Server(listening, desk, folder, process(os.getpid()), idle_s=1.0)
        assert server.serve() == "there is nothing to hold"
        asking.join()
    assert answers[0] == "a"
    assert answers[1] == Failure(kind="NotFound", message="no table")
    assert answers[2].kind == "Unforeseen"
    assert "ValueError: odd" in answers[2].message
    assert not folder.socket.exists()


def test_a_signal_ends_it(tmp_path: Path) -> None:
    folder = Folder(process(os.getpid()), tmp_path / "k")
    folder.make()
    with OddDesk() as desk, listen(folder.socket) as listening:
        server = Server(listening, desk, folder, process(os.getpid()))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert server.serve() == "it was told to"
