"""The second listing, just before an output is named (PROTOCOL 11.9)."""

from __future__ import annotations

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish.unchanged_inputs import (
    file_lengths,
    first_change,
    must_still_be_needed,
    unchanged_inputs,
)

DELTAS = ("delta_0000003_0000003_0000", "delta_0000005_0000005_0000")
FILES = {f"{name}/bucket_00000": 10 for name in DELTAS}
BASE, LATER, OBSOLETE = "base_0000002_v0000009", "delta_0000003_0000003_0000", "delta_0000001_0000001_0000"
BEFORE = {f"{name}/bucket_00000": 10 for name in (BASE, LATER, OBSOLETE)}


def plan(shape: Shape, *inputs: str) -> Plan:
    return Plan(
        shape=shape,
        units=(),
        lowest_write_id=WriteId(3),
        highest_write_id=WriteId(5),
        txn=TxnId(9),
        location="/t",
        staging="/t/.compactor_v9",
        row_type="struct<a:int>",
        inputs=inputs or DELTAS,
    )


def listing(files: dict[str, int], *directories: str) -> Listing:
    tops = {path.partition("/")[0] for path in files if "/" in path}
    return Listing(
        files=tuple(FileStatus(path=path, length=length) for path, length in sorted(files.items())),
        directories=tuple(sorted({*tops, *directories})),
    )


@pytest.mark.parametrize("shape", Shape)
def test_the_same_files_are_what_was_read(shape: Shape) -> None:
    assert unchanged_inputs(plan(shape), listing(FILES), listing(FILES)) == FILES


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize(
    ("now", "because"),
    [
        ({**FILES, f"{DELTAS[0]}/bucket_00001": 7}, "bucket_00001 had no file and has 7 bytes"),
        ({**FILES, f"{DELTAS[0]}/bucket_00000": 11}, "bucket_00000 had 10 bytes and has 11 bytes"),
        ({f"{DELTAS[0]}/bucket_00000": 10}, f"{DELTAS[1]}/bucket_00000 had 10 bytes and has no file"),
        ({**FILES, "delta_0000004_0000004_0000/bucket_00000": 1}, "delta_0000004_0000004_0000 was not there"),
        ({**FILES, "delete_delta_0000005_0000005_0000/f": 1}, "delete_delta_0000005_0000005_0000 was not there"),
        ({**FILES, "delta_0000004_x/f": 1}, "delta_0000004_x was not there"),
    ],
)
def test_what_the_first_listing_missed_is_never_hidden(shape: Shape, now: dict[str, int], because: str) -> None:
    """Its rows would be hidden by the output's range, and then cleaned."""
    with pytest.raises(LockNotGranted, match=f"{because}.*the next pass tries again"):
        unchanged_inputs(plan(shape), listing(FILES), listing(now))


@pytest.mark.parametrize(
    "new", ["base_0000004/f", "delta_0000001_0000001_0000/f", "000000_0", "sub/000000_0", "base_0000005_v0000008/f"]
)
def test_a_base_hides_everything_below_it(new: str) -> None:
    with pytest.raises(LockNotGranted, match=r"was not there"):
        unchanged_inputs(plan(Shape.MAJOR), listing(FILES), listing({**FILES, new: 1}))
    unchanged_inputs(plan(Shape.MINOR), listing(FILES), listing({**FILES, new: 1}))


@pytest.mark.parametrize("shape", Shape)
def test_what_lies_above_is_nobodys_business(shape: Shape) -> None:
    above = {"delta_0000006_0000006_0000/f": 1, "base_0000007/f": 1}
    assert unchanged_inputs(plan(shape), listing(FILES), listing({**FILES, **above})) == FILES


@pytest.mark.parametrize("shape", Shape)
def test_what_is_obsolete_may_go_meanwhile(shape: Shape) -> None:
    before = {**FILES, "delta_0000004_0000004_0000/f": 1, "base_0000002/f": 1}
    assert unchanged_inputs(plan(shape), listing(before), listing(FILES)) == FILES


def test_originals_are_read_by_their_paths() -> None:
    files = {**FILES, "000000_0": 5, "sub/000001_0": 6}
    made = plan(Shape.MAJOR, *DELTAS, "000000_0", "sub/000001_0")
    assert unchanged_inputs(made, listing(files), listing(files)) == files
    with pytest.raises(LockNotGranted, match="000000_0 had 5 bytes and has no file"):
        unchanged_inputs(made, listing(files), listing(FILES))


def listing_of(files: dict[str, int]) -> Listing:
    return Listing(
        files=tuple(FileStatus(path=path, length=length) for path, length in sorted(files.items())),
        directories=tuple(sorted({path.partition("/")[0] for path in files})),
    )


@pytest.fixture
def directory() -> AcidDirectory:
    seen = ValidWriteIdList(table="d.t", high_watermark=WriteId(3))
    found = acid_directory(listing_of(BEFORE), seen, ValidTxnList(high_watermark=TxnId(9)))
    assert found.obsolete == (OBSOLETE,)
    return found


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="nothing"),
        pytest.param({f"{OBSOLETE}/bucket_00000": None}, id="what is obsolete is gone"),
        pytest.param({"delta_0000004_0000004_0000/bucket_00000": 7}, id="a later write"),
    ],
)
def test_what_others_do_beside_it_is_no_matter(directory: AcidDirectory, changed: dict[str, int | None]) -> None:
    must_still_be_needed("/t", directory, listing_of(BEFORE), listing_of(_with(changed)))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({f"{BASE}/bucket_00000": None}, id="no base"),
        pytest.param({f"{BASE}/bucket_00000": 9}, id="a shorter base"),
        pytest.param({f"{BASE}/bucket_00001": 10}, id="a further file"),
        pytest.param({f"{LATER}/bucket_00000": None}, id="no later delta"),
    ],
)
def test_a_copy_from_before_the_compaction_keeps_what_is_obsolete(
    directory: AcidDirectory, changed: dict[str, int | None]
) -> None:
    (path,) = changed
    with pytest.raises(
        LockNotGranted, match=f"/t: {path} is needed in place of what was to be removed.*nothing was removed"
    ):
        must_still_be_needed("/t", directory, listing_of(BEFORE), listing_of(_with(changed)))


def _with(changed: dict[str, int | None]) -> dict[str, int]:
    return {path: length for path, length in {**BEFORE, **changed}.items() if length is not None}


def test_a_name_stands_for_itself_and_for_what_is_below_it() -> None:
    paths = ("000000_0", "base_0000001/bucket_00000", "base_0000001/sub/x", "base_00000010/bucket_00000")
    listing = Listing(files=tuple(FileStatus(path=path, length=3) for path in paths), directories=())
    assert set(file_lengths(listing, {"000000_0", "base_0000001"})) == set(paths[:3])


@pytest.mark.parametrize(
    ("now", "change"),
    [
        ({"a": 1, "b": 2}, None),
        ({"a": 1}, ("b", "had 2 bytes and has no file")),
        ({"a": 1, "b": 2, "c": 3}, ("c", "had no file and has 3 bytes")),
        ({"a": 0, "b": 0}, ("a", "had 1 bytes and has 0 bytes")),
    ],
)
def test_the_first_change_is_told(now: dict[str, int], change: tuple[str, str] | None) -> None:
    assert first_change({"a": 1, "b": 2}, now) == change
