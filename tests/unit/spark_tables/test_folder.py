"""Nobody else enters a keeper's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.errors import UnsafeDirectory
from compactor.spark_tables.application import Process, process
from compactor.spark_tables.folder import Folder

GONE = Process(pid=2**22 + 1, started=1)


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = Folder(GONE, tmp_path / "root")
    folder.make()
    folder.make()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    with folder.locked():
        assert folder.socket.parent == folder.log.parent == folder.path


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    with pytest.raises(UnsafeDirectory, match="nobody else may enter"):
        Folder(GONE, root).make()


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeDirectory):
        Folder(GONE, root).make()


def test_old_folders_go_with_their_applications(tmp_path: Path) -> None:
    root = tmp_path / "root"
    mine, gone = Folder(process(os.getpid()), root), Folder(GONE, root)
    young = Folder(Process(pid=GONE.pid, started=2), root)
    for folder in (mine, gone, young):
        folder.make()
    for folder in (mine, gone):
        os.utime(folder.path, (0, 0))
    mine.remove_old()
    assert mine.path.exists()
    assert young.path.exists()
    assert not gone.path.exists()
