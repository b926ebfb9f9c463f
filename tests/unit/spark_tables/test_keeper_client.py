"""Requests to a keeper that ends: nothing was done before it took one, and of a commit that it took nobody knows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compactor.base.errors import BadMessage, CommitUnknown, NotFound, SnapshotExpired, StorageError, TransactionAborted
from compactor.rewrite.run.failure import Failure
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import (
    AbortWrite,
    CheckSnapshot,
    CommitWrite,
    Hold,
    LatestCommits,
    MetastorePlace,
    Release,
    Taken,
)
from compactor.spark_tables.local_socket import KeeperConnection, accept, listen
from compactor.spark_tables.message_bytes import encode

HOLD = Hold(name="h", txn=7)
COMMIT = CommitWrite(hold=HOLD, parts=())


@contextmanager
def keeper_that(does: Callable[[KeeperConnection], object], root: Path) -> Iterator[Keeper]:
    """Yields the client of a keeper that ``does`` something with the first connection, and then ends."""
    application = find_process(os.getpid())
    folder = Folder(application, root)
    folder.make()
    with listen(folder.socket) as listening:

        def serve() -> None:
            connection = accept(listening)
            assert connection is not None
            with connection:
                does(connection)

        serving = threading.Thread(target=serve)
        serving.start()
        yield Keeper(application, folder)
        serving.join()


def ends(_connection: KeeperConnection) -> None:
    """Ends before it has looked at the request."""


def takes(connection: KeeperConnection) -> None:
    """Ends while it works on the request."""
    connection.receive()
    connection.send(encode(Taken()))


def answers(*messages: bytes) -> Callable[[KeeperConnection], None]:
    """Returns what takes a request, and sends ``messages``."""

    def answer(connection: KeeperConnection) -> None:
        connection.receive()
        for message in messages:
            connection.send(message)

    return answer


def test_a_commit_that_no_keeper_took_is_none(tmp_path: Path) -> None:
    with keeper_that(ends, tmp_path) as keeper, pytest.raises(TransactionAborted, match=r"7.*nothing was committed"):
        keeper.ask(COMMIT)


def test_nobody_knows_of_a_commit_that_was_taken(tmp_path: Path) -> None:
    with (
        keeper_that(takes, tmp_path) as keeper,
        pytest.raises(CommitUnknown, match=r"7.*check whether the rows are there"),
    ):
        keeper.ask(COMMIT)


@pytest.mark.parametrize("does", [ends, takes])
def test_a_snapshot_is_lost_with_its_keeper(does: Callable[[KeeperConnection], object], tmp_path: Path) -> None:
    with keeper_that(does, tmp_path) as keeper, pytest.raises(SnapshotExpired, match=r"7.*read the table again"):
        keeper.ask(CheckSnapshot(hold=HOLD))


@pytest.mark.parametrize("request_", [Release(snapshot="s"), AbortWrite(hold=HOLD)])
def test_there_is_nothing_to_let_go_of_where_there_is_no_keeper(request_: Release | AbortWrite, tmp_path: Path) -> None:
    with keeper_that(ends, tmp_path) as keeper:
        assert keeper.ask(request_) == 0
    with keeper_that(takes, tmp_path) as keeper, pytest.raises(StorageError, match="will time out"):
        keeper.ask(request_)


def test_an_answer_of_another_kind_is_refused(tmp_path: Path) -> None:
    request = LatestCommits(place=MetastorePlace(), table="d.t")
    with (
        keeper_that(answers(encode(Taken()), encode("a text")), tmp_path) as keeper,
        pytest.raises(BadMessage, match="a message 'str'; expected SeenCommits or Failure"),
    ):
        keeper.ask(request)
    with (
        keeper_that(answers(encode(3)), tmp_path) as keeper,
        pytest.raises(BadMessage, match="expected Taken or Failure"),
    ):
        keeper.ask(request)


def test_nobody_knows_of_a_commit_whose_answer_is_garbage(tmp_path: Path) -> None:
    with (
        keeper_that(answers(encode(Taken()), b"\xc1 garbage"), tmp_path) as keeper,
        pytest.raises(CommitUnknown, match="cannot be understood"),
    ):
        keeper.ask(COMMIT)


def test_an_error_is_raised_as_what_it_is(tmp_path: Path) -> None:
    gone = encode(Failure.from_error(NotFound("table d.t does not exist")))
    with keeper_that(answers(gone), tmp_path) as keeper, pytest.raises(NotFound, match=r"table d\.t does not exist"):
        keeper.ask(COMMIT)


def test_a_request_that_cannot_be_sent_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    keeper = Keeper(find_process(os.getpid()), Folder(find_process(os.getpid()), tmp_path))
    with pytest.raises(BadMessage, match="CommitWrite cannot be sent"):
        keeper.ask(CommitWrite(hold=Hold(name="\udcff", txn=7), parts=()))
