"""The identity of a file or directory (PROTOCOL 11.8)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compactor.storage import file_identity
from compactor.storage.no_links import parent


def identity(path: str) -> str:
    with parent(path) as (directory, name):
        return file_identity.identity(name, directory)


def test_it_stays_when_the_directory_is_renamed_or_filled(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.mkdir()
    before = identity(str(one))
    (one / "f").write_bytes(b"1")
    one.rename(tmp_path / "two")
    assert identity(str(tmp_path / "two")) == before


def test_what_is_made_again_under_the_same_name_is_another(tmp_path: Path) -> None:
    """Also where the file system gives the inode number out again, as ext4 does at once."""
    place = tmp_path / "delta_0000001_0000001_0000"
    found = set()
    for _ in range(50):
        place.mkdir()
        found.add(identity(str(place)))
        shutil.rmtree(place)
    assert len(found) == 50


def test_without_handles_the_inode_stands_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_identity, "_system_call", lambda: None)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    status = (tmp_path / "a").stat()
    assert identity(str(tmp_path / "a")) == f"{status.st_dev}:{status.st_ino}" != identity(str(tmp_path / "b"))


def test_a_link_is_itself(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert identity(str(tmp_path / "link")) != identity(str(tmp_path / "a"))


def test_nothing_has_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        identity(str(tmp_path / "gone"))
