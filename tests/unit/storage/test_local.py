from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compactor.errors import BadFile, NotSupported, StorageError
from compactor.storage import exclusive_rename
from compactor.storage.local import LocalStorage

STORAGE = LocalStorage()


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/t", "/w/t"),
        ("/w/t/", "/w/t"),
        ("file:/w/t", "/w/t"),
        ("file:///w/t/", "/w/t"),
        ("file://localhost/w/t", "/w/t"),
        ("/w/t/ts=2020-01-01 00%3A00%3A00", "/w/t/ts=2020-01-01 00%3A00%3A00"),
        ("/w/t/k=a:b", "/w/t/k=a:b"),
        ("file:/w/k=a#b?c", "/w/k=a#b?c"),
    ],
)
def test_a_location_as_the_metastore_spells_it(location: str, path: str) -> None:
    """Hive stores paths unescaped: characters that look escaped belong to the directory's name."""
    assert STORAGE.resolve(location) == path


@pytest.mark.parametrize("location", ["wasb://c@a/t", "o3fs://b/t", "http://h/t"])
def test_other_storages_are_refused_by_name(location: str) -> None:
    with pytest.raises(NotSupported, match=location.partition(":")[0]):
        STORAGE.resolve(location)


def test_a_file_of_another_host_is_refused() -> None:
    with pytest.raises(NotSupported, match="far"):
        STORAGE.resolve("file://far/w/t")


def test_a_listing_holds_files_at_any_depth_and_directories_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "base_0000001").mkdir()
    (tmp_path / "base_0000001" / "bucket_00000").write_bytes(b"123")
    (tmp_path / "empty").mkdir()
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "000000_0").write_bytes(b"1")
    (tmp_path / "000000_0").write_bytes(b"")
    listing = STORAGE.listing(str(tmp_path))
    assert [(f.path, f.length) for f in listing.files] == [
        ("000000_0", 0),
        ("base_0000001/bucket_00000", 3),
        ("sub/deep/000000_0", 1),
    ]
    assert listing.directories == ("base_0000001", "empty", "sub")


def test_a_listing_skips_the_names_that_every_reader_skips(tmp_path: Path) -> None:
    """PROTOCOL 3.1: staging and hidden directories are never input."""
    for name in ("_compactor_v7", ".hive-staging", "-tmp.base_0000001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"1")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    listing = STORAGE.listing(str(tmp_path))
    assert (listing.files, listing.directories) == ((), ())
    assert STORAGE.children(str(tmp_path)) == ("-tmp.base_0000001", ".hive-staging", "_SUCCESS", "_compactor_v7")


def test_a_listing_reads_the_metadata_of_a_base(tmp_path: Path) -> None:
    (tmp_path / "base_0000002").mkdir()
    (tmp_path / "base_0000002" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"truncated"}')
    assert dict(STORAGE.listing(str(tmp_path)).data_formats) == {"base_0000002": "truncated"}
    (tmp_path / "base_0000002" / "_metadata_acid").write_text("{")
    with pytest.raises(BadFile, match="dataFormat"):
        STORAGE.listing(str(tmp_path))


def test_a_missing_directory_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"gone: the metastore names it.*restore it, or drop the partition"):
        STORAGE.listing(str(tmp_path / "gone"))
    assert STORAGE.children(str(tmp_path / "gone")) == ()


def test_a_rename_never_moves_over_or_into_what_is_there(tmp_path: Path) -> None:
    """PROTOCOL 5: HDFS would move into it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(StorageError, match="is there already"):
        STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").is_dir()
    STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert STORAGE.children(str(tmp_path)) == ("b", "c")


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a").mkdir()
    assert STORAGE.exists(str(tmp_path / "link"))
    with pytest.raises(StorageError, match="is there already"):
        STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "link"))


def test_removing(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_bytes(b"1")
    (tmp_path / "f").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    STORAGE.remove(str(tmp_path / "link"))
    assert (tmp_path / "a" / "b" / "f").exists()  # a link goes, not what it points to
    STORAGE.remove(str(tmp_path / "a"))
    STORAGE.remove(str(tmp_path / "f"))
    assert STORAGE.children(str(tmp_path)) == ()
    STORAGE.remove(str(tmp_path / "f"))
    STORAGE.remove(str(tmp_path / "gone" / "below"))  # nor is what it stood in


def test_removing_a_missing_path_from_a_read_only_disk_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a disk refuses even the removal of a missing path, which must not hide the original error."""

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "unlink", refuse)
    (tmp_path / "f").write_bytes(b"1")
    STORAGE.remove(str(tmp_path / "gone"))
    with pytest.raises(StorageError, match=r"cannot remove .*/f: Read-only file system"):
        STORAGE.remove(str(tmp_path / "f"))


def test_new_directories_get_the_permissions_of_their_model(tmp_path: Path) -> None:
    model = tmp_path / "t"
    model.mkdir()
    model.chmod(0o2775)
    STORAGE.make_directories(f"{model}/_compactor_v7/out/base_1", like=str(model))
    for path in ("_compactor_v7", "_compactor_v7/out", "_compactor_v7/out/base_1"):
        assert stat.S_IMODE((model / path).stat().st_mode) == 0o2775
    STORAGE.make_directories(f"{model}/_compactor_v7/out", like=str(model))  # again
    file = model / "_compactor_v7" / "out" / "base_1" / "bucket_00000"
    file.write_bytes(b"1")
    file.chmod(0o600)
    STORAGE.adopt(f"{model}/_compactor_v7/out", like=str(model))
    assert stat.S_IMODE(file.stat().st_mode) == 0o664  # no execute bits on files


def test_writing_reading_measuring(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    STORAGE.write(path, b"12345")
    assert STORAGE.read(path) == b"12345"
    assert STORAGE.length(path) == 5
    assert STORAGE.local_path(path) == path
    assert STORAGE.read_range(path, 3, 10) == b"45"
    STORAGE.upload(path, f"{path}2")
    assert STORAGE.read(f"{path}2") == b"12345"
    assert STORAGE.sync([str(tmp_path), path]) == {}
    free = STORAGE.free_bytes(str(tmp_path))
    assert free is not None
    assert free > 0


def test_all_below_and_the_name_itself_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 3.3."""
    STORAGE.make_directories(f"{tmp_path}/s/out/base_1", like=str(tmp_path))
    for path in ("s/out/base_1/bucket_00000", "s/out/base_1/_orc_acid_version", "s/manifest.json", "s/other"):
        STORAGE.write(f"{tmp_path}/{path}", b"1")
    synced: set[str] = set()
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(f"{tmp_path}/"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    assert STORAGE.sync([f"{tmp_path}/s/out", f"{tmp_path}/s/manifest.json"]) == {}
    files = {"s/out/base_1/bucket_00000", "s/out/base_1/_orc_acid_version", "s/manifest.json"}
    assert synced == files | {"s/out/base_1", "s/out", "s"}
    synced.clear()
    STORAGE.rename(f"{tmp_path}/s/out/base_1", f"{tmp_path}/base_1")
    assert synced == {str(tmp_path)}
    synced.clear()
    STORAGE.rename(f"{tmp_path}/base_1", f"{tmp_path}/s/base_1", durable=False)
    assert synced == set()
    assert STORAGE.sync_names([f"{tmp_path}/s/base_1"]) == {}
    assert synced == {"s"}


def test_paths_that_cannot_be_synced_are_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"1")
    failed = STORAGE.sync([f"{tmp_path}/here", f"{tmp_path}/gone"])
    assert list(failed) == [f"{tmp_path}/gone"]
    assert str(failed[f"{tmp_path}/gone"]) == f"cannot sync {tmp_path}/gone: No such file or directory"
    assert STORAGE.sync([]) == {}
    assert list(STORAGE.sync_names([f"{tmp_path}/here", f"{tmp_path}/gone/there"])) == [f"{tmp_path}/gone/there"]


def test_an_error_names_the_operation(tmp_path: Path) -> None:
    for call in (STORAGE.read, STORAGE.length):
        with pytest.raises(StorageError, match=r"cannot .*gone: No such file"):
            call(str(tmp_path / "gone"))
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot create"):
        STORAGE.make_directories(f"{tmp_path}/f/below", like=str(tmp_path))
    with pytest.raises(StorageError, match="cannot list"):
        STORAGE.children(f"{tmp_path}/f")


def test_a_name_that_is_listed_and_never_answers_ends_the_listing(tmp_path: Path) -> None:
    """PROTOCOL 11.10: a disk behind a broken link was taken for empty, and its rows were compacted away."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        StorageError, match=r"d/link: its directory lists it, and it does not answer.*disk, link or mount"
    ):
        STORAGE.listing(str(tmp_path))


@pytest.mark.parametrize("name", ["delta_1", "delta_1/bucket_00000"])
def test_a_name_that_does_not_answer_once_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """PROTOCOL 11.10: a stale cache answers ENOENT for an existing file."""
    (tmp_path / "delta_1").mkdir()
    (tmp_path / "delta_1" / "bucket_00000").write_bytes(b"123")
    absent = Absences(monkeypatch, [str(tmp_path / name)])
    assert [f.path for f in STORAGE.listing(str(tmp_path)).files] == ["delta_1/bucket_00000"]
    assert absent.left == []


def test_an_entry_removed_during_the_listing_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner may work at the same time; the listing starts again and shows the entries that stay."""
    for name in ("delta_1", "delta_2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"123")
    Absences(monkeypatch, [str(tmp_path / "delta_1")], then=lambda: shutil.rmtree(tmp_path / "delta_1"))
    assert STORAGE.listing(str(tmp_path)).directories == ("delta_2",)


class Absences:
    """Paths that each answer ENOENT once, as in a stale cache; ``then`` is called at that moment."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, left: list[str], then: Callable[[], object] = lambda: None
    ) -> None:
        self.left = left
        self._then = then
        self._scandir = os.scandir
        monkeypatch.setattr(os, "scandir", self.scan)

    def scan(self, path: str) -> Any:
        self.answer(path)
        with self._scandir(path) as found:
            return contextlib.nullcontext([_Entry(self, entry) for entry in found])

    def answer(self, path: str) -> None:
        if path in self.left:
            self.left.remove(path)
            self._then()
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)


class _Entry:
    def __init__(self, absences: Absences, entry: os.DirEntry[str]) -> None:
        self._absences, self._entry = absences, entry
        self.name, self.path = entry.name, entry.path
        self.is_dir = entry.is_dir

    def stat(self) -> os.stat_result:
        self._absences.answer(self.path)
        return self._entry.stat()


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    """PROTOCOL 11.12: with a metastore that is older than its files, a new name may already be taken."""
    (tmp_path / "f").write_bytes(b"theirs")
    (tmp_path / "ours").write_bytes(b"ours")
    with pytest.raises(StorageError, match=r"cannot write .*/f: File exists"):
        STORAGE.write(str(tmp_path / "f"), b"ours")
    with pytest.raises(StorageError, match=r"cannot write .*/f: File exists"):
        STORAGE.upload(str(tmp_path / "ours"), str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == b"theirs"


@pytest.mark.parametrize("supported", [True, False])
def test_a_rename_is_exclusive_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supported: bool) -> None:
    """PROTOCOL 11.12: a name that appears after it was looked for is not replaced, where the system has a call for it;
    elsewhere (NFS) what is there is looked for just before."""
    (tmp_path / "a").write_bytes(b"ours")
    (tmp_path / "f").write_bytes(b"theirs")
    if supported:  # a look before the call would not see it
        monkeypatch.setattr(os.path, "lexists", lambda path: False)
    else:
        monkeypatch.setattr(exclusive_rename, "_renameat2", lambda *arguments: errno.EINVAL)
    with pytest.raises(StorageError, match=r"/f: is there already"):
        STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == b"theirs"
    STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert (tmp_path / "c").read_bytes() == b"ours"
