"""One unit of a full ACID table over real files: its output in rows, events, stripes and figures."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.names import DeltaKind
from compactor.base.errors import NotLossless
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece
from compactor.orc.reencode import reencode
from compactor.rewrite.plan.unit import Output, Shape
from tests.support.acid_files import FIRST_FILE, Key, dense, write_file
from tests.support.units import acid_unit, execute


def keys_of(output: Output) -> list[Key]:
    table = po.ORCFile(output.path).read()
    return list(zip(*(table[n].to_pylist() for n in ("originalTransaction", "bucket", "rowId")), strict=True))


def test_a_major_copies_what_is_untouched_and_encodes_what_is_not(tmp_path: Path) -> None:
    write_file(tmp_path / "b" / "bucket_00000", dense(1, 100))
    write_file(tmp_path / "d" / "bucket_00000", dense(2, 10))
    write_file(tmp_path / "x" / "bucket_00000", [(2, FIRST_FILE, 3), (9, FIRST_FILE, 0)], current=[3, 3], operation=2)
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["b/bucket_00000", "d/bucket_00000"], deletes=["x/bucket_00000"])
    result = execute(made)
    (output,) = result.outputs
    assert (output.kind, output.rows, output.length) == (DeltaKind.INSERT, 109, Path(output.path).stat().st_size)
    assert keys_of(output) == [*dense(1, 100), *[k for k in dense(2, 10) if k[2] != 3]]
    f = result.figures
    assert (f.rows_in, f.rows_out, f.rows_deleted, f.events_in) == (110, 109, 1, 2)
    assert (f.stripes_copied, f.stripes_encoded, f.stripes_dropped) == (1, 1, 0)
    assert (f.files_in, f.files_out, f.bytes_in, f.bytes_out) == (3, 1, made.input_bytes, output.length)


def test_a_minor_keeps_events_below_its_range_and_applies_the_others(tmp_path: Path) -> None:
    """PROTOCOL 1.5 and 5: no base can hold rows of the range's own write IDs."""
    write_file(tmp_path / "d" / "bucket_00000", dense(2, 5))
    write_file(tmp_path / "x" / "bucket_00000", [(1, FIRST_FILE, 7), (2, FIRST_FILE, 0)], current=[3, 3], operation=2)
    write_file(tmp_path / "y" / "bucket_00000", [(1, FIRST_FILE, 9)], current=[5], operation=2)
    inputs = {"rows": ["d/bucket_00000"], "deletes": ["x/bucket_00000", "y/bucket_00000"]}
    result = execute(acid_unit(tmp_path, Shape.MINOR, **inputs, first=2))  # type: ignore[arg-type]
    rows, events = result.outputs
    assert (rows.kind, keys_of(rows)) == (DeltaKind.INSERT, dense(2, 4, first=1))
    assert (events.kind, keys_of(events)) == (DeltaKind.DELETE, [(1, FIRST_FILE, 7)])
    f = result.figures
    assert (f.events_in, f.events_out, f.events_applied, f.events_invisible) == (3, 1, 1, 1)


def test_if_every_row_is_gone_there_is_no_output(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(5, 5))  # aborted
    result = execute(acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"]))
    assert (result.outputs, result.figures.rows_invisible, result.figures.stripes_dropped) == ((), 5, 1)


def test_inputs_that_overlap_are_merged_by_key(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "bucket_00000", [k for k in dense(2, 10) if k[2] % 2])
    write_file(tmp_path / "b" / "bucket_00000", [k for k in dense(2, 10) if not k[2] % 2])
    result = execute(acid_unit(tmp_path, Shape.MAJOR, rows=["a/bucket_00000", "b/bucket_00000"]))
    assert keys_of(result.outputs[0]) == dense(2, 10)


def test_originals_become_acid_rows(tmp_path: Path) -> None:
    po.write_table(pa.table({"a": pa.array([4, 5, 6], pa.int32())}), str(tmp_path / "000000_0"))
    write_file(tmp_path / "x" / "bucket_00000", [(0, FIRST_FILE, 1)], current=[3], operation=2)
    result = execute(acid_unit(tmp_path, Shape.MAJOR, rows=["000000_0"], deletes=["x/bucket_00000"]))
    (output,) = result.outputs
    assert keys_of(output) == [(0, FIRST_FILE, 0), (0, FIRST_FILE, 2)]
    assert [r["a"] for r in po.ORCFile(output.path).read()["row"].to_pylist()] == [4, 6]


def test_small_neighbours_become_one_stripe(tmp_path: Path) -> None:
    names = []
    for write_id in (1, 2, 3):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    (output,) = execute(acid_unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20)).outputs
    assert po.ORCFile(output.path).nstripes == 1
    assert keys_of(output) == [*dense(1, 5), *dense(2, 5), *dense(3, 5)]


def test_a_wholly_encoded_file_is_written_once(tmp_path: Path) -> None:
    names = []
    for write_id in (1, 2):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    made = acid_unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20)
    (output,) = execute(made).outputs
    assert os.listdir(os.path.dirname(output.path)) == ["rows"]
    with LocalSource(output.path) as source:
        metadata = read_tail(source).user_metadata
    assert metadata["hive.acid.key.index"] == b"2,%d,4;" % FIRST_FILE
    assert metadata["hive.acid.stats"] == b"10,0,0"
    assert output.crc32 == zlib.crc32(Path(output.path).read_bytes())


def test_small_neighbours_that_cannot_be_encoded_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2: re-encoding to spare readers tiny stripes is no reason to refuse a table."""

    tried: list[object] = []

    def refuse(*_: object, **__: object) -> None:
        tried.append(_)
        raise NotLossless("a row does not fit")

    names = []
    for write_id in (1, 2):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    monkeypatch.setattr("compactor.orc.reencode.encode_acid", refuse)
    result = execute(acid_unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20))
    (output,) = result.outputs
    assert keys_of(output) == [*dense(1, 5), *dense(2, 5)]
    assert (po.ORCFile(output.path).nstripes, result.figures.stripes_copied) == (2, 2)
    assert len(tried) == 1


def test_tiny_stripes_are_copied_around_one_that_must_be_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are tried together once; the one stripe is then encoded alone."""
    names = []
    for write_id in (1, 2, 3):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    write_file(tmp_path / "x" / "bucket_00000", [(2, FIRST_FILE, 3)], current=[3], operation=2)
    tried: list[list[str]] = []

    def refuses_many(pieces: Sequence[Piece], *given: Any, **how: Any) -> Tail:
        tried.append([piece.tail.name.split("/")[-2] for piece in pieces])
        if len(pieces) > 1:
            raise NotLossless("a row does not fit")
        return reencode(pieces, *given, **how)

    monkeypatch.setattr("compactor.rewrite.full_acid.concatenate.reencode", refuses_many)
    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.reencode", refuses_many)
    made = acid_unit(tmp_path, Shape.MAJOR, rows=names, deletes=["x/bucket_00000"], small=1 << 20)
    result = execute(made)
    (output,) = result.outputs
    assert keys_of(output) == [*dense(1, 5), *[k for k in dense(2, 5) if k[2] != 3], *dense(3, 5)]
    assert (result.figures.stripes_copied, result.figures.stripes_encoded) == (2, 1)
    assert tried == [["d1", "d2", "d3"], ["d2"]]
