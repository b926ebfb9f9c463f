"""One unit over real files: what comes out, in rows, events, stripes and figures."""

from __future__ import annotations

import errno
import os
import resource
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.names import DeltaKind
from compactor.acid.write_ids import ValidWriteIdList
from compactor.errors import BadFile, NotLossless, StorageError
from compactor.ids import WriteId
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import Piece, reencode
from compactor.rewrite.plan.unit import Output, Shape, Unit, UnitResult
from compactor.rewrite.run.execute import attempt, attempt_all
from compactor.rewrite.run.failure import Failure
from compactor.rows.acid_file import open_files
from compactor.rows.inputs import Input
from compactor.storage.options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.acid_files import FIRST_FILE, ROW_TYPE, Key, dense, write_file
from tests.support.units import execute

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(9), aborted=frozenset({WriteId(5)}))


def unit(
    tmp_path: Path, shape: Shape, *, rows: Sequence[str] = (), deletes: Sequence[str] = (), first: int = 1, **more: int
) -> Unit:
    def inputs(names: Sequence[str]) -> tuple[Input, ...]:
        return tuple(
            Input(path=n, length=(tmp_path / n).stat().st_size, raw="/" not in n, group=n.partition("/")[0])
            for n in names
        )

    return Unit(
        location=str(tmp_path),
        staging=str(tmp_path / "_compactor_v7"),
        number=0,
        shape=shape,
        inserts=inputs(rows),
        deletes=inputs(deletes),
        write_ids=SEEN,
        first_write_id=WriteId(first),
        row_type=ROW_TYPE,
        small_stripe_bytes=more.get("small", 0),
        full_verify=True,
    )


def keys_of(output: Output) -> list[Key]:
    table = po.ORCFile(output.path).read()
    return list(zip(*(table[n].to_pylist() for n in ("originalTransaction", "bucket", "rowId")), strict=True))


def test_a_major_copies_what_is_untouched_and_encodes_what_is_not(tmp_path: Path) -> None:
    write_file(tmp_path / "b" / "bucket_00000", dense(1, 100))
    write_file(tmp_path / "d" / "bucket_00000", dense(2, 10))
    write_file(tmp_path / "x" / "bucket_00000", [(2, FIRST_FILE, 3), (9, FIRST_FILE, 0)], current=[3, 3], operation=2)
    made = unit(tmp_path, Shape.MAJOR, rows=["b/bucket_00000", "d/bucket_00000"], deletes=["x/bucket_00000"])
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
    result = execute(unit(tmp_path, Shape.MINOR, **inputs, first=2))  # type: ignore[arg-type]
    rows, events = result.outputs
    assert (rows.kind, keys_of(rows)) == (DeltaKind.INSERT, dense(2, 4, first=1))
    assert (events.kind, keys_of(events)) == (DeltaKind.DELETE, [(1, FIRST_FILE, 7)])
    f = result.figures
    assert (f.events_in, f.events_out, f.events_applied, f.events_invisible) == (3, 1, 1, 1)


def test_where_every_row_went_nothing_comes_out(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(5, 5))  # aborted
    result = execute(unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"]))
    assert (result.outputs, result.figures.rows_invisible, result.figures.stripes_dropped) == ((), 5, 1)


def test_inputs_that_overlap_are_merged_by_key(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "bucket_00000", [k for k in dense(2, 10) if k[2] % 2])
    write_file(tmp_path / "b" / "bucket_00000", [k for k in dense(2, 10) if not k[2] % 2])
    result = execute(unit(tmp_path, Shape.MAJOR, rows=["a/bucket_00000", "b/bucket_00000"]))
    assert keys_of(result.outputs[0]) == dense(2, 10)


def test_originals_become_acid_rows(tmp_path: Path) -> None:
    po.write_table(pa.table({"a": pa.array([4, 5, 6], pa.int32())}), str(tmp_path / "000000_0"))
    write_file(tmp_path / "x" / "bucket_00000", [(0, FIRST_FILE, 1)], current=[3], operation=2)
    result = execute(unit(tmp_path, Shape.MAJOR, rows=["000000_0"], deletes=["x/bucket_00000"]))
    (output,) = result.outputs
    assert keys_of(output) == [(0, FIRST_FILE, 0), (0, FIRST_FILE, 2)]
    assert [r["a"] for r in po.ORCFile(output.path).read()["row"].to_pylist()] == [4, 6]


def test_small_neighbours_become_one_stripe(tmp_path: Path) -> None:
    names = []
    for write_id in (1, 2, 3):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    (output,) = execute(unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20)).outputs
    assert po.ORCFile(output.path).nstripes == 1
    assert keys_of(output) == [*dense(1, 5), *dense(2, 5), *dense(3, 5)]


def test_what_is_encoded_as_a_whole_is_written_once(tmp_path: Path) -> None:
    names = []
    for write_id in (1, 2):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    made = unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20)
    (output,) = execute(made).outputs
    assert os.listdir(os.path.dirname(output.path)) == ["rows"]
    with LocalSource(output.path) as source:
        metadata = read_tail(source).user_metadata
    assert metadata["hive.acid.key.index"] == b"2,%d,4;" % FIRST_FILE
    assert metadata["hive.acid.stats"] == b"10,0,0"
    assert output.crc32 == zlib.crc32(Path(output.path).read_bytes())


def test_small_neighbours_that_cannot_be_encoded_are_copied_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 2: re-encoding for the readers' sake is no reason to refuse a table."""

    tried: list[object] = []

    def refuse(*_: object, **__: object) -> None:
        tried.append(_)
        raise NotLossless("a row does not fit")

    names = []
    for write_id in (1, 2):
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", dense(write_id, 5))
        names.append(f"d{write_id}/bucket_00000")
    monkeypatch.setattr("compactor.orc.reencode.encode_acid", refuse)
    result = execute(unit(tmp_path, Shape.MAJOR, rows=names, small=1 << 20))
    (output,) = result.outputs
    assert keys_of(output) == [*dense(1, 5), *dense(2, 5)]
    assert (po.ORCFile(output.path).nstripes, result.figures.stripes_copied) == (2, 2)
    assert len(tried) == 1


def test_tiny_stripes_are_copied_around_what_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tried together with it once; it is then encoded alone."""
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
    monkeypatch.setattr("compactor.rewrite.run.execute.reencode", refuses_many)
    made = unit(tmp_path, Shape.MAJOR, rows=names, deletes=["x/bucket_00000"], small=1 << 20)
    result = execute(made)
    (output,) = result.outputs
    assert keys_of(output) == [*dense(1, 5), *[k for k in dense(2, 5) if k[2] != 3], *dense(3, 5)]
    assert (result.figures.stripes_copied, result.figures.stripes_encoded) == (2, 1)
    assert tried == [["d1", "d2", "d3"], ["d2"]]


def test_two_attempts_never_meet(tmp_path: Path) -> None:
    """DESIGN 4: attempt files bear a unique name, so that a late attempt touches nothing."""
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    paths = {execute(made).outputs[0].path for _ in range(2)}
    assert len(paths) == 2
    assert all(path.startswith(f"{made.staging}/attempts/00000-") for path in paths)


def test_an_error_of_ours_comes_back_as_a_value(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    (tmp_path / "d" / "bucket_00000").write_bytes(b"no")
    with pytest.raises(BadFile) as raised:
        execute(made)
    assert attempt(made) == Failure(kind="BadFile", message=str(raised.value))


def test_an_error_that_nobody_foresaw_is_the_tasks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a request ends failed; put back, it would take the others of its group along in every pass."""
    units = []
    for name in ("a", "b"):
        write_file(tmp_path / name / "d" / "bucket_00000", dense(1, 5))
        units.append(unit(tmp_path / name, Shape.MAJOR, rows=["d/bucket_00000"]))

    def stumble(location: str, *rest: Any) -> Any:
        if location.endswith("/a"):
            raise ZeroDivisionError("a bug")
        return open_files(location, *rest)

    monkeypatch.setattr("compactor.rewrite.run.execute.open_files", stumble)
    failed, done = attempt_all(units)
    assert isinstance(failed, Failure)
    assert failed.kind == "Unforeseen"
    assert f"{tmp_path}/a, file number 0: ZeroDivisionError: a bug" in failed.message
    assert isinstance(done, UnitResult)
    assert "Traceback" in caplog.text


def test_what_a_parcel_wrote_is_durable_when_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 3.3; what one disk loses fails its unit alone."""
    units = []
    for name in ("a", "b"):
        write_file(tmp_path / name / "d" / "bucket_00000", dense(1, 5))
        units.append(unit(tmp_path / name, Shape.MAJOR, rows=["d/bucket_00000"]))
    synced: list[str] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.startswith(str(tmp_path / "a")):
            raise OSError(errno.EIO, "Input/output error")
        synced.append(path)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    lost, made = attempt_all(units)
    assert isinstance(made, UnitResult)
    (output,) = made.outputs
    assert set(synced) == {output.path, os.path.dirname(output.path)}
    assert isinstance(lost, Failure)
    assert (lost.kind, "Input/output error" in lost.message) == ("StorageError", True)


def test_an_output_is_synced_by_its_own_stores_options_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of several sites may share a parcel; another's credentials have nothing to do with these files."""
    options = [StoreOptions.of({"hdfs": {"user": user}}) for user in ("ann", "ben", "ann")]
    units = []
    for number, stores in enumerate(options):
        write_file(tmp_path / str(number) / "d" / "bucket_00000", dense(1, 5))
        units.append(replace(unit(tmp_path / str(number), Shape.MAJOR, rows=["d/bucket_00000"]), stores=stores))
    synced: list[tuple[StoreOptions, list[str]]] = []
    sync = Stores.sync

    def seen(stores: Stores, paths: Collection[str]) -> Mapping[str, StorageError]:
        synced.append((stores.options, list(paths)))
        return sync(stores, paths)

    monkeypatch.setattr(Stores, "sync", seen)
    first, second, third = (made.outputs[0].path for made in attempt_all(units) if isinstance(made, UnitResult))
    assert synced == [(options[0], [first, third]), (options[1], [second])]


@contextmanager
def files_no_longer_than(limit: int) -> Iterator[None]:
    """Writing further fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5000))
    made = unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    with files_no_longer_than(100), pytest.raises(StorageError, match=r"_compactor_v7/attempts/.*cannot be written"):
        execute(made)


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    (tmp_path / "_compactor_v7").write_bytes(b"")
    with pytest.raises(StorageError, match="_compactor_v7/attempts/"):
        execute(unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"]))
