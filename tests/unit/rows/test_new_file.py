"""Files of which a store takes ranges over, as they are read before they are in the store."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from compactor.acid.bucket import RowId
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import BytesSource, LocalSource
from compactor.rows.new_file import NewFileTarget, OutputMetadata, written_file
from compactor.storage.capabilities import TakenRange, TakingOver
from compactor.storage.protocol import Storage
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.acid_files import FIRST_FILE, dense, write_file

OLD = "s3://bucket/t/delta_1_1/bucket_00000"
DATA = bytes(range(256)) * 40


class Store:
    """An object store with one file."""

    options = StoreOptions()

    def __init__(self, terms: TakingOver | None) -> None:
        self.terms = terms

    def local_path(self, path: str) -> None: ...

    def taking_over(self, path: str) -> TakingOver | None:
        return self.terms


class Old(BytesSource):
    """The file in the store, as it was opened."""

    def __init__(self, tag: str | None = "first", name: str = OLD) -> None:
        super().__init__(DATA, name)
        self.tag = tag  # type: ignore[assignment]


def target(folder: Path, store: Store, **options: Any) -> NewFileTarget:
    return NewFileTarget(
        storage=cast(Storage, store), home="s3://bucket/t/.compactor_v7", path=str(folder / "new"), **options
    )


def test_a_range_is_a_hole_that_is_read_from_its_source(tmp_path: Path) -> None:
    place = target(tmp_path, Store(TakingOver(smallest=100)))
    with place.sink() as sink:
        sink.write(b"ORC")
        assert sink.take_over(Old(), 50, 99) is None
        assert sink.take_over(Old(), 50, 300) == 3
        sink.write(b"tail")
        assert sink.tell() == 307
    assert sink.ranges == [TakenRange(position=3, length=300, source=OLD, offset=50, tag="first", last=DATA[50:350])]
    assert (tmp_path / "new").read_bytes() == b"ORC" + bytes(300) + b"tail"
    with sink.reading() as source:
        assert source.read(0, source.length) == b"ORC" + DATA[50:350] + b"tail"
        assert source.read(300, 5) == DATA[347:350] + b"ta"


def test_a_first_range_brings_along_what_both_files_start_with(tmp_path: Path) -> None:
    """S3 takes no part of three bytes: it would have to grow by megabytes that are read and sent."""
    large = len(DATA) - 100
    for whole, taken in ((False, DATA[: large + 4]), (True, DATA)):
        path = str(tmp_path / f"new-{whole}")
        place = replace(target(tmp_path, Store(TakingOver(smallest=100, whole=whole))), path=path)
        with place.sink() as sink:
            sink.write(DATA[:4])
            assert sink.take_over(Old(), 4, large, whole=True) == 4
            sink.write(b"tail")
        assert sink.ranges == [
            TakenRange(position=0, length=len(taken), source=OLD, offset=0, tag="first", last=taken[-1024:])
        ]
        with sink.reading() as source:
            assert source.read(0, source.length) == taken + b"tail"


def test_a_whole_file_comes_with_what_is_around_its_range(tmp_path: Path) -> None:
    place = target(tmp_path, Store(TakingOver(smallest=100, whole=True)))
    large = len(DATA) - 100
    with place.sink() as sink:
        sink.write(b"ORC")
        assert sink.take_over(Old(), 50, large) is None  # the rest of it may hold what must not stay
        assert sink.take_over(Old(), 50, len(DATA) // 2, whole=True) is None  # too much besides its stripes
        assert sink.take_over(Old(), 50, large, whole=True) == 53
    assert sink.ranges == [
        TakenRange(position=3, length=len(DATA), source=OLD, offset=0, tag="first", last=DATA[-1024:])
    ]
    assert sink.tell() == 3 + len(DATA)


@pytest.mark.parametrize("source", [Old(tag=None), Old(name="s3://another/t/f"), Old(name="/local/file")])
def test_what_cannot_be_pinned_or_is_elsewhere_is_written(tmp_path: Path, source: Old) -> None:
    with target(tmp_path, Store(TakingOver(smallest=1))).sink() as sink:
        assert sink.take_over(source, 0, 1000) is None
        assert (sink.tell(), sink.ranges) == (0, [])


def test_nothing_is_taken_over_where_all_must_be_seen_or_the_store_cannot(tmp_path: Path) -> None:
    for place in (target(tmp_path, Store(TakingOver(smallest=1)), sees_all=True), target(tmp_path, Store(None))):
        with replace(place, path=str(tmp_path / "another")).sink() as sink:
            assert sink.take_over(Old(), 0, 1000) is None
        (tmp_path / "another").unlink()


def test_a_site_may_switch_it_off(tmp_path: Path) -> None:
    assert Stores().taking_over(str(tmp_path)) is not None
    assert Stores(StoreOptions(takes_over=False)).taking_over(str(tmp_path)) is None


def _tail(path: Path) -> Tail:
    with LocalSource(path) as source:
        return read_tail(source)


def test_metadata_is_computed_from_the_rows(tmp_path: Path) -> None:
    """DESIGN 4: the key index has one exact entry per stripe."""
    path = write_file(tmp_path / "bucket_00000", [*dense(7, 2), *dense(9, 3)])
    output_metadata = OutputMetadata()
    with LocalSource(path) as source:
        metadata = output_metadata.compute(source, _tail(path), None)
    assert output_metadata.last_keys == [RowId(WriteId(9), FIRST_FILE, 2)]
    assert metadata == {
        "hive.acid.key.index": f"9,{FIRST_FILE},2;".encode(),
        "hive.acid.stats": b"5,0,0",
        "hive.acid.version": b"2",
    }
    assert _tail(path).user_metadata == metadata


def test_a_known_last_key_is_not_read_again(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3))
    known = RowId(WriteId(8), FIRST_FILE, 5)
    output_metadata = OutputMetadata(version=None)
    with LocalSource(path) as source:
        metadata = output_metadata.compute(source, _tail(path), known)
    assert output_metadata.last_keys == [known]
    assert metadata == {"hive.acid.key.index": f"8,{FIRST_FILE},5;".encode(), "hive.acid.stats": b"3,0,0"}


def test_deletes_are_counted_as_deletes(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3), operation=2)
    assert _tail(path).user_metadata["hive.acid.stats"] == b"0,0,3"


def test_what_was_written(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3))
    found = written_file(str(path), _tail(path))
    assert (found.rows, found.stripes) == (3, 1)
    assert (found.length, found.checksum) == (path.stat().st_size, zlib.crc32(path.read_bytes()))
