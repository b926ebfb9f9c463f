"""Paths in which no link is followed (PROTOCOL 11.13)."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.base.errors import UnsafeDirectory
from compactor.storage import no_links
from compactor.storage.no_links import NEW, directory, kind_of, open_path, parent, reading, regular


@pytest.fixture(params=["openat2", "name by name"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 5.6, and some containers, have no ``openat2``."""
    assert no_links._openat2 is not None
    if request.param != "openat2":
        monkeypatch.setattr(no_links, "_openat2", None)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_bytes(b"rows")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "file link").symlink_to(tmp_path / "d" / "e" / "f")
    (tmp_path / "d" / "loop").symlink_to("loop")
    before = len(os.listdir("/proc/self/fd"))
    yield tmp_path
    assert len(os.listdir("/proc/self/fd")) == before  # no descriptor is left open


def test_a_path_without_links_is_opened(tree: Path) -> None:
    with reading(f"{tree}/d/e/f") as descriptor:
        assert os.read(descriptor, 9) == b"rows"
    with directory(f"{tree}//d/./e") as descriptor:
        assert os.listdir(descriptor) == ["f"]
    with parent(f"{tree}/d/e/new") as (above, name):
        assert (name, os.stat("f", dir_fd=above).st_size) == ("new", 4)
    with directory("/"):
        pass


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("link", "link"),
        ("link/e/f", "link"),
        ("link/e", "link"),
        ("d/file link", "d/file link"),
        ("d/loop", "d/loop"),
        ("d/loop/x", "d/loop"),
    ],
)
def test_a_link_anywhere_is_named(tree: Path, path: str, link: str) -> None:
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY):
        with pytest.raises(UnsafeDirectory, match=rf"/{link}: is a link; only regular files and directories"):
            open_path(f"{tree}/{path}", flags)
    with pytest.raises((UnsafeDirectory, FileExistsError)):
        open_path(f"{tree}/{path}", NEW, 0o600)
    assert {p.name for p in (tree / "d" / "e").iterdir()} == {"f"}


def test_what_is_there_already_is_never_opened_as_new(tree: Path) -> None:
    for name in ("d/e/f", "d/file link", "d/loop"):
        with pytest.raises((FileExistsError, UnsafeDirectory)):
            open_path(f"{tree}/{name}", NEW, 0o600)
    assert (tree / "d" / "e" / "f").read_bytes() == b"rows"
    os.close(open_path(f"{tree}/d/new", NEW, 0o600))
    assert (tree / "d" / "new").stat().st_mode & 0o777 == 0o600


def test_what_is_not_there_is_not_found(tree: Path) -> None:
    for path in ("gone", "gone/f", "d/e/gone"):
        with pytest.raises(FileNotFoundError):
            open_path(f"{tree}/{path}", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        open_path(f"{tree}/d/e/f/below", os.O_RDONLY)


def test_a_name_ends_nowhere_but_at_its_end(tree: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        open_path(f"{tree}/d/e/f\0.orc", os.O_RDONLY)


def test_only_regular_files_are_read(tree: Path) -> None:
    """A pipe without a writer would hold up whoever opens it."""
    os.mkfifo(tree / "pipe")
    os.mknod(tree / "s", stat.S_IFSOCK | 0o600)
    for name, kind in (("pipe", "a pipe"), ("d", "a directory"), ("s", "a socket or a device")):
        with pytest.raises(UnsafeDirectory, match=rf"/{name}: is {kind}; only regular files and directories"):
            regular(f"{tree}/{name}")
    assert kind_of((tree / "s").stat().st_mode) == "a socket"
    assert kind_of(Path("/dev/null").stat().st_mode) == "a device"


def test_a_directory_that_turns_into_a_link_and_back_is_never_followed(tree: Path) -> None:
    """PROTOCOL 11.13: between a look and a use nothing can be swapped, since there is no look."""
    (tree / "secret").mkdir()
    (tree / "secret" / "f").write_bytes(b"secret")
    (tree / "t").mkdir()
    (tree / "t" / "d").mkdir()
    (tree / "t" / "d" / "f").write_bytes(b"rows")
    ends = threading.Event()

    def swap() -> None:
        while not ends.is_set():
            os.rename(tree / "t" / "d", tree / "t" / "away")
            os.symlink(tree / "secret", tree / "t" / "d")
            os.unlink(tree / "t" / "d")
            os.rename(tree / "t" / "away", tree / "t" / "d")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[object] = set()
    try:
        while not ({b"rows"} < seen and len(seen) > 1):
            try:
                with reading(f"{tree}/t/d/f") as descriptor:
                    seen.add(os.read(descriptor, 9))
            except (OSError, UnsafeDirectory) as error:
                seen.add(type(error))
    finally:
        ends.set()
        swapper.join()
    assert b"secret" not in seen
