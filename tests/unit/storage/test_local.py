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

from compactor.base.errors import BadFile, NotSupported, StorageError, UnsafeDirectory
from compactor.storage import exclusive_rename, local_listing
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


def test_a_location_that_is_reached_over_links(tmp_path: Path) -> None:
    """Mounts are; a link that is met later is refused."""
    (tmp_path / "disk" / "t").mkdir(parents=True)
    (tmp_path / "disk" / "t" / "000000_0").write_bytes(b"1")
    (tmp_path / "warehouse").symlink_to("disk")
    (tmp_path / "disk" / "other").symlink_to("t")
    for name in ("warehouse/t", "warehouse/other", "disk/../warehouse//./t/"):
        path = STORAGE.resolve(f"file:{tmp_path}/{name}")
        assert path == f"{tmp_path}/disk/t"
        assert STORAGE.read(f"{path}/000000_0") == b"1"
    with pytest.raises(UnsafeDirectory, match=r"/warehouse: is a link"):
        STORAGE.listing(f"{tmp_path}/warehouse/t")


def test_a_partition_is_reached_over_no_link(tmp_path: Path) -> None:
    """PROTOCOL 11.13: whoever may write in the table's directory could have led it anywhere."""
    (tmp_path / "disk" / "t" / "p=1").mkdir(parents=True)
    (tmp_path / "warehouse").symlink_to("disk")
    (tmp_path / "disk" / "t" / "p=2").symlink_to(tmp_path / "secret")
    table = f"file:{tmp_path}/warehouse/t"
    real = f"{tmp_path}/disk/t"
    for spelt in (f"{tmp_path}/warehouse/t", real, f"file://{tmp_path}/warehouse/t"):
        assert STORAGE.resolve(f"{spelt}/p=1", within=table) == f"{real}/p=1"
        assert STORAGE.resolve(f"{spelt}/p=2//x/", within=table) == f"{real}/p=2/x"
    with pytest.raises(UnsafeDirectory, match=r"p=2: is a link"):
        STORAGE.listing(STORAGE.resolve(f"{tmp_path}/warehouse/t/p=2", within=table))
    (tmp_path / "elsewhere").symlink_to("disk")  # a partition that is not below its table has a way of its own
    assert STORAGE.resolve(f"{tmp_path}/elsewhere/x/p=3", within=table) == f"{tmp_path}/disk/x/p=3"
    assert STORAGE.resolve(f"{real}/../x", within=table) == f"{tmp_path}/disk/x"
    assert STORAGE.resolve(f"{real}2", within=table) == f"{real}2"


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
    for name in (".compactor_v7", ".hive-staging", "-tmp.base_0000001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"1")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    listing = STORAGE.listing(str(tmp_path))
    assert (listing.files, listing.directories) == ((), ())
    assert STORAGE.children(str(tmp_path)) == ("-tmp.base_0000001", ".compactor_v7", ".hive-staging", "_SUCCESS")


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

    def refuse(path: str, *, dir_fd: int) -> None:
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
    STORAGE.make_directories(f"{model}/.compactor_quarantine_7/sub", like=str(model))
    for path in (".compactor_quarantine_7", ".compactor_quarantine_7/sub"):
        assert mode_of(model / path) == 0o2775
    (model / ".compactor_quarantine_7").chmod(0o700)
    STORAGE.make_directories(f"{model}/.compactor_quarantine_7", like=str(model))  # again
    assert mode_of(model / ".compactor_quarantine_7") == 0o700  # what exists stays as it is


def test_no_directory_is_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeDirectory, match=r"t/link: is a link"):
        STORAGE.make_directories(f"{tmp_path}/t/link/sub", like=f"{tmp_path}/t")
    with pytest.raises(UnsafeDirectory, match=r"t/link: is a link"):
        STORAGE.make_private(f"{tmp_path}/t/link/sub")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def staged(table: Path) -> str:
    """Makes a staging directory with an output in it."""
    staging = f"{table}/.compactor_v7"
    STORAGE.make_private(staging, ("attempts", "out"))
    STORAGE.make_inside(f"{staging}/out/base_1")
    STORAGE.write(f"{staging}/out/base_1/bucket_00000", b"1")
    return staging


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_staged_is_private_until_it_is_adopted(tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.mkdir()
    table.chmod(0o2775)
    staging = Path(staged(table))
    for path in (staging, staging / "out", staging / "out" / "base_1"):
        assert mode_of(path) & 0o777 == 0o700
    STORAGE.adopt(f"{staging}/out", like=str(table))
    assert mode_of(staging / "out" / "base_1") == 0o2775
    assert mode_of(staging / "out" / "base_1" / "bucket_00000") == 0o664  # no execute bits on files
    assert mode_of(staging / "out") & 0o777 == mode_of(staging) & 0o777 == 0o700


def test_a_private_directory_is_a_new_one(tmp_path: Path) -> None:
    staging = staged(tmp_path)
    with pytest.raises(StorageError, match=r"cannot create .*/.compactor_v7: File exists"):
        STORAGE.make_private(staging)


def test_only_what_is_ours_alone_is_adopted_or_added_to(tmp_path: Path) -> None:
    """Somebody has put a directory of his own where ours was: nothing in it is used."""
    staging = Path(staged(tmp_path))
    staging.rename(tmp_path / "away")
    (staging / "out" / "base_1").mkdir(parents=True)
    staging.chmod(0o755)
    with pytest.raises(UnsafeDirectory, match=r".compactor_v7: belongs to user \S+ with mode 755"):
        STORAGE.adopt(f"{staging}/out", like=str(tmp_path))
    with pytest.raises(UnsafeDirectory, match=r".compactor_v7: belongs to user"):
        STORAGE.make_inside(f"{staging}/attempts")
    assert sorted(path.name for path in staging.rglob("*")) == ["base_1", "out"]


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
        STORAGE.make_private(f"{tmp_path}/f/below")
    with pytest.raises(StorageError, match="cannot create"):
        STORAGE.make_directories(f"{tmp_path}/f/below", like=str(tmp_path))
    with pytest.raises(StorageError, match="cannot list"):
        STORAGE.children(f"{tmp_path}/f")


def test_a_name_that_is_listed_and_never_answers_ends_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 11.10: a disk that was away was taken for empty, and its rows were compacted away."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"1")
    Absences(monkeypatch, ["f", "f"])
    with pytest.raises(StorageError, match=r"d/f: its directory lists it, and it does not answer.*disk, link or mount"):
        STORAGE.listing(str(tmp_path))


@pytest.mark.parametrize("name", ["delta_1", "bucket_00000"])
def test_a_name_that_does_not_answer_once_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """PROTOCOL 11.10: a stale cache answers ENOENT for an existing file."""
    (tmp_path / "delta_1").mkdir()
    (tmp_path / "delta_1" / "bucket_00000").write_bytes(b"123")
    absent = Absences(monkeypatch, [name])
    assert [f.path for f in STORAGE.listing(str(tmp_path)).files] == ["delta_1/bucket_00000"]
    assert absent.left == []


def test_an_entry_removed_during_the_listing_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner may work at the same time; the listing starts again and shows the entries that stay."""
    for name in ("delta_1", "delta_2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"123")
    Absences(monkeypatch, ["delta_1"], then=lambda: shutil.rmtree(tmp_path / "delta_1"))
    assert STORAGE.listing(str(tmp_path)).directories == ("delta_2",)


class Absences:
    """Names that each answer ENOENT once, as in a stale cache; ``then`` is called at that moment."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, left: list[str], then: Callable[[], object] = lambda: None
    ) -> None:
        self.left = left
        self._then = then
        self._scandir, self._below = os.scandir, local_listing.below
        monkeypatch.setattr(os, "scandir", self.scan)
        monkeypatch.setattr(local_listing, "below", self.below)

    def scan(self, place: Any) -> Any:
        with self._scandir(place) as found:
            return contextlib.nullcontext([_Entry(self, entry) for entry in found])

    def below(self, directory: int, name: str, flags: int) -> int:
        self.answer(name)
        return self._below(directory, name, flags)

    def answer(self, name: str) -> None:
        if name in self.left:
            self.left.remove(name)
            self._then()
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)


class _Entry:
    def __init__(self, absences: Absences, entry: os.DirEntry[str]) -> None:
        self._absences, self._entry = absences, entry
        self.name, self.is_dir = entry.name, entry.is_dir
        self._status = None if entry.is_dir() else entry.stat()

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        self._absences.answer(self.name)
        assert self._status is not None
        return self._status


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
    """PROTOCOL 11.12: where the system has no call for it (NFS), what is there is looked for just before."""
    (tmp_path / "a").write_bytes(b"ours")
    (tmp_path / "f").write_bytes(b"theirs")
    if not supported:
        monkeypatch.setattr(exclusive_rename, "_renameat2", lambda *arguments: errno.EINVAL)
    with pytest.raises(StorageError, match=r"/f: is there already"):
        STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == b"theirs"
    STORAGE.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert (tmp_path / "c").read_bytes() == b"ours"


@pytest.mark.parametrize("location", ["file:/a\0b", "/\ud800"])
def test_a_location_that_is_no_path(location: str) -> None:
    with pytest.raises(StorageError, match="no file system has such a path"):
        LocalStorage().resolve(location)
