from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.names import DeltaKind
from compactor.base.errors import StorageError, VerificationFailed
from compactor.rewrite.plan.unit import Output
from compactor.rewrite.run.attempt_files import attempt_folder, hand_over
from compactor.storage.capabilities import TakenRange
from compactor.storage.local import LocalStorage
from tests.support.deferring import Deferred
from tests.support.folders import staging_of

CONTENT = bytes(range(256)) * 1024


class Far(LocalStorage):
    """A store whose files the codecs cannot write; ``change`` damages an upload on its way."""

    change = staticmethod(lambda content: content)

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(self.change(Path(local).read_bytes()))


def written(folder: str) -> Output:
    (Path(folder) / "rows").write_bytes(CONTENT)
    return Output(
        kind=DeltaKind.INSERT,
        path=f"{folder}/rows",
        number=0,
        rows=1,
        length=len(CONTENT),
        crc32=zlib.crc32(CONTENT),
    )


def test_a_local_attempt_is_written_where_it_belongs(tmp_path: Path) -> None:
    home = f"{staging_of(tmp_path)}/attempts/a"
    with attempt_folder(LocalStorage(), home) as folder:
        assert folder == home
        output = written(folder)
        assert hand_over(LocalStorage(), [output], home, full=True) == (output,)


def test_a_finished_file_is_uploaded_and_nothing_stays_here(tmp_path: Path) -> None:
    home = str(tmp_path / "far" / "attempts" / "a")
    with attempt_folder(Far(), home) as folder:
        output = written(folder)
        assert hand_over(Far(), [output], home, full=True) == (replace(output, path=f"{home}/rows"),)
    assert Path(home, "rows").read_bytes() == CONTENT
    assert not Path(folder).exists()


def test_an_attempt_that_fails_publishes_nothing(tmp_path: Path) -> None:
    """PROTOCOL 3.4: leaving a block by an exception must not leave a truncated file."""
    home = str(tmp_path / "far")

    def fail() -> None:
        with attempt_folder(Far(), home) as folder:
            written(folder)
            raise StorageError("disk full")

    with pytest.raises(StorageError, match="disk full"):
        fail()
    assert not Path(home).exists()


@pytest.mark.parametrize(
    ("change", "full"), [(lambda c: c[:-1] + b"x", False), (lambda c: b"x" + c[1:], True)], ids=["tail", "data"]
)
def test_an_upload_is_read_back(tmp_path: Path, change: object, full: bool) -> None:
    """PROTOCOL 4: the footer is read again; with full verification every byte is."""
    far = Far()
    far.change = change  # type: ignore[assignment]
    with attempt_folder(far, str(tmp_path / "far")) as folder:
        output = written(folder)
        with pytest.raises(VerificationFailed, match="differs from the uploaded file"):
            hand_over(far, [output], str(tmp_path / "far"), full=full)


@pytest.mark.parametrize("full", [False, True])
def test_uploads_begin_under_their_final_keys_unless_they_are_read_back(tmp_path: Path, full: bool) -> None:
    """ADR 13: an upload without a name cannot be read; ``full`` stages the file and reads every byte."""
    store = Deferred()
    home = str(tmp_path / "attempts" / "a")
    final = {DeltaKind.INSERT: f"{tmp_path}/base_0000003_v0000007"}
    with attempt_folder(store, home) as folder:
        output = written(folder)
        (made,) = hand_over(store, [output], home, full=full, final=final)
    assert made.name == "bucket_00000"
    if full:
        assert (made.path, made.upload, store.begun) == (f"{home}/rows", None, {})
        return
    path = f"{tmp_path}/base_0000003_v0000007/bucket_00000"
    assert made.upload is not None
    assert (made.path, made.upload.path, made.upload.length) == (path, path, len(CONTENT))
    assert list(store.begun.values()) == [(path, CONTENT)]
    assert not list(tmp_path.iterdir())
