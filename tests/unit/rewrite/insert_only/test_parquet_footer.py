"""A footer that is read and written stays the same."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.io.source import BytesSource
from compactor.rewrite.insert_only import parquet_footer as footer
from compactor.settings.file_limits import FileLimits


def written(rows: int = 10, **options: object) -> bytes:
    out = BytesIO()
    table = pa.table({"a": range(rows), "b": [f"x{n}" for n in range(rows)], "c": [[n, None] for n in range(rows)]})
    parquet.write_table(table, out, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "options",
    [{}, {"write_page_index": True}, {"row_group_size": 1, "compression": "zstd"}, {"version": "1.0"}],
)
def test_another_writers_footer_comes_back_byte_by_byte(options: dict[str, object]) -> None:
    data = written(40, **options)
    length = int.from_bytes(data[-8:-4], "little")
    assert footer.serialize(footer.read_footer(BytesSource(data))) == data[-8 - length : -8]


VALUES = st.deferred(
    lambda: st.one_of(
        st.booleans().map(lambda v: (1 if v else 2, v)),
        st.integers(0, 255).map(lambda v: (3, v)),
        st.integers(-(2**15), 2**15 - 1).map(lambda v: (4, v)),
        st.integers(-(2**31), 2**31 - 1).map(lambda v: (5, v)),
        st.integers(-(2**63), 2**63 - 1).map(lambda v: (6, v)),
        st.binary(max_size=200).map(lambda v: (8, v)),
        st.lists(st.integers(-5, 5), max_size=20).map(lambda v: (9, (6, v))),
        STRUCTS.map(lambda v: (12, v)),
    )
)
STRUCTS = st.dictionaries(st.integers(1, 300), VALUES, max_size=4)


@given(value=STRUCTS)
def test_every_struct_comes_back(value: footer.Struct) -> None:
    assert footer.parse_struct(footer.serialize(value), "f") == value


def test_a_file_that_is_not_parquet_is_refused() -> None:
    data = written()
    for broken in (b"", b"PAR1", data[:-1], data[4:-4] + b"PAR2", data[:-8] + b"\xff\xff\xff\x7fPAR1"):
        with pytest.raises(BadFile, match="f1"):
            footer.read_footer(BytesSource(broken, "f1"))
    with pytest.raises(BadFile, match="f1"):
        footer.read_footer(BytesSource(data[:-40] + b"\xff" * 32 + data[-8:], "f1"))


def test_an_encrypted_file_is_refused() -> None:
    with pytest.raises(NotLossless, match="encrypted"):
        footer.read_footer(BytesSource(written()[:-4] + b"PARE", "f1"))


def test_a_footer_has_no_more_parts_groups_and_columns_than_its_source_allows() -> None:
    data = written(40, row_group_size=10)
    for limits, key in (
        (FileLimits(footer_bytes=100), "compactor.file.footer.bytes"),
        (FileLimits(footer_bytes=16 * 200), "200 are read .one for each 16 bytes of compactor.file.footer.bytes"),
        (FileLimits(stripes=3), "row groups or more, at most 3 are read .compactor.file.stripes"),
        (FileLimits(columns=5), "compactor.file.columns"),
        (FileLimits(depth=2), "compactor.file.depth"),
    ):
        with pytest.raises(BadFile, match=f"file f: .*{key}"):
            footer.read_footer(BytesSource(data, "f", limits))
    assert footer.read_footer(BytesSource(data, "f", FileLimits(stripes=4, columns=6, depth=4)))


def test_structs_that_are_too_deep_are_damage() -> None:
    with pytest.raises(BadFile, match=r"f: its footer is damaged .structs are in each other more than"):
        footer.parse_struct(b"\x1c" * 500 + b"\0" * 500, "f")


def test_a_struct_with_thousands_of_fields_is_damage() -> None:
    with pytest.raises(BadFile, match=r"f: its footer is damaged .a struct has 4096 fields or more"):
        footer.parse_struct(b"\x15\0" * 5000 + b"\0", "f")


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (0, -1)])
def test_an_index_lies_within_the_file(start: int, length: int) -> None:
    with pytest.raises(BadFile, match="f: its page index lies outside of the file"):
        footer.read_part(BytesSource(b"12345", "f"), start, length, "page index")
