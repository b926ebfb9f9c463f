"""Peculiarities of HDFS: owner, mode and ACL, NameNodes of which one is active, and streams that break."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import AccessDenied, BadSetting, StorageError, UnsafeDirectory
from compactor.storage.build_listing import ListingLimits
from compactor.storage.capabilities import HDFS, HTTPFS
from compactor.storage.hdfs import HdfsStorage, _length
from compactor.storage.hdfs_client import RemoteError
from compactor.storage.store_options import StoreOptions
from tests.storage.conftest import BY_HTTPFS, hdfs_options
from tests.support.daemons import Hdfs
from tests.support.ports import free_port


def reached(url: str | list[str], **options: object) -> HdfsStorage:
    own = hdfs_options("").of_place("hdfs", "")
    return HdfsStorage(StoreOptions.from_tables({"hdfs": {**own, "url": url, **options}}))


@pytest.fixture(params=["webhdfs", BY_HTTPFS])
def url(cluster: Hdfs, request: pytest.FixtureRequest) -> str:
    """Of the NameNode itself, and of an HttpFS before it."""
    return cluster.url if request.param == "webhdfs" else str(request.getfixturevalue("httpfs_url"))


@pytest.fixture
def store(url: str) -> HdfsStorage:
    return reached(url)


@pytest.fixture
def top(cluster: Hdfs, request: pytest.FixtureRequest) -> str:
    store, path = reached(cluster.url), f"{cluster.location}/{request.node.name}"
    store.make_directories(path, like=f"{cluster.location}/")
    return path


def status(store: HdfsStorage, path: str) -> dict[str, Any]:
    return dict(store._json("GETFILESTATUS", path)["FileStatus"])


@pytest.mark.whole
def test_access_through_httpfs_is_reported(httpfs_url: str, top: str) -> None:
    """It knows no flags, so that a block is not synced as it is closed, and no options of a rename."""
    store = reached(httpfs_url, httpfs=True)
    assert (store.capabilities(top), store.children(top)) == (HTTPFS, ())
    assert reached(httpfs_url).capabilities(top) == HDFS


def test_what_is_made_is_like_its_model(store: HdfsStorage, top: str) -> None:
    store._ask("SETPERMISSION", "PUT", top, permission="1770")
    store._ask("SETOWNER", "PUT", top, owner="hive", group="analysts")
    store.make_directories(f"{top}/.compactor_v7/out/base_1", like=top)
    store.write(f"{top}/.compactor_v7/out/base_1/bucket_00000", b"1")
    store.adopt(f"{top}/.compactor_v7/out", like=top)
    for path, mode in ((".compactor_v7", "1770"), (".compactor_v7/out/base_1", "1770"), (BUCKET, "660")):
        found = status(store, f"{top}/{path}")
        assert (found["owner"], found["group"], found["permission"]) == ("hive", "analysts", mode), path


BUCKET = ".compactor_v7/out/base_1/bucket_00000"


def test_a_staging_directory_is_private_until_what_is_in_it_is_adopted(store: HdfsStorage, top: str) -> None:
    """PROTOCOL 3.5."""
    store._ask("SETPERMISSION", "PUT", top, permission="1770")
    store.make_private(f"{top}/.compactor_v7", ("attempts", "out"))
    store.make_inside(f"{top}/.compactor_v7/out/base_1")
    store.write(f"{top}/{BUCKET}", b"1")
    for path in (".compactor_v7", ".compactor_v7/attempts", ".compactor_v7/out", ".compactor_v7/out/base_1"):
        assert status(store, f"{top}/{path}")["permission"] == "700"
    with pytest.raises(StorageError, match=r".compactor_v7: is there already"):
        store.make_private(f"{top}/.compactor_v7")
    store.adopt(f"{top}/.compactor_v7/out", like=top)
    assert status(store, f"{top}/.compactor_v7/out/base_1")["permission"] == "1770"
    assert status(store, f"{top}/.compactor_v7")["permission"] == "700"


def test_a_listing_ends_at_a_number_and_a_depth(cluster: Hdfs, top: str) -> None:
    """PROTOCOL 11.13."""
    options = reached(cluster.url).options
    for number in range(3):
        HdfsStorage(options).write(f"{top}/a/b/c/f{number}", b"")
    HdfsStorage(options, ListingLimits(entries=3, depth=3)).listing(top)
    for limits, said in (
        (ListingLimits(entries=2), "more than 2 files"),
        (ListingLimits(depth=2), "more than 2 directories"),
    ):
        with pytest.raises(UnsafeDirectory, match=said):
            HdfsStorage(options, limits).listing(top)


def test_a_link_is_refused() -> None:
    """Clusters that have links switched on list them."""
    with pytest.raises(UnsafeDirectory, match=r"hdfs://nn/t/delta_1/f: is a symlink; only files and directories"):
        _length("hdfs://nn/t/delta_1/f", {"type": "SYMLINK", "length": 0})


def test_an_acl_goes_with_it(store: HdfsStorage, top: str) -> None:
    entries = ["user::rwx", "user:joe:r-x", "group::r-x", "other::---", "default:user:ann:rwx"]
    store._ask("SETACL", "PUT", top, aclspec=",".join(entries))
    store.make_directories(f"{top}/.compactor_v7/out/base_1", like=top)
    store.write(f"{top}/{BUCKET}", b"1")
    store.adopt(f"{top}/.compactor_v7/out", like=top)
    model = store._json("GETACLSTATUS", top)["AclStatus"]["entries"]
    assert "user:joe:r-x" in model
    assert "default:user:ann:rwx" in model
    assert store._json("GETACLSTATUS", f"{top}/.compactor_v7/out/base_1")["AclStatus"]["entries"] == model
    of_file = store._json("GETACLSTATUS", f"{top}/{BUCKET}")["AclStatus"]["entries"]
    assert of_file == [entry for entry in model if not entry.startswith("default:")]
    assert status(store, f"{top}/{BUCKET}")["permission"] == "640"


def test_an_owner_that_cannot_be_set_is_reported_and_work_goes_on(
    url: str, store: HdfsStorage, top: str, caplog: pytest.LogCaptureFixture
) -> None:
    store._ask("SETPERMISSION", "PUT", top, permission="777")
    other = reached(url, user="somebody-else")
    other.make_directories(f"{top}/a", like=top)
    assert "the owner of" in caplog.text
    assert status(store, f"{top}/a")["permission"] == "777"


def test_what_may_not_be_done_says_so(url: str, store: HdfsStorage, top: str) -> None:
    store.write(f"{top}/f", b"1")
    store._ask("SETPERMISSION", "PUT", top, permission="700")
    other = reached(url, user="somebody-else")
    for call in (
        lambda: other.listing(top),
        lambda: other.rename(f"{top}/f", f"{top}/g"),
        lambda: other.remove(f"{top}/f"),
        lambda: other.write(f"{top}/h", b"1"),
        lambda: other.exists(f"{top}/f"),
    ):
        with pytest.raises(
            AccessDenied, match=r"cannot .*AccessControlException: Permission denied: user=somebody-else"
        ):
            call()
    assert store.children(top) == ("f",)
    assert (store.may_write(top), other.may_write(top)) == (True, False)


def test_a_stream_that_breaks_leaves_no_whole_file(store: HdfsStorage, top: str) -> None:
    """PROTOCOL 3.4: HDFS closes what it got as a file of its own; it goes, and its length tells."""

    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 200_000:
                raise OSError("the disk is gone")
            return super().read(min(size or -1, 100_000) if size != -1 else 100_000)

    with pytest.raises(StorageError, match="the disk is gone"):
        store._create(f"{top}/broken", Breaks(bytes(400_000)), 400_000)
    # the data node may create it after we removed it; it is never whole, and its name is that of one attempt
    assert not store.exists(f"{top}/broken") or store.length(f"{top}/broken") < 400_000
    with pytest.raises(StorageError, match="Length: 3 bytes arrived of 5"):
        store._create(f"{top}/f", b"123", 5)
    assert not store.exists(f"{top}/f")


def test_beyond_the_end_nothing_is_read(store: HdfsStorage, top: str) -> None:
    store.write(f"{top}/f", b"12345")
    assert [store.read_range(f"{top}/f", offset, 4) for offset in (3, 5, 9)] == [b"45", b"", b""]


def test_a_name_that_is_taken_keeps_its_file(store: HdfsStorage, top: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"new")
    store.write(f"{top}/f", b"old")
    with pytest.raises(StorageError, match="FileAlreadyExistsException"):
        store.upload(str(tmp_path / "f"), f"{top}/f")
    assert store.read(f"{top}/f") == b"old"


def test_a_name_node_itself_refuses_a_taken_name(cluster: Hdfs, top: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 5: also when it was taken after we looked."""
    store = reached(cluster.url)
    for name in ("a", "b"):
        store.make_directories(f"{top}/{name}", like=top)
    monkeypatch.setattr(HdfsStorage, "_status", lambda self, path: None)
    with pytest.raises(StorageError, match="is there already"):
        store.rename(f"{top}/a", f"{top}/b")
    monkeypatch.undo()
    assert (store.children(top), store.children(f"{top}/b")) == (("a", "b"), ())


def test_the_next_name_node_is_asked_when_one_is_away(cluster: Hdfs, top: str) -> None:
    urls = [f"http://127.0.0.1:{free_port()}", cluster.url]
    store = reached(urls)
    store.write(f"{top}/f", b"1")
    assert store.children(top) == ("f",)
    away = reached(urls[:1])
    with pytest.raises(StorageError, match=r"cannot list .*Connection: no answer"):
        away.children(top)


def test_an_invalid_address_is_reported(top: str) -> None:
    with pytest.raises(BadSetting, match=r"expected http://host:port of a NameNode or HttpFS"):
        reached("nn:9870").children(top)


def test_concat_takes_the_blocks_away_from_its_sources(store: HdfsStorage, top: str) -> None:
    """ADR 33: so inputs cannot be joined by it, which readers have open and a compaction that fails needs."""
    for name, content in (("a", b"1" * 1000), ("b", b"2" * 500), ("new", b"ORC")):
        store.write(f"{top}/{name}", content)
    store.make_directories(f"{top}/base_1", like=top)
    store.write(f"{top}/base_1/c", b"3")
    plain = f"/{top.rpartition('/')[2]}"
    with pytest.raises(RemoteError, match="not in the same directory"):
        store._ask("CONCAT", "POST", f"{top}/new", sources=f"{plain}/base_1/c")
    store._ask("CONCAT", "POST", f"{top}/new", sources=f"{plain}/a,{plain}/b")
    assert store.children(top) == ("base_1", "new")
    assert store.length(f"{top}/new") == 1503
    assert store.taking_over(top) is None
