"""Permissions of a directory applied to others, with nothing set twice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from compactor.storage.local_permissions import LocalPermissions


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    made.mkdir()
    made.chmod(0o2770)
    return made


def test_files_and_directories_get_its_mode(model: Path) -> None:
    (model / "d").mkdir()
    (model / "f").write_bytes(b"")
    like = LocalPermissions.of(str(model))
    like.apply_to(str(model / "d"))
    like.apply_to(str(model / "f"))
    assert (_mode(model / "d"), _mode(model / "f")) == (0o2770, 0o660)  # nobody executes a file


def test_equal_permissions_are_not_set_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "d").mkdir()
    like = LocalPermissions.of(str(model))
    like.apply_to(str(model / "d"))
    for call in ("chmod", "chown", "setxattr"):
        monkeypatch.setattr(os, call, lambda *_: pytest.fail("nothing is to be changed"))
    like.apply_to(str(model / "d"))


def test_an_owner_that_cannot_be_set_is_reported(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (model / "f").write_bytes(b"")
    like = LocalPermissions(path=str(model), user=os.getuid() + 1, group=os.getgid(), mode=0o750, acl={})

    def refused(path: str, user: int, group: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    like.apply_to(str(model / "f"))
    assert f"{model / 'f'}: owner and group of {model} cannot be given to it" in caplog.text
    assert _mode(model / "f") == 0o640  # the rest is


def test_setting_the_owner_clears_no_mode_bit(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "d").mkdir()
    like = LocalPermissions(path=str(model), user=os.getuid() + 1, group=os.getgid(), mode=0o2770, acl={})
    (model / "d").chmod(0o2770)
    monkeypatch.setattr(os, "chown", lambda path, user, group: os.chmod(path, 0o770))  # as Linux does to files
    like.apply_to(str(model / "d"))
    assert _mode(model / "d") == 0o2770


def test_acls_are_applied(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the calls only: not every file system that tests run on has ACLs."""
    lists = {"system.posix_acl_access": b"a", "system.posix_acl_default": b"d"}

    def got(path: str, attribute: str) -> bytes:
        assert path == str(model)
        return lists[attribute]

    given: list[tuple[str, str, bytes]] = []
    monkeypatch.setattr(os, "getxattr", got)
    monkeypatch.setattr(os, "setxattr", lambda *one: given.append(one))
    (model / "d").mkdir()
    (model / "f").write_bytes(b"")
    like = LocalPermissions.of(str(model))
    like.apply_to(str(model / "d"))
    like.apply_to(str(model / "f"))
    assert given == [(str(model / "d"), *one) for one in lists.items()] + [
        (str(model / "f"), "system.posix_acl_access", b"a")
    ]
