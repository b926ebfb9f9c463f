from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.codecs import pyorc_codec, row_ranges
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.codecs.row_ranges import can_seek, read_ranges
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.stripe_footer import ROW_INDEX, read_indexes, read_stripe_footer
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource, Source
from tests.support import scanned

ROW_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in scanned.COLUMNS.items())}>"
FIRST = 7  #: id of the first column
#: A file of Hive's of several row groups.
HIVE = "tests/fixtures/hive-3.1/g4_stripes"
COLUMNS = range(7, 7 + len(scanned.COLUMNS))


@pytest.fixture(scope="module")
def source() -> Iterator[LocalSource]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, scanned.make_rows(3000), 1, 0, ("i", "s", "d"))
        with LocalSource(path) as opened:
            yield opened


def whole(source: Source, tail: Tail, inner: list[int], stripe: int = 0) -> list[dict[str, object]]:
    return [
        row
        for batch in pyorc_codec.read_batches(source, tail, stripes=[stripe], inner=inner)
        for row in batch.to_pylist()
    ]


@given(
    bounds=st.lists(st.integers(0, 3000), min_size=2, max_size=6, unique=True).map(sorted),
    places=st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True),
)
def test_ranges_have_the_rows_that_the_whole_stripe_has_there(
    source: LocalSource, bounds: list[int], places: list[int]
) -> None:
    tail, inner = read_tail(source), [FIRST + place for place in places]
    ranges = [range(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=False)]
    rows = whole(source, tail, inner)
    for start, batch in read_ranges(source, tail, 0, ranges, inner):
        assert str(batch.to_pylist()) == str(rows[start : start + batch.num_rows])
    found = [start + at for start, batch in read_ranges(source, tail, 0, ranges, inner) for at in range(batch.num_rows)]
    assert found == [number for one in ranges for number in one]


def test_files_of_hive_are_read_by_ranges() -> None:
    read = 0
    for path in sorted(Path(HIVE).glob("*/g4_stripes/**/bucket_*")):
        with LocalSource(path) as opened:
            tail = read_tail(opened)
            if not tail.is_acid or tail.row_index_stride == 0 or "delete" in str(path):
                continue
            row = tail.types[tail.types[0].children[-1]]
            for stripe, found in enumerate(tail.stripes):
                rows = whole(opened, tail, list(row.children), stripe)
                ranges = [range(found.rows // 3, found.rows // 2), range(found.rows - 1, found.rows)]
                for start, batch in read_ranges(opened, tail, stripe, ranges, row.children):
                    assert str(batch.to_pylist()) == str(rows[start : start + batch.num_rows])
                    read += batch.num_rows
    assert read > 100


def test_little_of_a_file_is_read(source: LocalSource) -> None:
    asked: list[int] = []

    class Counting(LocalSource):
        def read(self, offset: int, length: int) -> bytes:
            asked.append(length)
            return super().read(offset, length)

    with Counting(source.name) as counted:
        tail = read_tail(counted)
        asked.clear()
        list(read_ranges(counted, tail, 0, [range(2000, 2100)], [FIRST]))
    assert sum(asked) < source.length


def test_what_is_not_safe_is_left_to_others(source: LocalSource) -> None:
    tail = read_tail(source)
    for unfit in (replace(tail, row_index_stride=0), replace(tail, compression=Compression.ZSTD)):
        with pytest.raises(Unfit):
            list(read_ranges(source, unfit, 0, [range(1)], [FIRST]))
    with pytest.raises(Unfit):
        list(read_ranges(source, tail, 0, [range(1)], []))


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=["arrow", "pyorc"])
@pytest.mark.parametrize("places", [[0], [5, 2, 0], [8, 7], [1, 2, 3]])
def test_columns_within_the_row_are_read_alone_in_any_order(
    source: LocalSource, codec: Codec, places: list[int]
) -> None:
    tail = read_tail(source)
    names = list(scanned.COLUMNS)
    batches = list(codec.read_batches(source, tail, stripes=[0], inner=[FIRST + place for place in places]))
    (everything,) = [pa.Table.from_batches(list(codec.read_batches(source, tail, columns=[5], stripes=[0])))]
    rows = everything.column(0).combine_chunks()
    for at, place in enumerate(places):
        found = pa.chunked_array([batch.column(at) for batch in batches]).combine_chunks()
        assert str(found.to_pylist()) == str(rows.field(names[place]).to_pylist())


@pytest.fixture(scope="module")
def seekable_source() -> Iterator[LocalSource]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, scanned.make_rows(1000), 1, 0, ())
        with LocalSource(path) as opened:
            yield opened


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("damage", ["none", "position", "entry", "index"])
def test_an_index_that_lacks_something_is_not_gone_by(
    seekable_source: LocalSource, column: int, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = read_tail(seekable_source)
    footer = read_stripe_footer(seekable_source, tail, 0)

    def damaged(*arguments: object) -> Iterator[tuple[int, int, messages.Message]]:
        for kind, number, index in read_indexes(seekable_source, tail, 0, footer, [column]):
            if damage == "index" and kind == ROW_INDEX:
                continue
            if damage == "position":
                del index.entry[1].positions[-1:]
            if damage == "entry":
                del index.entry[-1:]
            yield kind, number, index

    monkeypatch.setattr(row_ranges, "read_indexes", damaged)
    assert can_seek(seekable_source, tail, 0, footer, [column]) is (damage == "none")


def test_a_file_without_an_index_has_no_positions(seekable_source: LocalSource) -> None:
    tail = replace(read_tail(seekable_source), row_index_stride=0)
    assert not can_seek(seekable_source, tail, 0, read_stripe_footer(seekable_source, tail, 0), [7])
