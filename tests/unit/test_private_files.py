from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.errors import BadSetting
from compactor.private_files import is_here, must_be_secret, read_found, read_secret, why_not_secret, why_not_trusted


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that nobody else may write."""
    made = tmp_path / "place"
    made.mkdir(mode=0o755)
    return made


def made(path: Path, mode: int, content: str = "x") -> Path:
    path.write_text(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600, 0o444])
def test_configuration_that_nobody_else_may_write_is_read(place: Path, mode: int) -> None:
    assert read_found(made(place / "compactor.toml", mode)) == "x"
    assert why_not_trusted(place / "compactor.toml") is None


def test_configuration_that_is_no_text_is_named(place: Path) -> None:
    (place / "compactor.toml").write_bytes(b"a\xff")
    with pytest.raises(BadSetting, match=r"compactor\.toml: is not UTF-8 at byte 1"):
        read_found(place / "compactor.toml")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o777])
def test_configuration_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    path = made(place / "compactor.toml", mode)
    with pytest.raises(BadSetting, match=rf"nobody named this file, and {path} may be written by others \(mode 0"):
        read_found(path)
    assert f"chmod go-w {path}" in (why_not_trusted(path) or "")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    path = made(place / "compactor.toml", 0o644)
    place.chmod(mode)
    with pytest.raises(BadSetting, match=rf"{place} may be written by others"):
        read_found(path)


def test_a_link_leads_to_what_is_checked_too(place: Path, tmp_path: Path) -> None:
    """The target, and the directory that it is in."""
    far = tmp_path / "far"
    far.mkdir()
    target = made(far / "real.toml", 0o644)
    (place / "compactor.toml").symlink_to(target)
    assert read_found(place / "compactor.toml") == "x"
    far.chmod(0o777)
    with pytest.raises(BadSetting, match=rf"{far} may be written by others"):
        read_found(place / "compactor.toml")
    far.chmod(0o755)
    target.chmod(0o666)
    with pytest.raises(BadSetting, match=rf"{target} may be written by others"):
        read_found(place / "compactor.toml")


@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling"])
def test_nobody_waits_for_what_is_no_file(place: Path, kind: str) -> None:
    path = place / "compactor.toml"
    {"pipe": os.mkfifo, "directory": os.mkdir, "dangling": lambda path: path.symlink_to("gone")}[kind](path)  # type: ignore[operator]
    with pytest.raises(BadSetting, match=r"compactor\.toml"):
        read_found(path)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o440])
def test_a_secret_of_a_narrow_mode_is_read(place: Path, mode: int) -> None:
    path = made(place / "password", mode)
    assert read_secret(path, "password_file") == b"x"
    must_be_secret(path, "keytab")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o601, 0o777, 0o650])
def test_a_secret_that_others_may_read_is_refused(place: Path, mode: int) -> None:
    path = made(place / "password", mode)
    wanted = rf"password_file {path}: has mode {mode:04o}; expected: 0600, or 0640"
    with pytest.raises(BadSetting, match=wanted):
        read_secret(path, "password_file")
    with pytest.raises(BadSetting, match=r"keytab .* has mode"):
        must_be_secret(path, "keytab")
    assert "has mode" in (why_not_secret(path) or "")


def test_a_secret_that_is_no_file_is_refused(place: Path) -> None:
    os.mkfifo(place / "pipe", mode=0o600)
    for path in (place / "pipe", place):
        with pytest.raises(BadSetting, match="is not a regular file"):
            read_secret(path, "password_file")


def test_what_is_not_there_is_left_to_who_reads_it(place: Path) -> None:
    must_be_secret(place / "gone", "keytab")
    assert why_not_secret(place / "gone") is None
    assert why_not_trusted(place / "gone") is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "/var/run", "@x"])
def test_this_machine(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize(
    "host", ["db", "localhost.example.com", "10.0.0.1", "0.0.0.0", "::", "127.0.0.1.evil.example", ""]
)
def test_another_machine(host: str) -> None:
    assert not is_here(host)
