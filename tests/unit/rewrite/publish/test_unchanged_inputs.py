"""The second listing, just before an output is named (PROTOCOL 11.9)."""

from __future__ import annotations

import pytest

from compactor.acid.listing import FileStatus, Listing
from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish.unchanged_inputs import unchanged_inputs

DELTAS = ("delta_0000003_0000003_0000", "delta_0000005_0000005_0000")
FILES = {f"{name}/bucket_00000": 10 for name in DELTAS}


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
