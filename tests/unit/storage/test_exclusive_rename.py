"""A rename that never replaces its target (PROTOCOL 11.12)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from compactor.storage import exclusive_rename
from compactor.storage.no_links import parent


def rename(source: Path, target: Path) -> None:
    with parent(str(source)) as (source_directory, old), parent(str(target)) as (target_directory, new):
        exclusive_rename.rename(old, source_directory, new, target_directory)


@pytest.mark.parametrize("answer", [None, errno.EINVAL, errno.ENOSYS])
def test_a_target_that_exists_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | None) -> None:
    if answer is not None:
        monkeypatch.setattr(exclusive_rename, "_renameat2", lambda *names: answer)
    source, target = tmp_path / "delta_1", tmp_path / "delta_2"
    source.mkdir()
    target.mkdir()
    with pytest.raises(FileExistsError):
        rename(source, target)
    target.rmdir()
    rename(source, target)
    assert (source.exists(), target.is_dir()) == (False, True)


def test_a_source_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rename(tmp_path / "gone", tmp_path / "target")


def test_this_system_has_the_call() -> None:
    """The tests run on Linux with glibc; without the call the name would only be looked up first."""
    assert exclusive_rename._system_call() is not None
