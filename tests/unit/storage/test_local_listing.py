"""Walks over directories that a stranger has filled (PROTOCOL 11.13)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, UnsafeDirectory
from compactor.storage.build_listing import ListingLimits
from compactor.storage.local import LocalStorage
from tests.support.hostile import nest, remove_tree

STORAGE = LocalStorage()


def plant(kind: str, path: Path, outside: Path) -> None:
    """Puts something at ``path`` that is no regular file."""
    match kind:
        case "link to a file":
            path.symlink_to(outside / "secret")
        case "link to a directory":
            path.symlink_to(outside)
        case "link to nothing":
            path.symlink_to(outside / "nowhere")
        case "loop":
            path.symlink_to(path.name)
        case "pipe":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)


KINDS = ("link to a file", "link to a directory", "link to nothing", "loop", "pipe", "socket")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "o"
    (made / "delta_0000001_0000001").mkdir(parents=True)
    (made / "secret").write_bytes(b"secret")
    return made


@pytest.fixture
def table(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    (made / "delta_0000001_0000001").mkdir(parents=True)
    (made / "delta_0000001_0000001" / "bucket_00000").write_bytes(b"1")
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "base_0000001",
        "000000_0",
        "delta_0000001_0000001/bucket_00001",
        "delta_0000001_0000001/_orc_acid_version",
        "delta_0000001_0000001/_metadata_acid",
        "delta_0000001_0000001/.hidden",
    ],
)
def test_what_is_no_file_is_named_and_refused(table: Path, outside: Path, kind: str, name: str) -> None:
    plant(kind, table / name, outside)
    with pytest.raises(UnsafeDirectory, match=rf"{name}: is a (link|pipe|socket); only regular files and directories"):
        STORAGE.listing(str(table))


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_every_reader_skips_are_not_even_looked_at(table: Path, outside: Path, kind: str) -> None:
    plant(kind, table / ".compactor_v7", outside)
    plant(kind, table / ".hive-staging", outside)
    (table / "delta_0000001_0000001" / "_tmp").mkdir()
    plant(kind, table / "delta_0000001_0000001" / "_tmp" / "x", outside)
    assert [file.path for file in STORAGE.listing(str(table)).files] == ["delta_0000001_0000001/bucket_00000"]


@pytest.mark.parametrize("kind", KINDS)
def test_removing_removes_the_thing_and_not_what_it_leads_to(table: Path, outside: Path, kind: str) -> None:
    plant(kind, table / ".compactor_v7", outside)
    (table / ".compactor_v8" / "out").mkdir(parents=True)
    plant(kind, table / ".compactor_v8" / "out" / "base_1", outside)
    for name in (".compactor_v7", ".compactor_v8"):
        STORAGE.remove(f"{table}/{name}")
    assert [path.name for path in table.iterdir()] == ["delta_0000001_0000001"]
    assert sorted(path.name for path in outside.iterdir()) == ["delta_0000001_0000001", "secret"]


def test_the_names_of_our_own_are_found_whatever_is_beside_them(table: Path) -> None:
    (table / ".compactor_v7").mkdir()
    os.mkdir(os.fsencode(table) + b"/_\xff")
    assert STORAGE.children(str(table)) == (".compactor_v7", "delta_0000001_0000001")


def test_a_name_that_no_database_can_hold_is_refused(table: Path) -> None:
    os.mkdir(os.fsencode(table) + b"/delta_\xff")
    with pytest.raises(UnsafeDirectory, match=r"delta_\\udcff: its name is not UTF-8"):
        STORAGE.listing(str(table))


def test_a_listing_ends_at_a_depth(table: Path) -> None:
    nest(table, 1500)
    try:
        with pytest.raises(UnsafeDirectory, match=r"is more than 64 directories deep"):
            STORAGE.listing(str(table))
        os.rename(table / "d", table / ".compactor_v7")
        with pytest.raises(UnsafeDirectory, match=r"is more than 64 directories deep"):
            STORAGE.remove(f"{table}/.compactor_v7")
        os.rename(table / ".compactor_v7", table / "d")
    finally:
        remove_tree(table / "d")
    assert len(STORAGE.listing(str(table)).files) == 1


def test_a_listing_ends_at_a_number(table: Path) -> None:
    few = LocalStorage(ListingLimits(entries=3))
    few.listing(str(table))
    for name in ("bucket_00001", "bucket_00002"):
        (table / "delta_0000001_0000001" / name).write_bytes(b"")
    with pytest.raises(UnsafeDirectory, match=r"has more than 3 files and directories"):
        few.listing(str(table))
    for number in range(3):
        (table / f"_{number}").write_bytes(b"")
    with pytest.raises(UnsafeDirectory, match=r"has more than 3 files and directories"):
        few.children(str(table))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 60_000, "dataFormat"),
        (b'{"dataFormat":"' + b"x" * 70_000 + b'"}', "has 70017 bytes"),
        (b"\xff", "dataFormat"),
    ],
    ids=["brackets", "long", "no text"],
)
def test_a_side_file_of_a_stranger_is_a_bad_file(table: Path, content: bytes, said: str) -> None:
    (table / "delta_0000001_0000001" / "_metadata_acid").write_bytes(content)
    with pytest.raises(BadFile, match=said):
        STORAGE.listing(str(table))
