from __future__ import annotations

import json
import stat
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.names import DeltaKind, Layout, parse_staging, staging_name
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import StorageError, VerificationFailed
from compactor.base.ids import TxnId, WriteId
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, Unit, UnitResult
from compactor.rewrite.publish import naming, removal, stage
from compactor.rewrite.publish.stage import Manifest, read_manifest
from compactor.rows.inputs import Input
from compactor.storage.local import LocalStorage
from tests.support.deferring import Deferred
from tests.support.watching import names_in

STORAGE = LocalStorage()
IDS = ValidWriteIdList(table="d.t", high_watermark=WriteId(3))
WRITTEN = {
    "entry": 12,
    "transaction": 31,
    "inputs": [{"path": "delta_0000001_0000001_0000/bucket_00000", "length": 7}],
    "directories": [{"name": "base_0000001_v0000031", "files": []}],
}


def plan(location: Path, shape: Shape, numbers: Sequence[int] = (0,)) -> Plan:
    staging = f"{location}/.compactor_v42"
    return Plan(
        shape=shape,
        units=tuple(
            Unit(
                location=str(location),
                staging=staging,
                number=n,
                shape=shape,
                inserts=(),
                deletes=(),
                write_ids=IDS,
                first_write_id=WriteId(2),
                row_type="struct<a:int>",
            )
            for n in numbers
        ),
        lowest_write_id=WriteId(2),
        highest_write_id=WriteId(3),
        txn=TxnId(42),
        location=str(location),
        staging=staging,
        row_type="struct<a:int>",
        inputs=("delta_0000002_0000002_0000", "delta_0000003_0000003_0000"),
    )


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("layout", Layout)
def test_a_base_of_hive_3_says_that_it_is_compacted(tmp_path: Path, shape: Shape, layout: Layout) -> None:
    """The file is as Hive 3.1 writes it; without it, Hive would take the base for one of INSERT OVERWRITE."""
    made = replace(plan(tmp_path, shape), layout=layout)
    stage.prepare(STORAGE, made)
    [directory] = stage.accept(STORAGE, made, []).directories
    side = {path.name: path.read_bytes() for path in Path(directory.staged).iterdir() if path.name.startswith("_")}
    marked = {"_metadata_acid": b'{"thisFileVersion":"0","dataFormat":"compacted"}'}
    expected = marked if (shape, layout) == (Shape.MAJOR, Layout.PLAIN) else {}
    version = {} if layout is Layout.VERSION_1 else {"_orc_acid_version": b"2"}
    assert side == version | expected
    assert ("_v" in directory.name) is layout.has_visibility


class Nearly(LocalStorage):
    """A store with a given number of free bytes."""

    def __init__(self, free: int | None) -> None:
        super().__init__()
        self._free = free

    def free_bytes(self, path: str) -> int | None:
        return self._free


def reads_100_bytes(location: Path) -> Plan:
    made = plan(location, Shape.MAJOR)
    [unit] = made.units
    read = Input(path="delta_0000002_0000002_0000/bucket_00000", length=100)
    return replace(made, units=(replace(unit, inserts=(read,)),))


@pytest.mark.parametrize("free", [100, 101, None])
def test_it_begins_if_as_much_is_free_as_is_read(tmp_path: Path, free: int | None) -> None:
    """A store that does not know its free space counts as having enough."""
    made = reads_100_bytes(tmp_path)
    stage.prepare(Nearly(free), made)
    assert {path.name for path in Path(made.staging).iterdir()} == {"attempts", "out"}


def test_without_room_it_does_not_begin_and_the_staging_directory_stays(tmp_path: Path) -> None:
    made = reads_100_bytes(tmp_path)
    left = Path(made.staging) / "attempts" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    with pytest.raises(StorageError, match=r"may write 100 bytes and 99 are free; make room"):
        stage.prepare(Nearly(99), made)
    assert left.exists()


def output(made: Plan, number: int, kind: DeltaKind = DeltaKind.INSERT, content: bytes = b"rows") -> Output:
    path = Path(made.staging) / "attempts" / f"{number}-{kind.value}"
    path.write_bytes(content)
    return Output(kind=kind, path=str(path), number=number, rows=1, length=len(content), crc32=zlib.crc32(content))


def test_accepted_directories_are_complete_and_like_the_partition(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    made = plan(tmp_path, Shape.MAJOR, (0, 3))
    stage.prepare(STORAGE, made)
    staged = stage.accept(
        STORAGE, made, [UnitResult(number=n, outputs=(output(made, n),), figures=Figures(rows_in=1)) for n in (0, 3)]
    )
    (base,) = staged.directories
    assert (base.name, staged.is_pair, staged.figures.rows_in) == ("base_0000003_v0000042", False, 2)
    assert names_in(Path(base.staged)) == {"bucket_00000", "bucket_00003", "_orc_acid_version"}
    assert (Path(base.staged) / "_orc_acid_version").read_bytes() == b"2"
    assert stat.S_IMODE(Path(base.staged).stat().st_mode) == 0o750
    assert stat.S_IMODE((Path(base.staged) / "bucket_00000").stat().st_mode) == 0o640
    assert [f.crc32 for f in base.files] == [zlib.crc32(b"rows")] * 2
    assert names_in(tmp_path) == {".compactor_v42"}


def test_a_pair_lists_rows_first(tmp_path: Path) -> None:
    """PROTOCOL 5: naming the empty twin first is wrong."""
    made = plan(tmp_path, Shape.MINOR)
    stage.prepare(STORAGE, made)
    both = (output(made, 0, DeltaKind.DELETE), output(made, 0))
    staged = stage.accept(STORAGE, made, [UnitResult(number=0, outputs=both)])
    assert [d.name for d in staged.directories] == [
        "delta_0000002_0000003_v0000042",
        "delete_delta_0000002_0000003_v0000042",
    ]
    assert staged.is_pair


def test_a_minor_of_delete_events_alone_is_no_pair(tmp_path: Path) -> None:
    made = plan(tmp_path, Shape.MINOR)
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [UnitResult(number=0, outputs=(output(made, 0, DeltaKind.DELETE),))])
    assert [d.name for d in staged.directories] == ["delete_delta_0000002_0000003_v0000042"]


@pytest.mark.parametrize(
    ("shape", "name"),
    [(Shape.MAJOR, "base_0000003_v0000042"), (Shape.MINOR, "delta_0000002_0000003_v0000042")],
)
def test_no_directory_is_ever_empty_of_files(tmp_path: Path, shape: Shape, name: str) -> None:
    """PROTOCOL 1.4: an empty base or delta lets old rows come back in Trino."""
    made = plan(tmp_path, shape, (2, 1))
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [UnitResult(number=n, outputs=()) for n in (1, 2)])
    (directory,) = staged.directories
    (file,) = directory.files
    assert (directory.name, file.name, file.rows) == (name, "bucket_00001", 0)
    with LocalSource(Path(directory.staged) / file.name) as source:
        assert read_tail(source).is_acid
        assert source.length == file.length
    stage.check_staged(STORAGE, made, staged)


def test_a_staging_directory_begins_empty_and_private(tmp_path: Path) -> None:
    made = plan(tmp_path, Shape.MAJOR)
    stage.prepare(STORAGE, made)
    assert names_in(tmp_path / ".compactor_v42") == {"attempts", "out"}
    for path in (tmp_path / ".compactor_v42", *(tmp_path / ".compactor_v42").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert names_in(path) <= {"attempts", "out"}


def test_a_name_that_is_taken_is_not_staged_in(tmp_path: Path) -> None:
    (tmp_path / ".compactor_v42" / "out").mkdir(parents=True)
    with pytest.raises(StorageError, match=r".compactor_v42: File exists"):
        stage.prepare(STORAGE, plan(tmp_path, Shape.MAJOR))
    assert names_in(tmp_path / ".compactor_v42") == {"out"}


def test_no_two_staging_directories_have_the_same_token() -> None:
    assert len({stage.token() for _ in range(100)}) == 100
    assert parse_staging(staging_name(TxnId(42), stage.token())) == 42


@pytest.mark.parametrize(
    ("shape", "figures", "wrong"),
    [
        (Shape.MAJOR, Figures(rows_in=10, rows_out=7, rows_deleted=2, rows_invisible=1), False),
        (Shape.MAJOR, Figures(rows_in=10, rows_out=7, rows_deleted=2), True),
        (Shape.MINOR, Figures(events_in=6, events_out=3, events_applied=2, events_invisible=1), False),
        (Shape.MINOR, Figures(events_in=6, events_out=3, events_applied=2), True),
        (Shape.MAJOR, Figures(events_in=6), False),
    ],
)
def test_every_row_and_event_is_accounted_for(tmp_path: Path, shape: Shape, figures: Figures, wrong: bool) -> None:
    """PROTOCOL 4: rows in = rows out + deleted + invisible."""
    made = plan(tmp_path, shape)
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [UnitResult(number=0, outputs=(output(made, 0),), figures=figures)])
    if wrong:
        with pytest.raises(VerificationFailed, match="the sum must agree"):
            stage.check_staged(STORAGE, made, staged)
    else:
        stage.check_staged(STORAGE, made, staged)


def test_one_units_loss_is_not_offset_by_another(tmp_path: Path) -> None:
    """PROTOCOL 4: per file."""
    made = plan(tmp_path, Shape.MAJOR)
    stage.prepare(STORAGE, made)
    lost, doubled = Figures(rows_in=10, rows_out=9), Figures(rows_in=10, rows_out=11)
    results = [UnitResult(number=n, outputs=(), figures=figures) for n, figures in enumerate([lost, doubled])]
    staged = stage.accept(STORAGE, made, results)
    assert staged.figures.rows_in == staged.figures.rows_out
    with pytest.raises(VerificationFailed, match="10 rows were read and 9 written"):
        stage.check_staged(STORAGE, made, staged)


def test_a_file_of_the_wrong_length_is_noticed(tmp_path: Path) -> None:
    made = plan(tmp_path, Shape.MAJOR)
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [UnitResult(number=0, outputs=(replace(output(made, 0), length=5),))])
    with pytest.raises(VerificationFailed, match=r"bucket_00000: has 4 bytes, 5 were written"):
        stage.check_staged(STORAGE, made, staged)


def test_the_manifest_lists_the_files_read_and_the_directories_to_be_named(tmp_path: Path) -> None:
    """PROTOCOL 4, 11.6."""
    made = plan(tmp_path, Shape.MAJOR)
    stage.prepare(STORAGE, made)
    staged = stage.accept(STORAGE, made, [UnitResult(number=0, outputs=(output(made, 0),))])
    stage.write_manifest(STORAGE, made, staged, {"delta_0000002_0000002_0000/bucket_00000": 4}, entry_id=17)
    assert json.loads((tmp_path / ".compactor_v42" / "manifest.json").read_text()) == {
        "entry": 17,
        "transaction": 42,
        "inputs": [{"path": "delta_0000002_0000002_0000/bucket_00000", "length": 4}],
        "directories": [
            {
                "name": "base_0000003_v0000042",
                "files": [{"name": "bucket_00000", "length": 4, "crc32": zlib.crc32(b"rows"), "rows": 1}],
            }
        ],
    }


def test_directories_that_are_not_durable_are_reported(tmp_path: Path) -> None:
    """PROTOCOL 3.3."""
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(plan(tmp_path / name, Shape.MAJOR))
        stage.prepare(STORAGE, made[-1])
        staged = stage.accept(STORAGE, made[-1], [UnitResult(number=0, outputs=(output(made[-1], 0),))])
        stage.write_manifest(STORAGE, made[-1], staged, {}, entry_id=17)
    (tmp_path / "a" / ".compactor_v42" / "manifest.json").unlink()
    failed = stage.make_durable(STORAGE, made)
    assert list(failed) == [made[0].staging]
    assert "manifest.json: No such file" in str(failed[made[0].staging])


def begun(store: Deferred, made: Plan, tmp_path: Path) -> UnitResult:
    """Returns one output of a base, as an attempt on such a store hands it over."""
    (tmp_path / "rows").write_bytes(b"12345")
    upload = store.begin(str(tmp_path / "rows"), f"{made.location}/{made.directory(DeltaKind.INSERT)}/bucket_00000")
    output = Output(kind=DeltaKind.INSERT, path=upload.path, number=0, rows=2, length=5, crc32=0, upload=upload)
    return UnitResult(number=0, outputs=(output,), figures=Figures(rows_in=2, rows_out=2))


def test_units_get_final_directories_only_if_the_store_completes_uploads(tmp_path: Path) -> None:
    made = plan(tmp_path, Shape.MAJOR)
    assert stage.units_with_targets(STORAGE, made) == made.units
    assert (
        stage.units_with_targets(Deferred(), replace(made, layout=Layout.PLAIN))
        == replace(made, layout=Layout.PLAIN).units
    )
    (unit,) = stage.units_with_targets(Deferred(), made)
    assert dict(unit.final)[DeltaKind.INSERT] == f"{tmp_path}/base_0000003_v0000042"


def test_uploads_are_accepted_checked_and_named(tmp_path: Path) -> None:
    store, location = Deferred(), tmp_path / "t"
    location.mkdir()
    made = plan(location, Shape.MAJOR)
    stage.prepare(store, made)
    staged = stage.accept(store, made, [begun(store, made, tmp_path)])
    (directory,) = staged.directories
    assert [upload.length for upload in directory.uploads] == [5]
    assert names_in(Path(directory.staged)) == {"_orc_acid_version"}
    stage.check_staged(store, made, staged)
    assert names_in(location) == {".compactor_v42"}
    naming.name_directories(store, staged)
    assert names_in(location / "base_0000003_v0000042") == {"bucket_00000", "_orc_acid_version"}


def test_an_upload_that_the_store_lost_is_noticed_before_anything_is_named(tmp_path: Path) -> None:
    """PROTOCOL 4."""
    store, location = Deferred(), tmp_path / "t"
    location.mkdir()
    made = plan(location, Shape.MAJOR)
    stage.prepare(store, made)
    staged = stage.accept(store, made, [begun(store, made, tmp_path)])
    store.begun.clear()
    with pytest.raises(VerificationFailed, match="has 0 bytes, 5 were written"):
        stage.check_staged(store, made, staged)


def test_starting_again_aborts_its_own_uploads_only(tmp_path: Path) -> None:
    store = Deferred()
    made = plan(tmp_path, Shape.MAJOR)
    begun(store, made, tmp_path)
    (tmp_path / "other").write_bytes(b"1")
    store.begin(str(tmp_path / "other"), f"{tmp_path}/base_0000003_v0000043/bucket_00000")
    stage.prepare(store, made)
    assert [path for path, _ in store.begun.values()] == [f"{tmp_path}/base_0000003_v0000043/bucket_00000"]
    removal.abort_uploads(store, str(tmp_path), lambda txn: txn == 42)
    assert len(store.begun) == 1
    removal.abort_uploads(store, str(tmp_path), lambda txn: True)
    assert store.begun == {}


def test_it_comes_back(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(WRITTEN))
    assert read_manifest(STORAGE, f"{tmp_path}/manifest.json") == Manifest(
        txn=31,  # type: ignore[arg-type]
        inputs={"delta_0000001_0000001_0000/bucket_00000": 7},
        outputs=("base_0000001_v0000031",),
    )


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "[" * 100_000, '{"inputs": [{}], "directories": []}', '{"inputs": 1}'),
        '{"inputs": [{"path": "p", "length": Infinity}], "directories": []}',
    ],
)
def test_anything_else_proves_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert read_manifest(STORAGE, f"{tmp_path}/manifest.json") is None
    assert read_manifest(STORAGE, f"{tmp_path}/gone.json") is None
