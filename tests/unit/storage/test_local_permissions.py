"""Permissions of a directory applied to others, with nothing set twice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from compactor.base.errors import UnsafeDirectory
from compactor.base.identities import process_user
from compactor.storage.local_permissions import LocalPermissions, must_be_private


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    made.mkdir()
    made.chmod(0o2770)
    return made


def apply(permissions: LocalPermissions, path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        permissions.apply_to(descriptor, str(path))
    finally:
        os.close(descriptor)


def test_files_and_directories_get_its_mode(model: Path) -> None:
    (model / "d").mkdir()
    (model / "f").write_bytes(b"")
    like = LocalPermissions.read_from(str(model))
    apply(like, model / "d")
    apply(like, model / "f")
    assert (_mode(model / "d"), _mode(model / "f")) == (0o2770, 0o660)  # nobody executes a file


def test_equal_permissions_are_not_set_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "d").mkdir()
    like = LocalPermissions.read_from(str(model))
    apply(like, model / "d")
    for call in ("fchmod", "fchown", "setxattr"):
        monkeypatch.setattr(os, call, lambda *_: pytest.fail("nothing is to be changed"))
    apply(like, model / "d")


def test_an_owner_that_cannot_be_set_is_reported(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (model / "f").write_bytes(b"")
    like = LocalPermissions(path=str(model), user=os.getuid() + 1, group=os.getgid(), mode=0o750, acl={})

    def refused(descriptor: int, user: int, group: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    apply(like, model / "f")
    assert f"{model / 'f'}: owner and group of {model} cannot be given to it" in caplog.text
    assert _mode(model / "f") == 0o640  # the rest is


def test_setting_the_owner_clears_no_mode_bit(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "d").mkdir()
    like = LocalPermissions(path=str(model), user=os.getuid() + 1, group=os.getgid(), mode=0o2770, acl={})
    (model / "d").chmod(0o2770)
    monkeypatch.setattr(os, "fchown", lambda descriptor, *_: os.fchmod(descriptor, 0o770))  # as Linux does to files
    apply(like, model / "d")
    assert _mode(model / "d") == 0o2770


def test_acls_are_applied(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the calls only: not every file system that tests run on has ACLs."""
    lists = {"system.posix_acl_access": b"a", "system.posix_acl_default": b"d"}

    def path_of(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def got(descriptor: int, attribute: str) -> bytes:
        assert path_of(descriptor) == str(model)
        return lists[attribute]

    given: list[tuple[str, str, bytes]] = []
    monkeypatch.setattr(os, "getxattr", got)
    monkeypatch.setattr(os, "setxattr", lambda descriptor, *one: given.append((path_of(descriptor), *one)))
    (model / "d").mkdir()
    (model / "f").write_bytes(b"")
    like = LocalPermissions.read_from(str(model))
    apply(like, model / "d")
    apply(like, model / "f")
    assert given == [(str(model / "d"), *one) for one in lists.items()] + [
        (str(model / "f"), "system.posix_acl_access", b"a")
    ]


def test_a_file_with_another_name_somewhere_is_left_alone(model: Path) -> None:
    (model / "f").write_bytes(b"")
    os.link(model / "f", model.parent / "secret")
    like = LocalPermissions.read_from(str(model))
    before = _mode(model / "f")
    with pytest.raises(UnsafeDirectory, match=r"/f: is a regular file with 2 names"):
        apply(like, model / "f")
    assert _mode(model / "f") == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_no_attempt_writes_is_refused(model: Path, kind: str) -> None:
    (model / "out" / "d").mkdir(parents=True)
    secret = model.parent / "secret"
    secret.write_bytes(b"")
    secret.chmod(0o600)
    planted = model / "out" / "d" / "bucket_00000"
    planted.symlink_to(secret) if kind == "link" else os.mkfifo(planted)
    descriptor = os.open(model / "out", os.O_RDONLY)
    with pytest.raises(UnsafeDirectory, match=rf"/d/bucket_00000: is a {kind}"):
        LocalPermissions.read_from(str(model)).apply_below(descriptor, str(model / "out"))
    os.close(descriptor)
    assert _mode(secret) == 0o600


def private(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        must_be_private(descriptor, str(path))
    finally:
        os.close(descriptor)


def test_a_directory_is_private_if_it_is_ours_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o700)
    private(ours)
    ours.chmod(0o710)
    with pytest.raises(UnsafeDirectory, match=r"ours: belongs to user \S+ with mode 710"):
        private(ours)
    ours.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # as on a server that numbers users otherwise
    private(ours)
    assert list(ours.iterdir()) == []


def test_where_modes_are_not_kept_none_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares of other systems show one mode for everything."""
    fstat = os.fstat

    def everything_is_777(descriptor: int) -> os.stat_result:
        found = list(fstat(descriptor))
        found[0] |= 0o777
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", everything_is_777)
    private(tmp_path)


def test_another_users_directory_is_not_private(tmp_path: Path) -> None:
    theirs = Path("/")  # without rights over other users, nothing else is somebody else's
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir(mode=0o700)
        os.chown(theirs, 65534, 65534)
    with pytest.raises(UnsafeDirectory, match=rf": belongs to user .* expected .* user {process_user()} made"):
        private(theirs)
