"""Joining plain ORC files."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

from compactor.base.errors import NotLossless, VerificationFailed
from compactor.orc.assembler import Assembler
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece
from compactor.orc.reencode import reencode
from compactor.rewrite.insert_only import orc as insert_only_orc
from compactor.rewrite.insert_only.output_file import FinishedFile
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.inputs import Input
from tests.support.acid_files import dense
from tests.support.acid_files import write_file as write_acid
from tests.support.targets import target

LARGE = 1  #: no stripe is smaller
SMALL = 1 << 20


def table(start: int, rows: int = 50) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "d": [datetime.date(1990, 1, 1) + datetime.timedelta(days=n) for n in numbers],
            "s": [None if n % 3 == 0 else f"text {n % 5}" for n in numbers],
            "l": [[{"x": n, "y": [str(n)]}] if n % 4 else None for n in numbers],
            "f": [float("nan") if n % 9 == 0 else n / 7 for n in numbers],
        }
    )


@contextmanager
def opened(folder: Path, names: Sequence[str]) -> Iterator[list[AcidFile]]:
    given = [Input(path=name, length=1, raw=True) for name in names]
    with open_files(str(folder), given, 0) as files:
        yield files


def put_together(
    folder: Path, tables: Sequence[pa.Table], small: int, full: bool, **options: Any
) -> list[FinishedFile]:
    for number, one in enumerate(tables):
        orc.write_table(one, folder / f"in{number}", **{"compression": "zlib", **options})
    with opened(folder, [f"in{number}" for number in range(len(tables))]) as files:
        return insert_only_orc.write(files, target(folder), small_stripe_bytes=small, full=full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("small", [LARGE, SMALL])
@pytest.mark.parametrize("options", [{}, {"compression": "snappy"}, {"stripe_size": 1024, "row_index_stride": 1000}])
def test_the_same_rows_in_one_file(tmp_path: Path, options: dict[str, Any], small: int, full: bool) -> None:
    tables = [table(0), table(50, 3), table(53, 1).slice(0, 0), table(53, 3000)]
    (made,) = put_together(tmp_path, tables, small, full, **options)
    assert repr(orc.read_table(made.path).to_pylist()) == repr(pa.concat_tables(tables).to_pylist())
    assert (made.rows, made.length) == (3053, Path(made.path).stat().st_size)
    assert (made.copied > 0, made.encoded > 0) == (small == LARGE, small == SMALL)
    with LocalSource(made.path) as source:
        tail = read_tail(source)
    assert dict(tail.user_metadata) == {}
    assert not tail.is_acid


def test_small_neighbours_become_one_stripe(tmp_path: Path) -> None:
    (made,) = put_together(tmp_path, [table(0).slice(n, 1) for n in range(20)], SMALL, True)
    assert (orc.ORCFile(made.path).nstripes, made.encoded, made.rows) == (1, 20, 20)


def test_files_whose_columns_differ_stay_separate(tmp_path: Path) -> None:
    """Readers find columns of plain files by name: a file with another name, type or number of columns stays separate."""
    first = table(0)
    renamed = table(50).rename_columns(["a", "D", "s", "l", "f"])
    longer = table(100).append_column("new", pa.array(range(50)))
    made = put_together(tmp_path, [first, renamed, longer, table(150)], SMALL, True)
    assert [file.rows for file in made] == [100, 50, 50]
    assert [orc.ORCFile(file.path).schema.names for file in made] == [
        first.column_names,
        renamed.column_names,
        longer.column_names,
    ]
    found = [row for file in made for row in orc.read_table(file.path).to_pylist()]
    wanted = [row for one in (first, table(150), renamed, longer) for row in one.to_pylist()]
    assert repr(found) == repr(wanted)


def test_files_of_two_codecs_stay_separate(tmp_path: Path) -> None:
    orc.write_table(table(0), tmp_path / "in0", compression="zlib")
    orc.write_table(table(50), tmp_path / "in1", compression="snappy")
    with opened(tmp_path, ["in0", "in1"]) as files:
        made = insert_only_orc.write(files, target(tmp_path), small_stripe_bytes=SMALL, full=True)
    assert [orc.ORCFile(file.path).compression for file in made] == ["ZLIB", "SNAPPY"]


def test_unions_are_copied_however_small(tmp_path: Path) -> None:
    """No codec keeps their tags, so their stripes are only copied."""
    for number in range(3):
        with (
            (tmp_path / f"in{number}").open("wb") as out,
            pyorc.Writer(out, "struct<u:uniontype<int,string>>") as writer,
        ):
            writer.writerows([(number,), (f"text {number}",)])
    with opened(tmp_path, ["in0", "in1", "in2"]) as files:
        (made,) = insert_only_orc.write(files, target(tmp_path), small_stripe_bytes=SMALL, full=True)
    assert (made.copied, made.encoded) == (3, 0)
    with Path(made.path).open("rb") as found:
        assert [row[0] for row in pyorc.Reader(found)] == [0, "text 0", 1, "text 1", 2, "text 2"]


def test_files_without_an_index_are_re_encoded(tmp_path: Path) -> None:
    """PROTOCOL 2.2: their stripes cannot be copied; the target gets an index."""
    for number in range(2):
        with (
            (tmp_path / f"in{number}").open("wb") as out,
            pyorc.Writer(out, "struct<a:int>", row_index_stride=0) as writer,
        ):
            writer.writerows((value,) for value in range(50))
    with opened(tmp_path, ["in0", "in1"]) as files:
        (made,) = insert_only_orc.write(files, target(tmp_path), small_stripe_bytes=LARGE, full=True)
    assert (made.copied, made.encoded, made.rows) == (0, 2, 100)
    with LocalSource(made.path) as source:
        assert read_tail(source).row_index_stride == 10_000


def test_acid_rows_in_an_insert_only_table_are_refused(tmp_path: Path) -> None:
    write_acid(tmp_path / "in0", dense(1, 5))
    with opened(tmp_path, ["in0"]) as files, pytest.raises(NotLossless, match="ACID events"):
        insert_only_orc.write(files, target(tmp_path), small_stripe_bytes=SMALL, full=False)


def test_a_missing_stripe_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 4: rows are counted again before the file gets a name."""
    honest = Assembler.copy

    def forgetful(self: Assembler, source: Any, tail: Any, stripe: int) -> None:
        if self.stripes:
            return
        honest(self, source, tail, stripe)

    monkeypatch.setattr(Assembler, "copy", forgetful)
    with pytest.raises(VerificationFailed, match="50 rows, expected 100"):
        put_together(tmp_path, [table(0), table(50)], LARGE, False)


@pytest.mark.parametrize(
    ("small", "said"), [(LARGE, "differs from the bytes"), (SMALL, "the rows read have the checksum")]
)
def test_rows_of_another_stripe_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, said: str
) -> None:
    """PROTOCOL 4: the number of rows and values is right, but they are those of another stripe."""
    first: list[Any] = []
    copy = Assembler.copy

    def copied(self: Assembler, *stripe: Any) -> None:
        first.append(stripe)
        copy(self, *first[0])

    def encoded(pieces: Sequence[Piece], path: str, **how: Any) -> Tail:
        return reencode([pieces[0]] * len(pieces), path, **how)

    monkeypatch.setattr(Assembler, "copy", copied)
    monkeypatch.setattr(insert_only_orc, "reencode", encoded)
    tables = [table(0), table(0).set_column(0, "a", pa.array(range(1, 51), table(0).schema.field("a").type))]
    (made,) = put_together(tmp_path, tables, small, False)
    assert (made.rows, len(os.listdir(tmp_path))) == (100, 3)
    first.clear()
    Path(made.path).unlink()
    with pytest.raises(VerificationFailed, match=said):
        put_together(tmp_path, tables, small, True)


def test_files_of_different_user_metadata_keep_what_they_have_in_common(tmp_path: Path) -> None:
    """Trino writes the ID of its query into each file: none of them was ever joined with another."""
    for number in range(3):
        with open(tmp_path / f"in{number}", "wb") as file, pyorc.Writer(file, "struct<a:int>") as writer:
            writer.write((number,))
            metadata = {"presto_query_id": b"2026_%d" % number, "trino.version": b"476", "only": b"x"}
            writer.set_user_metadata(**(metadata if number else {**metadata, "only": b"y"}))
    with opened(tmp_path, ["in0", "in1", "in2"]) as files:
        (joined,) = insert_only_orc.write(files, target(tmp_path), small_stripe_bytes=LARGE, full=True)
    with open(joined.path, "rb") as file:
        reader = pyorc.Reader(file)
        assert (list(reader), reader.user_metadata) == ([(0,), (1,), (2,)], {"trino.version": b"476"})
