"""Guarantees of every store: a local directory, HDFS without and with an HttpFS, S3, Google's and Azure's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from compactor.acid.names import CLAIM_PREFIX, DirectoryClaim
from compactor.base.errors import BadFile, StorageError
from compactor.base.ids import TxnId
from compactor.compaction.mark_comparison import Marks, MarkToken, Remembered
from compactor.site.mark_files import MarkFiles
from compactor.storage.capabilities import EVERY
from compactor.storage.stores import Stores
from tests.storage.conftest import BY_HTTPFS, BY_OZONE, KINDS, Place

CLAIM = DirectoryClaim(token="0" * 32, table_id=7).name

pytestmark = pytest.mark.parametrize("place", [*KINDS, BY_HTTPFS, BY_OZONE], indirect=True)
ODD = ("bucket_00000", "000000_0", "k=a%3Ab [x]*#?&+é 'q'")


def root(place: Place) -> str:
    return place.stores.resolve(place.location)


def test_what_was_written_is_read_whole_and_by_ranges(place: Place) -> None:
    path = f"{root(place)}/base_0000001/bucket_00000"
    place.stores.make_directories(path.rpartition("/")[0], like=root(place))
    content = bytes(range(256)) * 3500
    place.stores.write(path, content)
    assert place.stores.read(path) == content
    assert place.stores.length(path) == len(content)
    assert place.stores.read_range(path, 500_001, 7) == content[500_001:500_008]
    assert place.stores.read_range(path, len(content) - 3, 10) == content[-3:]
    assert place.stores.sync([root(place)]) == place.stores.sync_names([path]) == {}


def test_an_uploaded_file_is_the_local_one(place: Place, tmp_path: Path) -> None:
    local = tmp_path / "scratch"
    local.write_bytes(b"orc" * 300_000)
    path = f"{root(place)}/.compactor_v7/attempts/a/rows"
    place.stores.make_directories(path.rpartition("/")[0], like=root(place))
    place.stores.upload(str(local), path)
    assert place.stores.length(path) == 900_000
    assert place.stores.read(path) == local.read_bytes()


def test_a_listing_holds_files_at_any_depth_and_skips_what_readers_skip(place: Place) -> None:
    """PROTOCOL 3.1: staging and hidden directories are nobody's input."""
    stores, top = place.stores, root(place)
    names = [
        "000000_0",
        "base_0000001/bucket_00000",
        "sub/deep/000000_0",
        "_SUCCESS",
        ".compactor_v7/bucket_00000",
        "base_0000001/_orc_acid_version",
        "base_0000001/.hive-staging/x",
        CLAIM,
    ]
    for name in names:
        stores.make_directories(f"{top}/{name}".rpartition("/")[0], like=top)
        stores.write(f"{top}/{name}", name.encode())
    listing = stores.listing(top)
    assert [(f.path, f.length) for f in listing.files] == [(n, len(n)) for n in sorted((*names[:3], names[5]))]
    assert (listing.directories, listing.claims) == (("base_0000001", "sub"), (CLAIM,))
    assert listing.skipped == (CLAIM, ".compactor_v7", "_SUCCESS")
    assert listing.names == stores.children(top)
    assert stores.children(top) == (CLAIM, ".compactor_v7", "000000_0", "_SUCCESS", "base_0000001", "sub")


def test_names_that_begin_alike_are_found_in_a_directory_and_in_the_root_of_the_store(place: Place) -> None:
    """PROTOCOL 11.13: a claim may be in a bucket's root, beside any number of other keys."""
    stores, top = place.stores, root(place)
    for name in (CLAIM, ".compactor_v7", "000000_0"):
        stores.write(f"{top}/{name}", b"x")
    stores.make_directories(f"{top}/{CLAIM}_more", like=top)
    stores.write(f"{top}/{CLAIM}_more/x", b"x")
    assert stores.children(top, ".compactor_") == (CLAIM, f"{CLAIM}_more", ".compactor_v7")
    assert stores.children(top, CLAIM_PREFIX) == (CLAIM, f"{CLAIM}_more")
    assert stores.children(top, "none") == ()
    if place.kind != "local":
        scheme, _, rest = top.partition("://")
        bucket = f"{scheme}://{rest.partition('/')[0]}"
        stores.write(f"{bucket}/{CLAIM}", b"x")
        assert stores.children(bucket, CLAIM_PREFIX) == (CLAIM,)
        assert rest.split("/")[1] in stores.children(bucket)
        stores.remove(f"{bucket}/{CLAIM}")


def test_a_tree_shows_what_readers_skip_too(place: Place) -> None:
    """PROTOCOL 11.11: an aborted write may be anywhere below a location."""
    stores, top = place.stores, root(place)
    assert (stores.tree(top).directories, stores.tree(top).is_bare) == ((), True)
    for name in ("p=1/delta_1_1/bucket_00000", "p=1/_hidden/base_2/bucket_00000", "p=1/_hidden/_side"):
        stores.make_directories(f"{top}/{name}".rpartition("/")[0], like=top)
        stores.write(f"{top}/{name}", b"1")
    found = stores.tree(top)
    assert found.directories == ("p=1", "p=1/_hidden", "p=1/_hidden/base_2", "p=1/delta_1_1")
    assert found.files == {"p=1/delta_1_1": 1, "p=1/_hidden/base_2": 1}
    assert not found.is_bare
    assert found.anchor == stores.anchor(top)


def test_marks_are_remembered_in_every_store(place: Place) -> None:
    """PROTOCOL 11.2: one new file each time, below a folder that need not be there; readers skip its name."""
    folder = f"{place.location}/.compactor/memory"
    assert MarkFiles(place.stores, folder, "default", place.location).newest() == ()
    for number in range(1, 7):
        token = MarkToken(number=number, text="abc", at=number)
        remembered = Remembered(token=token, marks=Marks(newest=TxnId(number)))
        MarkFiles(place.stores, folder, "default", place.location).add(remembered)
        assert MarkFiles(place.stores, folder, "default", place.location).newest() == (remembered,)
    files = MarkFiles(place.stores, folder, "default", place.location)
    assert [name[:26] for name in place.stores.children(files.place)] == [f"marks-{n:020d}" for n in (4, 5, 6)]
    assert MarkFiles(place.stores, folder, "another", place.location).newest() == ()
    assert place.stores.listing(root(place)).files == ()


def test_a_place_is_known_again_by_its_anchor(place: Place) -> None:
    """PROTOCOL 11.11: by its identity where the store has one, else only by its bucket."""
    stores, top = place.stores, f"{root(place)}/t"
    assert stores.anchor(top) is None

    def fill() -> None:
        stores.make_directories(top, like=root(place))
        stores.write(f"{top}/f", b"1")

    fill()
    before = stores.anchor(top)
    assert before == stores.anchor(top)
    assert stores.anchor(f"{top}/f") is None  # a file is no place
    stores.remove(top)
    fill()
    after = stores.anchor(top)
    assert before is not None
    assert after is not None
    assert before.volume == after.volume
    assert (before.identity == after.identity) == (before.identity is None)
    assert (before.identity is None) == (not stores.capabilities(top).renames)


def test_a_listing_reads_what_a_base_says_of_itself(place: Place) -> None:
    base = f"{root(place)}/base_0000002"
    place.stores.make_directories(base, like=root(place))
    place.stores.write(f"{base}/_metadata_acid", b'{"thisFileVersion":"0","dataFormat":"truncated"}')
    assert dict(place.stores.listing(root(place)).data_formats) == {"base_0000002": "truncated"}
    place.stores.remove(base)
    place.stores.make_directories(base, like=root(place))
    place.stores.write(f"{base}/_metadata_acid", b"{")
    with pytest.raises(BadFile, match="dataFormat"):
        place.stores.listing(root(place))


@pytest.mark.parametrize("name", ODD)
def test_names_are_taken_as_they_are(place: Place, name: str) -> None:
    """Hive stores paths unescaped: what looks like a pattern or an escape is a directory's own characters."""
    stores, top = place.stores, root(place)
    stores.make_directories(f"{top}/{name}", like=top)
    stores.make_directories(f"{top}/{name}x", like=top)
    stores.write(f"{top}/{name}/f", b"1")
    stores.write(f"{top}/{name}x/f", b"22")
    assert stores.children(top) == (name, f"{name}x")
    assert [(f.path, f.length) for f in stores.listing(f"{top}/{name}").files] == [("f", 1)]
    stores.rename(f"{top}/{name}", f"{top}/other")
    assert stores.read(f"{top}/other/f") == b"1"
    stores.remove(f"{top}/{name}x")
    assert stores.children(top) == ("other",)


def test_a_rename_never_moves_over_or_into_what_is_there(place: Place) -> None:
    """PROTOCOL 5: HDFS would move into it."""
    stores, top = place.stores, root(place)
    for name in ("a", "b"):
        stores.make_directories(f"{top}/{name}", like=top)
        stores.write(f"{top}/{name}/f", name.encode())
    with pytest.raises(StorageError, match="is there already"):
        stores.rename(f"{top}/a", f"{top}/b")
    assert (stores.read(f"{top}/a/f"), stores.read(f"{top}/b/f")) == (b"a", b"b")
    stores.rename(f"{top}/a", f"{top}/c")
    assert (stores.children(top), stores.children(f"{top}/c")) == (("b", "c"), ("f",))
    stores.rename(f"{top}/c/f", f"{top}/b/g")
    assert stores.children(f"{top}/b") == ("f", "g")
    with pytest.raises(StorageError):
        stores.rename(f"{top}/gone", f"{top}/d")
    assert not stores.exists(f"{top}/d")


def test_renaming_several_goes_on_up_to_the_first_that_fails(place: Place) -> None:
    stores, top = place.stores, root(place)
    for name in ("a/f", "b/f", "c/f", "taken/f", "sub/d/f"):
        stores.make_directories(f"{top}/{name}".rpartition("/")[0], like=top)
        stores.write(f"{top}/{name}", name.encode())
    renamed = stores.rename_each(top, {"sub/d": "x", "a": "y", "b": "taken", "c": "z"})
    assert next(renamed) == "sub/d"
    assert (stores.exists(f"{top}/x/f"), stores.exists(f"{top}/a/f")) == (True, True)
    assert next(renamed) == "a"
    with pytest.raises(StorageError, match="taken: is there already"):
        next(renamed)
    assert stores.read(f"{top}/y/f") == b"a/f"
    assert stores.read(f"{top}/taken/f") == b"taken/f"
    assert [name for name in ("a", "b", "c", "z") if stores.exists(f"{top}/{name}")] == ["b", "c"]


def test_files_are_moved_and_written_into_a_private_directory(place: Place) -> None:
    """PROTOCOL 3.1, 3.5"""
    stores, top = place.stores, root(place)
    stores.make_private(f"{top}/.staging", ("attempts", "out"))
    stores.write(f"{top}/.staging/attempts/rows", b"12345")
    files = {"base_1/bucket_00000": f"{top}/.staging/attempts/rows", "base_1/_side": b"2", "delta_1/f": b"333"}
    lengths = stores.adopt(f"{top}/.staging/out", files, like=top)
    assert lengths == {"base_1/bucket_00000": 5, "base_1/_side": 1, "delta_1/f": 3}
    assert stores.read(f"{top}/.staging/out/base_1/bucket_00000") == b"12345"
    assert stores.read(f"{top}/.staging/out/base_1/_side") == b"2"
    assert not stores.exists(f"{top}/.staging/attempts/rows")
    with pytest.raises(StorageError):
        stores.adopt(f"{top}/.staging/out", {"base_1/g": f"{top}/.staging/attempts/gone"}, like=top)


def test_removing(place: Place) -> None:
    stores, top = place.stores, root(place)
    for name in ("a/b/f", "a/g", "ab/f"):
        stores.make_directories(f"{top}/{name}".rpartition("/")[0], like=top)
        stores.write(f"{top}/{name}", b"1")
    stores.remove(f"{top}/a")
    stores.remove(f"{top}/a")
    stores.remove(f"{top}/gone/below")
    assert stores.children(top) == ("ab",)
    assert stores.exists(f"{top}/ab")
    assert not stores.exists(f"{top}/a")
    stores.remove(f"{top}/ab/f")
    assert stores.children(f"{top}/ab") == ()


def test_several_are_looked_at_and_removed_together(place: Place) -> None:
    stores, top = place.stores, f"{root(place)}/t"
    for name in ("a/f", "a/g", "b/c/f", "d", "e/f"):
        stores.make_directories(f"{top}/{name}".rpartition("/")[0], like=root(place))
        stores.write(f"{top}/{name}", b"1")
    names = ["a", "b/c", "d", "gone", "e"]
    assert stores.identities(top, names) == {name: stores.identity(f"{top}/{name}") for name in names}
    assert stores.identities(f"{top}/none", names) == dict.fromkeys(names)
    assert stores.remove_all([f"{top}/{name}" for name in names[:-1]]) == {}
    assert [name for name in names if stores.exists(f"{top}/{name}")] == ["e"]
    assert stores.remove_all([f"{top}/e", f"{top}/gone"], durable=False) == {}
    assert not stores.exists(f"{top}/e")


def test_a_file_that_replaces_another_has_another_version(place: Place) -> None:
    stores, file = place.stores, f"{root(place)}/t/f"
    stores.make_directories(f"{root(place)}/t", like=root(place))
    stores.write(file, b"1")
    before = stores.version(file)
    assert before is not None
    assert stores.version(file) == before
    stores.remove(file)
    assert stores.version(file) is None
    stores.write(file, b"2")
    assert stores.version(file) not in (None, before)


def test_what_is_not_there(place: Place) -> None:
    gone = f"{root(place)}/gone"
    assert not place.stores.exists(gone)
    assert place.stores.children(gone) == ()
    for call in (place.stores.read, place.stores.length):
        with pytest.raises(StorageError, match=r"cannot .*gone"):
            call(gone)
    if not place.stores.capabilities(gone).renames:
        assert place.stores.listing(gone).files == ()  # no key is no directory
    else:
        with pytest.raises(BadFile, match=r"gone: the metastore names it.*restore it, or drop the partition"):
            place.stores.listing(gone)


def test_what_it_guarantees_is_one_of_the_table(place: Place) -> None:
    found = place.stores.capabilities(root(place))
    assert found in EVERY
    assert found.renames == (place.kind in ("local", "hdfs"))
    free = place.stores.free_bytes(root(place))
    assert (free is not None and free > 0) == found.knows_free_bytes
    assert place.stores.may_write(root(place)) in ((True,) if found.renames else (True, None))


def test_an_executor_opens_the_same_stores(place: Place) -> None:
    path = f"{root(place)}/f"
    place.stores.write(path, b"1")
    options = pickle.loads(pickle.dumps(place.stores.options))
    assert Stores(options).read(path) == b"1"
    assert "something" not in repr(options)
