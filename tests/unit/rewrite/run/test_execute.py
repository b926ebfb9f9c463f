"""One task over real files: attempt files, errors as values, durability."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import BadFile, StorageError
from compactor.orc.io.look_ahead import AHEAD
from compactor.rewrite.plan.unit import Shape, UnitResult
from compactor.rewrite.run.execute import attempt_task, attempt_tasks
from compactor.rewrite.run.failure import Failure
from compactor.rows.acid_file import open_files
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from tests.support.acid_files import dense, write_file
from tests.support.units import acid_unit, execute


def test_two_attempts_never_meet(tmp_path: Path) -> None:
    """DESIGN 4: attempt files have a unique name, so that a late attempt touches nothing."""
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    paths = {execute(made).outputs[0].path for _ in range(2)}
    assert len(paths) == 2
    assert all(path.startswith(f"{made.staging}/attempts/00000-") for path in paths)


def test_an_error_of_ours_comes_back_as_a_value(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    (tmp_path / "d" / "bucket_00000").write_bytes(b"no")
    with pytest.raises(BadFile) as raised:
        execute(made)
    assert attempt_task(made) == Failure(kind="BadFile", message=str(raised.value))


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed")])
def test_a_lack_of_memory_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])

    def exhausted(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.open_files", exhausted)
    failed = attempt_task(made)
    assert isinstance(failed, Failure)
    assert failed.kind == "CompactorError"
    assert f"{tmp_path}, file number 0: needs more memory than" in failed.message
    assert str(error) in failed.message


def test_an_unforeseen_error_fails_its_task_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a request ends failed; if put back, it would make the others of its group fail in every pass."""
    units = []
    for name in ("a", "b"):
        write_file(tmp_path / name / "d" / "bucket_00000", dense(1, 5))
        units.append(acid_unit(tmp_path / name, Shape.MAJOR, rows=["d/bucket_00000"]))

    def stumble(location: str, *rest: Any, **options: Any) -> Any:
        if location.endswith("/a"):
            raise ZeroDivisionError("a bug")
        return open_files(location, *rest, **options)

    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.open_files", stumble)
    failed, done = attempt_tasks(units)
    assert isinstance(failed, Failure)
    assert failed.kind == "Unforeseen"
    assert f"{tmp_path}/a, file number 0: ZeroDivisionError: a bug" in failed.message
    assert isinstance(done, UnitResult)
    assert "Traceback" in caplog.text


def test_outputs_of_a_parcel_are_durable_when_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 3.3; a failing disk fails its own unit only."""
    units = []
    for name in ("a", "b"):
        write_file(tmp_path / name / "d" / "bucket_00000", dense(1, 5))
        units.append(acid_unit(tmp_path / name, Shape.MAJOR, rows=["d/bucket_00000"]))
    synced: list[str] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.startswith(str(tmp_path / "a")):
            raise OSError(errno.EIO, "Input/output error")
        synced.append(path)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    lost, made = attempt_tasks(units)
    assert isinstance(made, UnitResult)
    (output,) = made.outputs
    assert set(synced) == {output.path, os.path.dirname(output.path)}
    assert isinstance(lost, Failure)
    assert (lost.kind, "Input/output error" in lost.message) == ("StorageError", True)


def test_an_output_is_synced_with_its_own_stores_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of several sites may share a parcel; the credentials of one must not touch the files of another."""
    options = [StoreOptions.from_tables({"hdfs": {"user": user}}) for user in ("ann", "ben", "ann")]
    units = []
    for number, stores in enumerate(options):
        write_file(tmp_path / str(number) / "d" / "bucket_00000", dense(1, 5))
        units.append(replace(acid_unit(tmp_path / str(number), Shape.MAJOR, rows=["d/bucket_00000"]), stores=stores))
    synced: list[tuple[StoreOptions, list[str]]] = []
    sync = Stores.sync

    def seen(stores: Stores, paths: Collection[str]) -> Mapping[str, StorageError]:
        synced.append((stores.options, list(paths)))
        return sync(stores, paths)

    monkeypatch.setattr(Stores, "sync", seen)
    first, second, third = (made.outputs[0].path for made in attempt_tasks(units) if isinstance(made, UnitResult))
    assert synced == [(options[0], [first, third]), (options[1], [second])]


@contextmanager
def files_no_longer_than(limit: int) -> Iterator[None]:
    """Makes longer writes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5000))
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    with files_no_longer_than(100), pytest.raises(StorageError, match=r".compactor_v7/attempts/.*cannot be written"):
        execute(made)


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    unit = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    (tmp_path / ".compactor_v7" / "attempts").rmdir()
    with pytest.raises(StorageError, match=r"\.compactor_v7/attempts/"):
        execute(unit)


@pytest.mark.parametrize("alone", [True, False])
def test_a_task_without_memory_is_tried_again_with_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Its neighbours may have had all of it; by itself it fails at once."""
    units = []
    for name in ("a", "b"):
        write_file(tmp_path / name / "d" / "bucket_00000", dense(1, 5))
        units.append(acid_unit(tmp_path / name, Shape.MAJOR, rows=["d/bucket_00000"]))
    tries: list[str] = []

    def exhausted(location: str, *rest: Any, **options: Any) -> Any:
        tries.append(location[-1])
        if tries == ["a"]:
            raise MemoryError
        return open_files(location, *rest, **options)

    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.open_files", exhausted)
    results = attempt_tasks(units[:1] if alone else units)
    assert [isinstance(result, UnitResult) for result in results] == ([False] if alone else [True, True])
    assert tries == (["a"] if alone else ["a", "b", "a"])


@pytest.mark.parametrize(("columns", "most"), [(2, 16), (100, 2), (300, 0)])
def test_as_many_tasks_wait_together_as_their_columns_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, most: int
) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(1, 5))
    made = acid_unit(tmp_path, Shape.MAJOR, rows=["d/bucket_00000"])
    wide = replace(made, row_type=f"struct<{','.join(f'c{n}:int' for n in range(columns))}>")
    asked: list[int] = []

    def look_ahead(step: Any, things: Any, *, at_once: int) -> Any:
        asked.append(min(at_once, AHEAD))
        return map(step, things)

    monkeypatch.setattr("compactor.rewrite.run.execute.look_ahead", look_ahead)
    attempt_tasks([made, wide])
    assert asked == [most]
