"""Row groups copied from file to file."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from compactor.base.errors import BadFile, NotLossless, VerificationFailed
from compactor.orc.io.source import LocalSource
from compactor.rewrite.insert_only import parquet as insert_only_parquet
from compactor.rewrite.insert_only import parquet_footer
from compactor.rewrite.insert_only.output_file import CountingSink


def table(start: int, rows: int = 50) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "t": pa.array(
                [datetime.datetime(1500, 1, 1) + datetime.timedelta(days=n) for n in numbers], pa.timestamp("us")
            ),
            "s": [None if n % 3 == 0 else f"text {n % 5}" for n in numbers],
            "l": [[{"x": n, "y": [str(n)]}] if n % 4 else None for n in numbers],
            "f": [float("nan") if n % 9 == 0 else n / 7 for n in numbers],
        }
    )


def sources(tmp_path: Path, tables: Sequence[pa.Table], **options: Any) -> list[LocalSource]:
    for number, one in enumerate(tables):
        parquet.write_table(one, tmp_path / f"in{number}", **options)
    return [LocalSource(tmp_path / f"in{number}") for number in range(len(tables))]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 7, "compression": "gzip", "data_page_size": 64},
        {"write_page_index": True, "compression": "zstd", "use_dictionary": False},
        {"version": "1.0", "compression": "none", "write_statistics": False},
    ],
)
def test_the_same_rows_in_one_file(tmp_path: Path, options: dict[str, Any], full: bool) -> None:
    tables = [table(0), table(50, 3), table(53, 1).slice(0, 0), table(53, 100)]
    (made,) = insert_only_parquet.write(sources(tmp_path, tables, **options), str(tmp_path / "out"), full=full)
    found = parquet.read_table(made.path)
    wanted = pa.concat_tables(tables)
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())
    assert (made.rows, made.length) == (153, Path(made.path).stat().st_size)
    assert found.schema.equals(wanted.schema)
    described = parquet.read_metadata(made.path)
    assert described.num_row_groups == made.copied
    assert [described.row_group(n).num_rows for n in range(described.num_row_groups)] == [
        parquet.read_metadata(tmp_path / f"in{i}").row_group(n).num_rows
        for i in (0, 1, 3)
        for n in range(parquet.read_metadata(tmp_path / f"in{i}").num_row_groups)
    ]


def test_page_indexes_move_along(tmp_path: Path) -> None:
    """An offset index locates pages; a wrong one would send readers to other bytes."""
    tables = [table(0, 500), table(500, 500)]
    given = sources(tmp_path, tables, write_page_index=True, data_page_size=256)
    (made,) = insert_only_parquet.write(given, str(tmp_path / "out"), full=True)
    with LocalSource(made.path) as source:
        footer = parquet_footer.read_footer(source)
        for group in footer[parquet_footer.ROW_GROUPS][1][1]:
            for chunk in group[1][1][1]:
                start, length = insert_only_parquet._extent(source, chunk)
                places = parquet_footer.parse_struct(source.read(chunk[4][1], chunk[5][1]), "places")
                pages = [page[1][1] for page in places[1][1][1]]
                assert pages == sorted(pages)
                assert start <= pages[0] == chunk[3][1][9][1]
                assert pages[-1] < start + length
    described = parquet.read_metadata(made.path)
    assert described.row_group(1).column(0).has_offset_index
    assert described.row_group(1).column(0).has_column_index


def test_files_that_differ_stay_separate(tmp_path: Path) -> None:
    """Files with another schema, or other metadata by which Hive interprets days, stay separate."""
    plain, other = table(0), table(50).append_column("new", pa.array(range(50)))
    zoned = table(100).replace_schema_metadata({"writer.time.zone": "Asia/Tokyo"})
    made = insert_only_parquet.write(
        sources(tmp_path, [plain, other, zoned, table(150)]), str(tmp_path / "out"), full=True
    )
    assert [file.rows for file in made] == [100, 50, 50]
    assert repr(parquet.read_table(made[1].path).to_pylist()) == repr(other.to_pylist())
    assert parquet.read_schema(made[2].path).metadata == {b"writer.time.zone": b"Asia/Tokyo"}
    assert parquet.read_schema(made[1].path).names[-1] == "new"


def test_old_timestamps_keep_their_kind(tmp_path: Path) -> None:
    """INT96, as Hive and Impala write them, is not decoded, so days beyond the range of nanoseconds stay."""
    given = sources(tmp_path, [table(0), table(50)], use_deprecated_int96_timestamps=True)
    (made,) = insert_only_parquet.write(given, str(tmp_path / "out"), full=False)
    assert parquet.ParquetFile(made.path).schema.column(1).physical_type == "INT96"
    old = [tmp_path / "in0", tmp_path / "in1"]
    assert parquet.read_table(made.path)["t"].to_pylist() == [
        value for path in old for value in parquet.read_table(path)["t"].to_pylist()
    ]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert insert_only_parquet.write(sources(tmp_path, [table(0).slice(0, 0)]), str(tmp_path / "out"), full=True) == []
    assert not list(tmp_path.glob("out*"))


def test_wrong_lengths_of_old_writers_are_refused(tmp_path: Path) -> None:
    """PARQUET-816."""
    (given,) = sources(tmp_path, [table(0)])
    with LocalSource(given.name) as source:
        footer = parquet_footer.read_footer(source)
        length = source.length
        head = source.read(0, length - 8 - int.from_bytes(source.read(length - 8, 4), "little"))
    footer[parquet_footer.CREATED_BY] = (8, b"parquet-mr version 1.2.8 (build x)")
    tail = parquet_footer.serialize(footer)
    (tmp_path / "old").write_bytes(head + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(NotLossless, match="PARQUET-816"):
        insert_only_parquet.write([LocalSource(tmp_path / "old")], str(tmp_path / "out"), full=False)


def test_chunks_outside_of_the_file_are_damage(tmp_path: Path) -> None:
    (given,) = sources(tmp_path, [table(0)])
    data = Path(given.name).read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    (tmp_path / "cut").write_bytes(b"PAR1" + data[-8 - length :])
    with pytest.raises(BadFile, match="cut"):
        insert_only_parquet.write([LocalSource(tmp_path / "cut")], str(tmp_path / "out"), full=False)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("full", [False, True])
def test_bytes_that_differ_from_those_read_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """PROTOCOL 4: a file is read back before it gets a name."""
    given = sources(tmp_path, [table(0), table(50)], compression="none")
    honest = CountingSink.write

    def forgetful(self: CountingSink, data: bytes) -> None:
        honest(self, data[:100] + bytes(200) + data[300:] if len(data) > 400 else data)

    monkeypatch.setattr(CountingSink, "write", forgetful)
    if full:
        with pytest.raises(VerificationFailed):
            insert_only_parquet.write(given, str(tmp_path / "out"), full=True)
        return
    monkeypatch.setattr(CountingSink, "write", lambda self, data: honest(self, data[:-1] if len(data) > 400 else data))
    with pytest.raises((VerificationFailed, BadFile)):
        insert_only_parquet.write(given, str(tmp_path / "out"), full=False)


def test_an_unreadable_output_names_its_inputs(tmp_path: Path) -> None:
    """A footer is copied unchanged; the error names the input whose footer other readers take for damaged."""
    found = sources(tmp_path, [table(0), table(50)])
    damaged = tmp_path / "in1"
    content = damaged.read_bytes()
    place = content.rindex(b"ARROW:schema") + 40
    damaged.write_bytes(content[:place] + b"~" + content[place + 1 :])
    said = rf"rows\.1: cannot be read back \(.*\); nothing was changed. It was joined from {damaged}: if"
    with pytest.raises(VerificationFailed, match=said):
        insert_only_parquet.write(found, str(tmp_path / "rows"), full=False)
