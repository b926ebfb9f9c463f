from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import BadFile, StorageError, UnsafeDirectory
from compactor.storage import file_identity, local_tree
from compactor.storage.local import LocalStorage


def fill(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"1")


def test_what_readers_skip_is_part_of_it(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "p=1/delta_1_1/bucket_00000",
        "p=1/_hidden/delta_2_2/_side",
        ".snapshot/old/base_1/bucket_00000",
        "000000_0",
    )
    (tmp_path / "empty").mkdir()
    found = LocalStorage().tree(str(tmp_path))
    assert found.directories == ("empty", "p=1", "p=1/_hidden", "p=1/_hidden/delta_2_2", "p=1/delta_1_1")
    assert found.files == {"": 1, "p=1/delta_1_1": 1}
    assert found.links == ()


def test_links_are_not_followed_but_the_locations_own(tmp_path: Path) -> None:
    real = tmp_path / "real"
    fill(real, "delta_1_1/bucket_00000", "elsewhere/base_1/bucket_00000")
    (real / "away").symlink_to(tmp_path / "nowhere")
    (real / "p=1").symlink_to(real / "elsewhere")
    (real / "000000_0").symlink_to(real / "delta_1_1" / "bucket_00000")
    (tmp_path / "t").symlink_to(real)
    found = LocalStorage().tree(LocalStorage().resolve(str(tmp_path / "t")))
    assert found == LocalStorage().tree(str(real))
    assert found.links == ("000000_0", "away", "p=1")
    assert found.files == {"delta_1_1": 1, "elsewhere/base_1": 1}
    assert LocalStorage().anchor(str(real)) == found.anchor
    with pytest.raises(UnsafeDirectory, match=r"/t: is a link"):
        LocalStorage().tree(str(tmp_path / "t"))


def test_a_location_must_be_a_directory(tmp_path: Path) -> None:
    fill(tmp_path, "file")
    for name in ("gone", "file"):
        with pytest.raises(BadFile, match="restore it, or drop the partition"):
            LocalStorage().tree(str(tmp_path / name))
    assert LocalStorage().anchor(str(tmp_path / "gone")) is None


def test_another_directory_under_its_name_has_another_anchor(tmp_path: Path) -> None:
    """PROTOCOL 11.11: ext4 reuses inode numbers at once."""
    place = tmp_path / "t"
    place.mkdir()
    before = LocalStorage().anchor(str(place))
    place.rmdir()
    place.mkdir()
    after = LocalStorage().anchor(str(place))
    assert before is not None
    assert after is not None
    assert (before.volume, before.identity != after.identity) == (after.volume, True)


def test_without_handles_an_identity_survives_a_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 11.11: NFS has another device number after each mount."""
    monkeypatch.setattr(file_identity, "_system_call", lambda: None)
    found = LocalStorage().anchor(str(tmp_path))
    assert found is not None
    assert (found.volume, found.identity) == (f"file:{os.stat(tmp_path).st_dev}", f"inode {os.stat(tmp_path).st_ino}")


def test_a_directory_that_is_replaced_meanwhile_is_looked_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    fill(place, "delta_1_1/bucket_00000")
    scan = os.scandir
    calls: list[Any] = []

    def replacing(path: Any) -> Any:
        found = scan(path)
        calls.append(path)
        if len(calls) == 2:  # the top, the delta
            shutil.rmtree(place)
            fill(place, "delta_2_2/bucket_00000")
        return found

    monkeypatch.setattr(local_tree.os, "scandir", replacing)
    assert LocalStorage().tree(str(place)).directories == ("delta_2_2",)


def test_what_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "p=1/delta_1_1/bucket_00000")
    scan = os.scandir

    def failing(path: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{path}").endswith("p=1"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(local_tree.os, "scandir", failing)
    with pytest.raises(StorageError, match="Permission denied"):
        LocalStorage().tree(str(tmp_path))


def test_a_very_deep_tree_is_no_trouble(tmp_path: Path) -> None:
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(before)
        assert len(LocalStorage().tree(str(tmp_path)).directories) == 1500
    finally:
        os.chdir(before)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # shutil.rmtree gives up
