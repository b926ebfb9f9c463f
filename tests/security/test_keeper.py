"""A real second user of the driver's host, who knows where keepers listen and how they are asked."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import NoneType

import pytest

from compactor.base.errors import ForeignProcess, SnapshotExpired, UnsafeDirectory
from compactor.base.identities import process_user
from compactor.spark_tables import keeper_folder as folders
from compactor.spark_tables.driver_jvm import Process, find_process
from compactor.spark_tables.keeper.dispatch import Dispatcher
from compactor.spark_tables.keeper.server import KeeperServer
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import RUNTIME, Folder
from compactor.spark_tables.keeper_requests import Active, CheckSnapshot, Hold, MetastorePlace, OpenSnapshot, Taken
from compactor.spark_tables.local_socket import accept, connect, listen
from compactor.spark_tables.message_bytes import decode, encode
from tests.support import second_user

pytestmark = pytest.mark.skipif(not second_user.may_act(), reason="needs root, or sudo without a password")

CHECK = CheckSnapshot(hold=Hold(name="h", txn=7))
#: Listens at $1, says so, and says then how many bytes the first who connects has sent.
LISTEN = """exec python3 -c '
import os, socket, sys
os.umask(0)
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
print(len(listening.accept()[0].recv(100)), flush=True)
' "$1" """
#: Connects to $1, sends, and says how many bytes came back.
SEND = """exec python3 -c '
import socket, sys
connected = socket.socket(socket.AF_UNIX)
connected.connect(sys.argv[1])
try:
    connected.sendall(bytes(100))
    print(len(connected.recv(100)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
' "$1" """


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that stands for /tmp, where both users may make names."""
    with tempfile.TemporaryDirectory(prefix="compactor-shared-", dir="/var/tmp") as name:
        Path(name).chmod(0o1777)
        monkeypatch.setattr(folders, "_SHARED", Path(name))
        monkeypatch.delenv(RUNTIME, raising=False)
        yield Path(name)


@pytest.fixture
def application() -> Process:
    return find_process(os.getpid())


@pytest.fixture
def _sigterm() -> Iterator[None]:
    """The loop of a keeper sets what a signal does to its process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def listens(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Has the second user listen at ``path`` until the block ends, even if nobody connects."""
    with second_user.start(LISTEN, str(path)) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        try:
            yield listener
        finally:
            listener.kill()


def heard(listener: subprocess.Popen[str]) -> str:
    """Returns what a listener says that nobody has connected to any longer."""
    listener.kill()
    return listener.communicate()[0]


@pytest.mark.parametrize("mode", ["755", "777", "700"])
def test_a_folder_that_was_made_beforehand_is_not_believed(mode: str, shared: Path, application: Process) -> None:
    """Process id and start of an application are public, and so is the name of its keeper's folder."""
    taken = Folder(application)
    done = second_user.act('umask 000 && mkdir -p "$1"', str(taken.path))
    assert done.returncode == 0, done.stderr
    with listens(taken.socket) as listener:
        second_user.act('chmod "$2" "$1" "$1/.."', str(taken.path), mode)
        for keeper in (Keeper(application, taken), Keeper(application, Folder(application, taken.path.parent))):
            with pytest.raises(
                UnsafeDirectory, match=rf"{taken.path.parent}: expected a directory of user {process_user()}"
            ):
                keeper.ask(CHECK)
            with pytest.raises(UnsafeDirectory):
                keeper.ask(OpenSnapshot(place=MetastorePlace()))
        assert Folder(application).path.parent == taken.path.parent.with_name(f"{taken.path.parent.name}.1")
        with pytest.raises(SnapshotExpired):
            Keeper(application).ask(CHECK)
        assert heard(listener) == ""


def test_a_link_is_not_followed_even_to_a_folder_of_ones_own(shared: Path, application: Process) -> None:
    first = Folder(application).path.parent
    (shared / "own").mkdir(mode=0o700)
    done = second_user.act('ln -s "$1" "$2"', str(shared / "own"), str(first))
    assert done.returncode == 0, done.stderr
    with pytest.raises(UnsafeDirectory):
        Folder(application, first).make()
    Folder(application).make()
    assert [path.name for path in shared.iterdir() if path.is_dir() and not path.is_symlink()] == [
        "own",
        f"{first.name}.1",
    ]
    assert list((shared / "own").iterdir()) == []


def test_a_folder_below_another_users_directory_is_refused(shared: Path, application: Process) -> None:
    """Whoever owns a directory may exchange what is in it."""
    second_user.act('mkdir -m 777 "$1"', str(shared / "theirs"))
    (shared / "theirs/root").mkdir(mode=0o700)
    with pytest.raises(UnsafeDirectory, match=rf"{shared}/theirs: expected a directory of root or user"):
        Folder(application, shared / "theirs/root").make()


def test_no_byte_is_sent_to_another_users_process(shared: Path) -> None:
    with listens(shared / "socket") as listener:
        with pytest.raises(ForeignProcess, match="Nothing was sent to it"):
            connect(shared / "socket")
        assert listener.communicate()[0] == "0\n"


def test_no_byte_is_read_of_another_users_process(shared: Path) -> None:
    with listen(shared / "socket") as listening:
        (shared / "socket").chmod(0o777)
        # A connection that is not refused ends with the block: the sender waits for an answer.
        with second_user.start(SEND, str(shared / "socket")) as sender, accept(listening) or nullcontext() as accepted:
            assert accepted is None
            assert sender.communicate()[0] == "0\n"


@pytest.mark.usefixtures("_sigterm")
def test_a_keeper_answers_its_own_user_alone(shared: Path, application: Process) -> None:
    """Its loop, at a socket that everybody may connect to: another user gets no byte, and the next request is answered."""
    folder = Folder(application)
    folder.make()
    folder.socket.touch()
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(second_user.act(SEND, str(shared / "socket")).stdout)
            with connect(shared / "socket") as connection:
                connection.send(encode(Active()))
                answers.append(decode(connection.receive(), [Taken]))
                answers.append(decode(connection.receive(), [NoneType]))
        finally:
            folder.socket.unlink()

    with Dispatcher() as dispatcher, listen(shared / "socket") as listening:
        (shared / "socket").chmod(0o777)
        asking = threading.Thread(target=ask)
        asking.start()
        assert "its folder is gone" in KeeperServer(listening, dispatcher, folder, application).serve()
        asking.join()
    assert answers == ["0\n", Taken(), None]


def test_a_folder_lets_nobody_else_in(shared: Path, application: Process) -> None:
    folder = Folder(application)
    folder.make()
    with listen(folder.socket), folder.locked(), folder.open_log():
        for script in ('ls "$1"', 'cat "$1/keeper.log"', 'touch "$1/planted"', 'mv "$1" "$1.away"', 'rm -r "$1"', SEND):
            target = folder.socket if script == SEND else folder.path
            done = second_user.act(script, str(target))
            assert done.returncode != 0, script
            assert "Permission denied" in done.stderr, done.stderr
        assert second_user.act('mv "$1" "$1.away"', str(folder.path.parent)).returncode != 0
    assert sorted(path.name for path in folder.path.iterdir()) == ["keeper.log", "lock", "socket"]
