"""Proof that hiding an output loses no row (PROTOCOL 11.5)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.bucket import encode
from compactor.base.errors import Disagreement
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.publish.hiding_proof import Evidence, NamedOutput
from compactor.storage.local import LocalStorage
from demo.delta_writer import write_deletes, write_rows

STORAGE = LocalStorage()
ROW = "struct<a:int>"
T = TxnId(7)


def write_delta(location: Path, write_id: int, count: int, statement_id: int = 0) -> str:
    """Writes a delta of ``count`` rows; returns its name."""
    table = pa.table({"a": pa.array(range(count), pa.int32())})
    write_rows(str(location), ROW, table, write_id=WriteId(write_id), statement_id=statement_id)
    return f"delta_{write_id:07}_{write_id:07}_{statement_id:04}"


def deletes(location: Path, write_id: int, of: int, count: int) -> str:
    ids = pa.table({"writeid": [of] * count, "bucketid": [encode(0)] * count, "rowid": range(count)})
    write_deletes(str(location), ROW, ids, write_id=WriteId(write_id), statement_id=0)
    return f"delete_delta_{write_id:07}_{write_id:07}_0000"


def copied(location: Path, source: str, name: str) -> NamedOutput:
    """An output with the rows of one delta, as a compaction of it would have."""
    shutil.copytree(location / source, location / name)
    return NamedOutput(name=name, txn=T)


def manifest(location: Path, output: NamedOutput, *inputs: Path) -> None:
    staging = location / f".compactor_v{output.txn}"
    staging.mkdir(exist_ok=True)
    listed = [{"path": str(i.relative_to(location)), "length": i.stat().st_size} for i in inputs]
    (staging / "manifest.json").write_text(json.dumps({"inputs": listed, "directories": [{"name": output.name}]}))


def judge(
    location: Path,
    *outputs: NamedOutput,
    base: int | None = None,
    uncounted: tuple[str, ...] = (),
    rebalances: bool = False,
) -> None:
    evidence = Evidence(
        STORAGE,
        str(location),
        STORAGE.listing(str(location)),
        uncounted={*uncounted, *(output.name for output in outputs)},
        base=None if base is None else WriteId(base),
    )
    for output in outputs:
        evidence.must_cover(output.name, output.txn, rebalances=rebalances)


def refuses(location: Path, *outputs: NamedOutput, base: int | None = None, uncounted: tuple[str, ...] = ()) -> str:
    with pytest.raises(Disagreement) as error:
        judge(location, *outputs, base=base, uncounted=uncounted)
    return str(error.value)


def test_the_only_copy_is_never_hidden(tmp_path: Path) -> None:
    """The accident: committed, cleaned, and then the metastore was restored from before its claim."""
    delta = write_delta(tmp_path, 1, 5)
    output = copied(tmp_path, delta, "base_0000001_v0000007")
    shutil.rmtree(tmp_path / delta)
    said = refuses(tmp_path, output)
    assert "base_0000001_v0000007: the metastore says that compaction transaction 7 did not commit" in said
    assert "may be the only copy" in said


def test_inputs_that_are_there_as_the_manifest_lists_them_are_proof(tmp_path: Path) -> None:
    """Whatever their format is: nothing of them is read."""
    delta = tmp_path / "delta_0000001_0000001_0000"
    delta.mkdir()
    (delta / "bucket_00000").write_bytes(b"parquet, say")
    output = copied(tmp_path, delta.name, "base_0000001_v0000007")
    refuses(tmp_path, output)
    manifest(tmp_path, output, delta / "bucket_00000")
    judge(tmp_path, output)
    (delta / "bucket_00000").write_bytes(b"something else")
    refuses(tmp_path, output)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"inputs": [], "directories": [{"name": "base_0000001_v0000007"}]}',
        '{"inputs": 1, "directories": 2}',
    ],
)
def test_a_manifest_of_something_else_is_none(tmp_path: Path, content: str) -> None:
    output = copied(tmp_path, write_delta(tmp_path, 1, 5), "base_0000001_v0000007")
    shutil.rmtree(tmp_path / "delta_0000001_0000001_0000")
    (tmp_path / ".compactor_v7").mkdir()
    (tmp_path / ".compactor_v7" / "manifest.json").write_text(content)
    refuses(tmp_path, output)


def test_another_outputs_manifest_is_no_proof(tmp_path: Path) -> None:
    delta = tmp_path / write_delta(tmp_path, 1, 5)
    first = copied(tmp_path, delta.name, "base_0000001_v0000007")
    manifest(tmp_path, NamedOutput(name="delta_0000001_0000002_v0000007", txn=T), delta / "bucket_00000")
    (delta / "bucket_00000").rename(tmp_path / "_kept")
    refuses(tmp_path, first)


def test_as_many_rows_elsewhere_are_proof(tmp_path: Path) -> None:
    """Without a manifest, as for what Hive's worker made."""
    delta = write_delta(tmp_path, 1, 5)
    output = copied(tmp_path, delta, "base_0000001_v0000007")
    judge(tmp_path, output)
    shutil.rmtree(tmp_path / delta)
    write_delta(tmp_path, 1, 4)
    refuses(tmp_path, output)


def test_statements_of_one_transaction_are_added_up_and_compactions_are_not(tmp_path: Path) -> None:
    """Two compactions may both hold the same half of the rows."""
    whole = write_delta(tmp_path, 1, 5)
    output = copied(tmp_path, whole, "base_0000001_v0000007")
    shutil.rmtree(tmp_path / whole)
    statements = [write_delta(tmp_path, 1, 3), write_delta(tmp_path, 1, 2, statement_id=1)]
    judge(tmp_path, output)
    for number, name in enumerate(statements, start=5):
        (tmp_path / name).rename(tmp_path / f"delta_0000001_0000001_v000000{number}")
    refuses(tmp_path, output)


def test_rows_of_another_write_id_are_others(tmp_path: Path) -> None:
    output = copied(tmp_path, write_delta(tmp_path, 1, 5), "base_0000001_v0000007")
    shutil.rmtree(tmp_path / "delta_0000001_0000001_0000")
    write_delta(tmp_path, 2, 5)
    refuses(tmp_path, output)


def test_delete_events_count_as_rows_do(tmp_path: Path) -> None:
    """Hidden for good, they would bring deleted rows back."""
    write_delta(tmp_path, 1, 5)
    events = deletes(tmp_path, 2, 1, 3)
    output = copied(tmp_path, events, "delete_delta_0000001_0000002_v0000007")
    judge(tmp_path, output)
    shutil.rmtree(tmp_path / events)
    refuses(tmp_path, output)


def test_rows_that_were_deleted_must_be_deleted_elsewhere_too(tmp_path: Path) -> None:
    """A cleaner that died removes delete deltas before deltas: with the base hidden, deleted rows would come back."""
    write_delta(tmp_path, 1, 3)
    output = NamedOutput(name="base_0000002_v0000007", txn=T)
    (tmp_path / "delta_0000001_0000001_0000").rename(tmp_path / output.name)
    write_delta(tmp_path, 1, 5)
    refuses(tmp_path, output)
    deletes(tmp_path, 2, 1, 1)
    refuses(tmp_path, output)
    shutil.rmtree(tmp_path / "delete_delta_0000002_0000002_0000")
    deletes(tmp_path, 2, 1, 2)
    judge(tmp_path, output)


def test_a_directory_without_files_holds_no_row(tmp_path: Path) -> None:
    (tmp_path / "base_0000001_v0000007").mkdir()
    judge(tmp_path, NamedOutput(name="base_0000001_v0000007", txn=T))


def test_what_goes_with_it_proves_nothing(tmp_path: Path) -> None:
    """Two aborted outputs over one range: each is the proof of the other, and both would go."""
    delta = write_delta(tmp_path, 1, 5)
    first = copied(tmp_path, delta, "base_0000001_v0000007")
    second = copied(tmp_path, delta, "delta_0000001_0000001_v0000008")
    shutil.rmtree(tmp_path / delta)
    refuses(tmp_path, first, second)
    refuses(tmp_path, first, uncounted=(second.name,))


@pytest.mark.parametrize(("base", "enough"), [(1, False), (2, True), (3, True)])
def test_a_committed_base_over_its_range_is_proof(tmp_path: Path, base: int, enough: bool) -> None:
    """A later compaction holds its rows, or INSERT OVERWRITE replaced them."""
    delta = write_delta(tmp_path, 2, 5)
    output = copied(tmp_path, delta, "delta_0000001_0000002_v0000007")
    shutil.rmtree(tmp_path / delta)
    if enough:
        judge(tmp_path, output, base=base)
    else:
        refuses(tmp_path, output, base=base)


def test_a_rebalance_stays_once_others_may_have_deleted_by_its_row_ids(tmp_path: Path) -> None:
    delta = tmp_path / write_delta(tmp_path, 1, 5)
    output = NamedOutput(name=copied(tmp_path, delta.name, "base_0000002_v0000007").name, txn=T)
    manifest(tmp_path, output, delta / "bucket_00000")
    judge(tmp_path, output, rebalances=True)
    later = write_delta(tmp_path, 3, 1)
    with pytest.raises(Disagreement, match=f"{later} may delete rows by the ROW__IDs that it gave"):
        judge(tmp_path, output, rebalances=True)


def test_a_file_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    delta = tmp_path / write_delta(tmp_path, 1, 5)
    output = copied(tmp_path, delta.name, "base_0000001_v0000007")
    (delta / "bucket_00000").write_bytes(b"ORC")
    refuses(tmp_path, output)
