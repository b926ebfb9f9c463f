"""Deltas that a bounded request merges, as golden cases: names with their bytes, a bound, the deltas that come of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import DeltaKind
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.plan.chunks import Bound, completed_chunks, cut_runs, must_fit, plan_within_bound
from compactor.rewrite.plan.plan import NOTHING_LEFT, Plan, PlanContext
from compactor.rewrite.plan.unit import Shape, UnitResult, skipped_result

HOUR = 3_600_000


def seen(files: Mapping[str, int], aborted: Collection[int] = ()) -> tuple[AcidDirectory, ValidWriteIdList]:
    """Directories with one file each, of so many bytes."""
    ids = ValidWriteIdList(
        table="d.t", high_watermark=WriteId(99), aborted=frozenset(map(WriteId, aborted))
    ).for_compactor()
    listing = Listing(
        files=tuple(FileStatus(path=f"{name}/bucket_00000", length=size) for name, size in files.items()),
        directories=tuple(sorted(files)),
    )
    return acid_directory(listing, ids, ValidTxnList(high_watermark=TxnId(99))), ids


def deltas(*sizes: int, first: int = 1) -> dict[str, int]:
    return {f"delta_{n:07d}_{n:07d}_0000": size for n, size in enumerate(sizes, first)}


def made(files: Mapping[str, int], bound: Bound, shape: Shape = Shape.MINOR, aborted: Collection[int] = ()) -> Plan:
    directory, ids = seen(files, aborted)
    context = PlanContext(location="/w/t", txn=TxnId(42), write_ids=ids, row_type="struct<a:int>")
    return plan_within_bound(directory, shape, bound, context)


def names(made: Plan) -> list[str]:
    return [output.directory(DeltaKind.INSERT).removesuffix("_v0000042") for output in made.outputs]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("bound", [Bound(), Bound(bytes=60), Bound(bytes=60, milliseconds=HOUR)])
def test_what_fits_is_done_as_if_there_were_no_bound(shape: Shape, bound: Bound) -> None:
    planned = made(deltas(10, 20, 30), bound, shape)
    assert (planned.chunks, planned.left) == ((), NOTHING_LEFT)
    assert names(planned) == ["base_0000003" if shape is Shape.MAJOR else "delta_0000001_0000003"]


def test_bytes_are_known_beforehand_and_give_one_chunk() -> None:
    planned = made(deltas(10, 20, 30, 40, 50), Bound(bytes=65))
    assert names(planned) == ["delta_0000001_0000003"]
    assert (planned.input_bytes, planned.highest_write_id) == (60, 3)
    assert (planned.left.deltas, planned.left.bytes, planned.left.again) == (0, 0, False)  # 40 and 50 are more than 65
    planned = made(deltas(10, 20, 30, 30, 30), Bound(bytes=65))
    assert str(planned.left) == "compactor.max.bytes; 2 deltas, 60 bytes left"
    assert planned.left.again


def test_what_was_merged_before_is_not_copied_again_for_a_few_more() -> None:
    assert names(made(deltas(60, 5, 5, 5), Bound(bytes=65))) == ["delta_0000002_0000004"]
    assert names(made(deltas(60, 5), Bound(bytes=65))) == ["delta_0000001_0000002"]  # but where nothing else is to do
    assert names(made(deltas(60, 40, 5, 5), Bound(bytes=65))) == ["delta_0000003_0000004"]


def test_time_gives_chunks_of_a_size_to_stop_between() -> None:
    planned = made(deltas(10, 20, 30, 40, 50), Bound(milliseconds=HOUR, chunk_bytes=70))
    assert names(planned) == ["delta_0000001_0000003"]  # 40 and 50 are large for a chunk of 70
    assert names(made(deltas(40, 50), Bound(milliseconds=HOUR, chunk_bytes=70))) == ["delta_0000001_0000002"]
    assert names(made(deltas(90, 90, 90, 90), Bound(milliseconds=HOUR, chunk_bytes=70))) == [
        "delta_0000001_0000002",
        "delta_0000003_0000004",
    ]
    planned = made(deltas(*[10] * 7), Bound(milliseconds=HOUR, chunk_bytes=30))
    assert names(planned) == ["delta_0000001_0000003", "delta_0000004_0000006"]
    assert (len(planned.units), planned.left) == (2, NOTHING_LEFT)
    planned = made(deltas(*[10] * 7), Bound(milliseconds=HOUR, chunk_deltas=2))
    assert names(planned) == ["delta_0000001_0000002", "delta_0000003_0000004", "delta_0000005_0000006"]


def test_a_delta_that_is_too_large_stays_and_parts_what_is_around_it() -> None:
    planned = made(deltas(5, 5, 100, 5, 5), Bound(bytes=20))
    assert names(planned) == ["delta_0000001_0000002", "delta_0000004_0000005"]
    assert planned.highest_write_id == 5


def test_a_cut_is_never_within_a_range() -> None:
    """PROTOCOL 1.4, HIVE-25441: both kinds of a range and all statements of a transaction are read together."""
    files = {
        "delta_0000001_0000001_0000": 10,
        "delta_0000002_0000002_0000": 10,
        "delta_0000002_0000002_0001": 10,
        "delete_delta_0000002_0000002_0002": 10,
        "delta_0000003_0000006": 10,
        "delete_delta_0000007_0000007_0000": 10,
    }
    directory, _ = seen(files)
    runs = cut_runs(directory.compactable(), Bound(bytes=35, chunk_deltas=2))
    assert [[delta.directory for delta in run] for run in runs] == [
        ["delta_0000001_0000001_0000"],
        ["delta_0000002_0000002_0000", "delta_0000002_0000002_0001", "delete_delta_0000002_0000002_0002"],
        ["delta_0000003_0000006", "delete_delta_0000007_0000007_0000"],
    ]


def test_each_chunk_applies_the_deletes_of_its_own_range_only() -> None:
    """PROTOCOL 5: of a chunk nothing but its own deltas is applied, the rest stays as delete events."""
    planned = made(deltas(*[10] * 4), Bound(milliseconds=1, chunk_bytes=20))
    assert [unit.first_write_id for unit in planned.units] == [1, 3]


def test_cleaning_up_to_the_number_forgets_no_abort_whose_rows_are_still_there() -> None:
    """PROTOCOL 8: Hive's cleaner forgets every abort up to CQ_HIGHEST_WRITE_ID; 4 to 6 hold an aborted one's rows."""
    files = deltas(5, 5) | {"delta_0000004_0000006": 100} | deltas(5, 5, first=7)
    assert made(files, Bound(bytes=20)).highest_write_id == 8
    planned = made(files, Bound(bytes=20), aborted=[5])
    assert names(planned) == ["delta_0000001_0000002", "delta_0000007_0000008"]
    assert planned.highest_write_id == 3
    assert (
        made({"delta_0000001_0000003": 100} | deltas(5, 5, first=7), Bound(bytes=20), aborted=[2]).highest_write_id == 0
    )


def test_a_base_that_reads_too_much_merges_deltas_first() -> None:
    files = {"base_0000001": 80, **deltas(10, 10, 10, 10, 10, 10, first=2)}
    planned = made(files, Bound(bytes=30), Shape.MAJOR)
    assert (planned.shape, names(planned)) == (Shape.MINOR, ["delta_0000002_0000004"])
    assert (planned.left.deltas, planned.left.bytes, planned.left.again) == (3, 30, True)
    assert "a base reads 140 bytes, more than compactor.max.bytes 30" in planned.left.because
    planned = made({"base_0000001": 80, **deltas(10, 10, first=2)}, Bound(bytes=30), Shape.MAJOR)
    assert (planned.left.again, str(planned.left)) == (False, planned.left.because)


@pytest.mark.parametrize(
    ("files", "shape", "wanted"),
    [
        ({"base_0000001": 80, **deltas(10, first=2)}, Shape.MAJOR, 90),
        ({"base_0000001": 10, **deltas(50, 40, 60, first=2)}, Shape.MAJOR, 160),
        (deltas(50, 40, 60), Shape.MINOR, 90),
    ],
)
def test_where_nothing_fits_the_bound_to_raise_is_named(files: dict[str, int], shape: Shape, wanted: int) -> None:
    with pytest.raises(Refused, match=f"compactor.max.bytes 30; raise it to {wanted} or more"):
        made(files, Bound(bytes=30), shape)
    made(files, Bound(bytes=wanted), shape)


def test_what_is_done_whole_or_not_at_all() -> None:
    whole = made(deltas(10, 20), Bound(), Shape.MAJOR)
    assert must_fit(whole, "a rebalance", Bound(bytes=30)) is whole
    with pytest.raises(Refused, match=r"/w/t: a rebalance reads 30 bytes, more than compactor.max.bytes 29"):
        must_fit(whole, "a rebalance", Bound(bytes=29))


@pytest.mark.parametrize(("done", "outputs"), [("111", 3), ("110", 2), ("101", 1), ("100", 1)])
def test_chunks_up_to_the_first_that_is_not_whole(done: str, outputs: int) -> None:
    """PROTOCOL 1.2: CQ_HIGHEST_WRITE_ID is the number of what is whole."""
    planned = made(deltas(*[10] * 6), Bound(milliseconds=1, chunk_bytes=20))
    results = [
        UnitResult(number=0, outputs=()) if flag == "1" else skipped_result(unit)
        for flag, unit in zip(done, planned.units, strict=True)
    ]
    whole, kept = completed_chunks(planned, results)
    assert len(whole.outputs) == len(kept) == outputs
    assert (whole.highest_write_id, len(whole.inputs), whole.input_bytes) == (2 * outputs, 2 * outputs, 20 * outputs)
    left = 2 * (3 - outputs)
    assert (whole.left.deltas, whole.left.bytes, whole.left.again) == (left, 10 * left, left > 0)
