"""Names of outputs, as golden cases: a listing of names, what a compactor sees, the output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import product

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import DeltaKind, Layout
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import BadFile, BadName, Refused
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.settings.output_class import UNKNOWN_TO_ORC_1_5, OutputClass

TXNS = ValidTxnList(high_watermark=TxnId(99))


def see(high: int, opened: Collection[int] = (), aborted: Collection[int] = ()) -> ValidWriteIdList:
    return ValidWriteIdList(
        table="d.t",
        high_watermark=WriteId(high),
        open=frozenset(map(WriteId, opened)),
        aborted=frozenset(map(WriteId, aborted)),
    ).for_compactor()


def listed(*names: str) -> Listing:
    """``base_1`` alone stands for a directory with one file, ``base_1/x`` for this file of it."""
    paths = [name if "/" in name or name[0].isdigit() else f"{name}/bucket_00000" for name in names]
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    return Listing(files=tuple(FileStatus(path=p, length=10) for p in paths), directories=tuple(sorted(tops)))


def context(ids: ValidWriteIdList) -> PlanContext:
    return PlanContext(location="/w/t", txn=TxnId(42), write_ids=ids, row_type="struct<a:int>")


def planned(shape: Shape, ids: ValidWriteIdList, *names: str) -> Plan:
    directory: AcidDirectory = acid_directory(listed(*names), ids, TXNS)
    return plan(directory, shape, context(ids))


D = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000")
STREAM = "delta_0000002_0000006"
WITHIN = "delta_0000003_0000003_0000"  #: the range of STREAM

MAJOR = [
    (see(3), D, "base_0000003_v0000042"),
    (see(9), D, "base_0000003_v0000042"),  # never the watermark
    (see(3), ("base_0000002", *D), "base_0000003_v0000042"),
    (see(7), ("base_0000005", "base_0000002_v0000007"), "base_0000005_v0000042"),
    (see(7, opened=[4, 5, 6]), (D[0], STREAM, "delta_0000007_0000007_0000"), "base_0000001_v0000042"),
    (see(7, opened=[4, 5, 6]), (D[0], STREAM, WITHIN), "base_0000001_v0000042"),
    (see(7, aborted=[4, 5, 6]), (D[0], STREAM), "base_0000006_v0000042"),
    (see(6, aborted=[6]), ("delta_0000001_0000001_0000", "delta_0000006_0000006_0000"), "base_0000001_v0000042"),
    (see(9), ("000000_0", "000001_0"), "base_-9223372036854775808_v0000042"),
    (see(9), ("000000_0", D[0]), "base_0000001_v0000042"),
]
MINOR = [
    (see(3), D, "delta_0000001_0000003_v0000042"),
    (see(9), ("base_0000001", *D), "delta_0000002_0000003_v0000042"),
    (see(7, opened=[4, 5, 6]), (D[0], D[0][:-1] + "1", STREAM), "delta_0000001_0000001_v0000042"),
    (see(7, opened=[4, 5, 6]), (D[0], STREAM, WITHIN), "delta_0000001_0000001_v0000042"),
    (see(5), ("delta_0000001_0000003_v0000007", "delta_0000004_0000004_0000"), "delta_0000001_0000004_v0000042"),
    (see(5, aborted=[2]), (D[0], D[1], "delta_0000003_0000003_0000"), "delta_0000001_0000003_v0000042"),
]


@pytest.mark.parametrize(("ids", "names", "output"), MAJOR)
def test_a_base_is_named_by_what_is_read(ids: ValidWriteIdList, names: tuple[str, ...], output: str) -> None:
    """PROTOCOL 1.2."""
    made = planned(Shape.MAJOR, ids, *names)
    assert made.directory(DeltaKind.INSERT) == output
    assert made.directory(DeltaKind.DELETE) == output


@pytest.mark.parametrize(("ids", "names", "output"), MINOR)
def test_deltas_are_named_by_what_is_read(ids: ValidWriteIdList, names: tuple[str, ...], output: str) -> None:
    """PROTOCOL 1.2."""
    made = planned(Shape.MINOR, ids, *names)
    assert made.directory(DeltaKind.INSERT) == output
    assert made.directory(DeltaKind.DELETE) == f"delete_{output}"


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (Shape.MAJOR, ("base_0000002", "base_0000002")),
        (Shape.MINOR, ("delta_0000001_0000002", "delete_delta_0000001_0000002")),
    ],
)
def test_names_for_hive_3_bear_no_transaction(shape: Shape, names: tuple[str, str]) -> None:
    made = replace(planned(shape, see(2), "delta_0000001_0000001", "delta_0000002_0000002"), layout=Layout.PLAIN)
    assert (made.directory(DeltaKind.INSERT), made.directory(DeltaKind.DELETE)) == names


def test_what_hive_3_reads_is_not_of_a_codec_that_it_does_not_know() -> None:
    directory = acid_directory(listed(*D[:2]), see(2), TXNS)
    for layout, asked in product((Layout.PLAIN, Layout.VISIBILITY), (None, OutputClass(row_index_stride=5000))):
        made = plan(directory, Shape.MAJOR, replace(context(see(2)), layout=layout, output_class=asked))
        found = made.units[0].output_class
        assert (found.avoids if found else frozenset()) == (
            UNKNOWN_TO_ORC_1_5 if layout is Layout.PLAIN else frozenset()
        )
        assert (found.row_index_stride if found else None) == (asked and 5000)


def test_a_minor_reads_deltas_only_and_a_major_all() -> None:
    names = ("base_0000001", D[1], D[2])
    assert set(planned(Shape.MINOR, see(3), *names).inputs) == {D[1], D[2]}
    assert set(planned(Shape.MAJOR, see(3), *names).inputs) == set(names)


def test_units_are_file_numbers_and_events_go_with_their_number() -> None:
    """PROTOCOL 1.3: merge per file number."""
    made = planned(
        Shape.MAJOR,
        see(3),
        "base_0000001/bucket_00000",
        "base_0000001/bucket_00002",
        "delta_0000002_0000002_0000/bucket_00000_0",
        "delete_delta_0000003_0000003_0000/bucket_00002",
        "delete_delta_0000003_0000003_0000/bucket_00007",
    )
    assert [(u.number, len(u.inserts), len(u.deletes)) for u in made.units] == [(0, 2, 0), (2, 1, 1)]
    assert made.input_bytes == 40
    assert {u.staging for u in made.units} == {"/w/t/.compactor_v42"}
    minor = planned(
        Shape.MINOR,
        see(3),
        "delta_0000002_0000002_0000/bucket_00000_0",
        "delete_delta_0000003_0000003_0000/bucket_00007",
    )
    assert [(u.number, len(u.inserts), len(u.deletes)) for u in minor.units] == [(0, 1, 0), (7, 0, 1)]
    assert {u.first_write_id for u in minor.units} == {2}


def test_options_reach_every_unit() -> None:
    directory = acid_directory(listed(*D), see(3), TXNS)
    made = plan(directory, Shape.MAJOR, replace(context(see(3)), small_stripe_bytes=5, full_verify=True))
    assert {(u.small_stripe_bytes, u.full_verify, u.row_type) for u in made.units} == {(5, True, "struct<a:int>")}


def test_a_name_that_cannot_be_read_stops_the_plan() -> None:
    with pytest.raises(BadName, match=r"/w/t: 'delta_oops' begins like .* move it out of the table"):
        planned(Shape.MAJOR, see(3), *D, "delta_oops")


@pytest.mark.parametrize("file", ["part-00000", "data.orc"])
def test_a_file_without_a_number_stops_the_plan(file: str) -> None:
    """Some readers show its rows; a compaction would lose them."""
    with pytest.raises(BadFile, match=f"{file}.*expected a data file named bucket_<N>"):
        planned(Shape.MAJOR, see(3), *D, f"delta_0000001_0000001_0000/{file}")


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(Refused, match="nothing to compact"):
        planned(Shape.MINOR, see(3), "base_0000003")
    with pytest.raises(Refused, match="nothing to compact"):
        planned(Shape.MAJOR, see(3, opened=[1, 2, 3]), *D)
