"""The loop of a keeper: it answers, survives a request that fails, and ends once there is nothing to hold."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import NotFound
from compactor.rewrite.run.failure import Failure
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper.server import KeeperServer
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import CheckSnapshot, Hold, MetastorePlace, OpenSnapshot, Release, Taken
from compactor.spark_tables.local_socket import connect, listen
from compactor.spark_tables.message_bytes import decode, encode

ERRORS: dict[str, Exception] = {"missing": NotFound("no table"), "odd": ValueError("odd")}


class OddDispatcher(Dispatcher):
    """Fails when the name of a snapshot is that of an error."""

    def answer(self, request: Any) -> Any:
        match request:
            case Release(snapshot=str(name)):
                raise ERRORS[name]
            case OpenSnapshot():
                return "a"
            case CheckSnapshot():
                return object()


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_requests_are_answered_until_there_is_nothing_to_hold(tmp_path: Path) -> None:
    folder = Folder(find_process(os.getpid()), tmp_path / "k")
    folder.make()
    answers: list[Any] = []

    def ask() -> None:
        check = CheckSnapshot(hold=Hold(name="h", txn=1))
        for request in (
            OpenSnapshot(place=MetastorePlace()),
            Release(snapshot="missing"),
            Release(snapshot="odd"),
            check,
        ):
            with connect(folder.socket) as connection:
                connection.send(encode(request))
                assert decode(connection.receive(), [Taken]) == Taken()
                answers.append(decode(connection.receive(), [str, Failure]))
        for garbage in (b"", b"\x80", encode(Taken()), encode("a text")):
            with connect(folder.socket) as connection:
                connection.send(garbage)
                answers.append(decode(connection.receive(), [Failure]))

    with OddDispatcher() as dispatcher, listen(folder.socket) as listening:
        asking = threading.Thread(target=ask)
        asking.start()
        server = KeeperServer(listening, dispatcher, folder, find_process(os.getpid()), idle_s=1.0)
        assert server.serve() == "there is nothing to hold"
        asking.join()
    assert answers[0] == "a"
    assert answers[1] == Failure(kind="NotFound", message="no table")
    assert answers[2].kind == "Unforeseen"
    assert "ValueError: odd" in answers[2].message
    assert [answer.kind for answer in answers[3:]] == ["BadMessage"] * 5
    assert not folder.socket.exists()


def test_a_signal_ends_it(tmp_path: Path) -> None:
    folder = Folder(find_process(os.getpid()), tmp_path / "k")
    folder.make()
    with OddDispatcher() as dispatcher, listen(folder.socket) as listening:
        server = KeeperServer(listening, dispatcher, folder, find_process(os.getpid()))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert server.serve() == "it got SIGTERM"


def test_it_ends_when_nobody_can_find_it(tmp_path: Path) -> None:
    folder = Folder(find_process(os.getpid()), tmp_path / "k")
    folder.make()
    with OddDispatcher() as dispatcher, listen(folder.socket) as listening:
        folder.socket.unlink()
        assert "its folder is gone" in KeeperServer(listening, dispatcher, folder, find_process(os.getpid())).serve()
