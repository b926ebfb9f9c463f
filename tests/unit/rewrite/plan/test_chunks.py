"""Deltas that a bounded request merges, as golden cases: names with their bytes, a bound, the deltas that come of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import DeltaKind, Layout, staging_name
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import Refused, VerificationFailed
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.rewrite.plan.chunks import (
    Bound,
    completed_chunks,
    cut_runs,
    must_fit,
    plan_slices,
    plan_within_bound,
    replace_by_slices,
)
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import NOTHING_LEFT, Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult, skipped_result
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support import insert_only
from tests.support.passes import clean_all, compact, rows_without_visibility, with_storage
from tests.support.tables import delete, insert, make_table, rows_of, story, with_settings
from tests.support.watching import names_in

HOUR = 3_600_000
STAGING = staging_name(TxnId(42))


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


def planned(
    names: Sequence[str], max_deltas: int, shape: Shape = Shape.MAJOR, layout: Layout = Layout.VISIBILITY
) -> Plan:
    ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(99)).for_compactor()
    files = tuple(FileStatus(path=f"{name}/bucket_00000", length=10) for name in names)
    listing = Listing(files=files, directories=tuple(sorted(names)))
    directory = acid_directory(listing, ids, ValidTxnList(high_watermark=TxnId(99)))
    context = PlanContext(location="/w/t", txn=TxnId(42), write_ids=ids, row_type="struct<a:int>", layout=layout)
    return plan_slices(plan(directory, shape, context), directory, max_deltas, context)


def delta_names(*numbers: int) -> list[str]:
    return [f"delta_{n:07d}_{n:07d}_0000" for n in numbers]


@pytest.mark.parametrize("shape", Shape)
def test_so_many_are_read_at_once_and_more_are_sliced(shape: Shape) -> None:
    assert planned(delta_names(1, 2, 3), 3, shape).slices == ()
    of_four = planned(delta_names(1, 2, 3, 4), 3, shape)
    assert [one.inputs for one in of_four.slices] == [tuple(delta_names(1, 2, 3))]  # the last is alone and stays
    assert of_four.inputs == tuple(delta_names(1, 2, 3, 4))
    assert {one.shape for one in of_four.slices} == {Shape.MINOR}


def test_both_kinds_and_the_statements_of_a_transaction_stay_together() -> None:
    """HIVE-25441: a slice never ends within a range."""
    names = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000002_0000002_0001"]
    names += ["delete_delta_0000002_0000002_0000", *delta_names(3, 4)]
    assert [len(one.inputs) for one in planned(names, 2).slices] == [3, 2]


def test_hive_2s_events_are_judged_all_together() -> None:
    assert planned(["delta_0000001_0000001", "delta_0000002_0000002"], 1, layout=Layout.VERSION_1).slices == ()


def test_what_came_of_a_slice_is_read_in_its_place() -> None:
    names = ["base_0000001", *delta_names(2, 3, 4, 5, 6), "delete_delta_0000003_0000003_0000"]
    whole = planned(names, 2)
    of_third = ("delete_delta_0000003_0000003_0000", "delta_0000003_0000003_0000")
    assert [one.inputs for one in whole.slices] == [of_third, tuple(delta_names(4, 5))]
    figures = Figures(rows_in=5, rows_deleted=2, rows_out=3, files_in=2, files_out=1, bytes_in=20, bytes_out=7)
    kinds = (DeltaKind.INSERT, DeltaKind.DELETE)
    made = tuple(
        Output(kind=kind, path=f"/local/t/{STAGING}/attempts/0/{kind.name}", number=0, rows=3, length=7, crc32=0)
        for kind in kinds
    )
    nothing = Figures(rows_in=4, rows_invisible=4, files_in=2, bytes_in=20)
    after = replace_by_slices(
        whole,
        [UnitResult(number=0, outputs=made, figures=figures), UnitResult(number=0, outputs=(), figures=nothing)],
    )
    (unit,) = after.units
    assert [source.path for source in unit.inserts] == [
        "base_0000001/bucket_00000",
        "delta_0000002_0000002_0000/bucket_00000",
        f"{STAGING}/attempts/0/INSERT",
        "delta_0000006_0000006_0000/bucket_00000",
    ]
    assert [source.path for source in unit.deletes] == [f"{STAGING}/attempts/0/DELETE"]
    assert (after.slices, after.inputs, after.highest_write_id) == ((), whole.inputs, 6)
    ended = Figures(rows_in=6, rows_deleted=2, rows_invisible=4, files_in=3, bytes_in=33)
    assert after.before == ended


def test_a_slice_that_lost_a_row_is_not_read_on() -> None:
    """PROTOCOL 4: per file, also where another slice doubled one."""
    whole = planned(["base_0000001", *delta_names(2, 3, 4, 5)], 2)
    results = [UnitResult(number=0, outputs=(), figures=Figures(rows_in=2, rows_deleted=deleted)) for deleted in (1, 3)]
    with pytest.raises(VerificationFailed, match="2 rows were read and 0 written, 1 are deleted"):
        replace_by_slices(whole, results)


# --- a worker's whole way ---------------------------------------------------------------------------------------------


class Looking:
    """Runs units in this process, and keeps how many files each of them reads."""

    application: str | None = None

    def __init__(self, after: Callable[[], object] = lambda: None) -> None:
        self.read: list[list[int]] = []
        self._after = after

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        self.read.append([len(unit.inserts) + len(unit.deletes) for job in jobs for unit in job.units])
        answers = InProcessRunner().run(jobs)
        self._after()
        return answers


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_max_num_delta="3")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    """A base, and above it more deltas and delete deltas, of which some aim at each other and one was aborted."""
    table = make_table(site, warehouse)
    insert(site, table, range(2000, 2010))
    insert(site, table, range(2010, 2020))
    assert compact(site).result is Result.COMPACTED
    clean_all(site)
    story(site, table)
    delete(site, table, [2003, 12])
    return table


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_slices_change_nothing_that_anybody_sees(site: Site, table: Table, kind: str) -> None:
    wanted, runner = rows_of(site, table), Looking()
    outcome = compact(site, kind, runner=runner, full=True)
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    names = [name.partition("_v")[0] for name in outcome.output]
    assert names == (["base_0000013"] if kind == "major" else ["delta_0000003_0000013", "delete_delta_0000003_0000013"])
    slices, last = runner.read
    assert len(slices) >= 3 * 2  # of both file numbers
    assert max(slices) <= 3
    assert max(last) <= len(slices) + 2
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    figures = outcome.figures
    assert figures.rows_in == figures.rows_out + figures.rows_deleted + figures.rows_invisible
    assert (figures.rows_out, figures.rows_deleted) == ((83, 7) if kind == "major" else (64, 6))
    assert len(outcome.inputs) == (11 if kind == "major" else 10)
    clean_all(site)
    assert not [name for name in names_in(Path(table.location)) if name.startswith(".")]
    assert rows_of(site, table) == wanted


def test_of_rows_that_are_all_gone_nothing_is_left_to_read(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for start in range(0, 50, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, range(50))
    everything = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_max_num_delta="2")
    assert compact(everything, "minor").result is Result.COMPACTED
    assert rows_of(site, table) == rows_without_visibility(site, table) == []
    clean_all(site)
    assert compact(everything, "major").result is Result.COMPACTED or rows_of(site, table) == []


@pytest.mark.parametrize("file_format", insert_only.INPUTS)
def test_insert_only_tables(site: Site, warehouse: Path, file_format: FileFormat) -> None:
    table = insert_only.make_insert_only(site, warehouse, file_format)
    insert_only.story(site, table, file_format)
    wanted, runner = insert_only.rows_of(site, table, file_format), Looking()
    assert compact(site, "major", runner=runner).result is Result.COMPACTED
    assert (len(runner.read), max(runner.read[0])) == (2, 3)
    assert insert_only.rows_of(site, table, file_format) == wanted


def test_a_slice_that_fails_leaves_nothing(site: Site, table: Table) -> None:
    before, wanted = names_in(Path(table.location)), rows_of(site, table)
    (bad,) = Path(table.location).glob("delta_0000008*/bucket_00001")
    content = bad.read_bytes()
    bad.write_bytes(content[:-20])
    assert compact(site).result is Result.FAILED
    bad.write_bytes(content)
    assert names_in(Path(table.location)) == before
    assert rows_of(site, table) == wanted


def test_room_for_slices_is_looked_for_first(site: Site, table: Table) -> None:
    """Their outputs are staged besides what the compaction itself makes."""
    size = sum(file.stat().st_size for file in Path(table.location).rglob("bucket_*"))

    class Full(LocalStorage):
        def free_bytes(self, path: str) -> int:
            return size + 100

    outcome = compact(with_storage(site, Full()))
    assert outcome.result is Result.FAILED
    assert "make room and request it again" in outcome.message
    enough = with_settings(with_storage(site, Full()), hive_txn_opentxn_timeout="1ms")
    assert compact(enough).result is Result.COMPACTED
