"""Requests to a keeper that ends: nothing was done before it took one, and of a commit that it took nobody knows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from compactor.errors import CommitUnknown, SnapshotExpired, StorageError, TransactionAborted
from compactor.spark_tables.application import process
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.folder import Folder
from compactor.spark_tables.messages import AbortWrite, CheckSnapshot, CommitWrite, Hold, Release, Taken
from compactor.spark_tables.wire import accept, listen

HOLD = Hold(name="h", txn=7)
COMMIT = CommitWrite(hold=HOLD, parts=())


@contextmanager
def keeper_that(does: Callable[[Connection], object], root: Path) -> Iterator[Keeper]:
    """Yields the client of a keeper that ``does`` something with the first connection, and then ends."""
    application = process(os.getpid())
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


def ends(_connection: Connection) -> None:
    """Ends before it has looked at the request."""


def takes(connection: Connection) -> None:
    """Ends while it works on the request."""
    connection.recv()
    connection.send(Taken())


def test_a_commit_that_no_keeper_took_is_none(tmp_path: Path) -> None:
    with keeper_that(ends, tmp_path) as keeper, pytest.raises(TransactionAborted, match=r"7.*nothing was committed"):
        keeper.ask(COMMIT)


def test_nobody_knows_of_a_commit_that_was_taken(tmp_path: Path) -> None:
    with (
        keeper_that(takes, tmp_path) as keeper,
        pytest.raises(CommitUnknown, match=r"7.*look whether the rows are there"),
    ):
        keeper.ask(COMMIT)


@pytest.mark.parametrize("does", [ends, takes])
def test_a_snapshot_is_lost_with_its_keeper(does: Callable[[Connection], object], tmp_path: Path) -> None:
    with keeper_that(does, tmp_path) as keeper, pytest.raises(SnapshotExpired, match=r"7.*read the table anew"):
        keeper.ask(CheckSnapshot(hold=HOLD))


@pytest.mark.parametrize("request_", [Release(snapshot="s"), AbortWrite(hold=HOLD)])
def test_there_is_nothing_to_let_go_of_where_there_is_no_keeper(request_: Release | AbortWrite, tmp_path: Path) -> None:
    with keeper_that(ends, tmp_path) as keeper:
        assert keeper.ask(request_) == 0
    with keeper_that(takes, tmp_path) as keeper, pytest.raises(StorageError, match="times out"):
        keeper.ask(request_)
