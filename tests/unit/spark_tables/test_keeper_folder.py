"""Nobody else makes a name in a keeper's folder, or puts something in its place."""

from __future__ import annotations

import grp
import os
import pwd
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.base.errors import UnsafeDirectory
from compactor.spark_tables import keeper_folder as folders
from compactor.spark_tables.driver_jvm import Process, find_process
from compactor.spark_tables.keeper_folder import RUNTIME, Folder, check_private, find_root

GONE = Process(pid=2**22 + 1, started=1)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for /tmp."""
    path = tmp_path / "tmp"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setattr(folders, "_SHARED", path)
    monkeypatch.delenv(RUNTIME, raising=False)
    return path


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = Folder(GONE, tmp_path / "root")
    folder.make()
    folder.make()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    with folder.locked(), folder.open_log() as log:
        log.write(b"a line\n")
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {
        "lock": 0o600,
        "keeper.log": 0o600,
    }


def test_a_folder_that_is_not_there_is_not_an_unsafe_one(tmp_path: Path) -> None:
    folder = Folder(GONE, tmp_path / "root")
    with pytest.raises(FileNotFoundError):
        folder.check()
    folder.make()
    folder.path.rmdir()
    with pytest.raises(FileNotFoundError):
        folder.check()


def widen_root(folder: Folder) -> None:
    folder.path.parent.chmod(0o755)


def widen(folder: Folder) -> None:
    folder.path.chmod(0o710)


def open_the_level_above(folder: Folder) -> None:
    folder.path.parent.parent.chmod(0o777)


def let_a_group_write_above(folder: Folder) -> None:
    folder.path.parent.parent.chmod(0o770)


def link(folder: Folder) -> None:
    folder.path.rename(folder.path.with_name("elsewhere"))
    folder.path.symlink_to("elsewhere")


def link_root(folder: Folder) -> None:
    root = folder.path.parent
    root.rename(root.with_name("elsewhere"))
    root.symlink_to("elsewhere")


def link_above(folder: Folder) -> None:
    above = folder.path.parent.parent
    above.rename(above.with_name("elsewhere"))
    above.symlink_to("elsewhere")


def put_a_file(folder: Folder) -> None:
    folder.path.rmdir()
    folder.path.touch(mode=0o700)


@pytest.mark.parametrize(
    "change",
    [widen_root, widen, open_the_level_above, let_a_group_write_above, link, link_root, link_above, put_a_file],
)
def test_what_others_could_exchange_is_refused(
    change: Callable[[Folder], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = grp.struct_group(("ours", "x", os.getegid(), ["ann"]))
    monkeypatch.setattr(grp, "getgrall", lambda: [group])
    folder = Folder(GONE, tmp_path / "above" / "root")
    (tmp_path / "above").mkdir(mode=0o755)
    folder.make()
    change(folder)
    for ask in (folder.check, folder.make):
        with pytest.raises(UnsafeDirectory, match=f"expected a directory of .*; found .* of user .*{RUNTIME}"):
            ask()


def test_a_group_of_ones_own_may_write_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a umask of 002, where each user has a group of their own."""
    own = pwd.struct_passwd(("me", "x", os.geteuid(), os.getegid(), "", "/", ""))
    monkeypatch.setattr(pwd, "getpwall", lambda: [own])
    monkeypatch.setattr(grp, "getgrall", list)
    folder = Folder(GONE, tmp_path / "above" / "root")
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(0o775)
    folder.make()
    folder.check()


def test_a_directory_in_which_each_name_is_its_owners_may_lie_above(shared: Path) -> None:
    Folder(GONE).make()
    check_private(shared / f"compactor-keeper-{os.geteuid()}")


def test_another_users_directory_is_not_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UnsafeDirectory, match="of user"):
        check_private(tmp_path / "d")


def test_the_folder_lies_where_the_system_gives_the_user_a_directory(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_shared = shared / f"compactor-keeper-{os.geteuid()}"
    with tempfile.TemporaryDirectory(prefix="run", dir="/tmp") as short:
        runtime = Path(short)
        monkeypatch.setenv(RUNTIME, short)
        assert find_root() == runtime / "compactor-keeper"
        for mode in (0o750, 0o701):
            runtime.chmod(mode)
            assert find_root() == in_shared
        runtime.chmod(0o700)
        (tmp_path / "link").symlink_to(runtime)
        for other in ("run", "", str(runtime / "none"), str(tmp_path / "link")):
            monkeypatch.setenv(RUNTIME, other)
            assert find_root() == in_shared
        long = runtime / ("long" * 20)
        long.mkdir(mode=0o700)
        monkeypatch.setenv(RUNTIME, str(long))
        assert find_root() == in_shared  # a socket's name has 107 bytes at most


def test_a_name_that_is_taken_is_left_to_whoever_took_it(shared: Path) -> None:
    name = f"compactor-keeper-{os.geteuid()}"
    (shared / name).mkdir(mode=0o755)
    assert find_root() == shared / f"{name}.1"
    (shared / f"{name}.1").symlink_to("/")
    Folder(GONE).make()
    assert find_root() == shared / f"{name}.2"
    (shared / name).rmdir()
    assert find_root() == shared / f"{name}.2"


def test_where_every_name_is_taken_the_first_one_is_named(shared: Path) -> None:
    for number in range(20):
        (shared / f"compactor-keeper-{os.geteuid()}{f'.{number}' if number else ''}").touch()
    with pytest.raises(UnsafeDirectory, match=rf"tmp/compactor-keeper-{os.geteuid()}: expected"):
        Folder(GONE).make()


def test_old_folders_go_with_their_applications(tmp_path: Path) -> None:
    root = tmp_path / "root"
    mine, gone = Folder(find_process(os.getpid()), root), Folder(GONE, root)
    young = Folder(Process(pid=GONE.pid, started=2), root)
    for folder in (mine, gone, young):
        folder.make()
    for folder in (mine, gone):
        os.utime(folder.path, (0, 0))
    mine.remove_old()
    assert mine.path.exists()
    assert young.path.exists()
    assert not gone.path.exists()
