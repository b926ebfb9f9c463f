"""Very many deltas: what is merged before, what the compaction reads then, and that nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import DeltaKind, Layout, staging_name
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import VerificationFailed
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.slices import plan_slices, replace_by_slices
from compactor.rewrite.plan.unit import Figures, Output, Shape, UnitResult
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support import insert_only
from tests.support.passes import clean_all, compact, rows_without_visibility, with_storage
from tests.support.tables import delete, insert, make_table, rows_of, story, with_settings
from tests.support.watching import names_in

STAGING = staging_name(TxnId(42))


def planned(
    names: Sequence[str], max_deltas: int, shape: Shape = Shape.MAJOR, layout: Layout = Layout.VISIBILITY
) -> Plan:
    ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(99)).for_compactor()
    files = tuple(FileStatus(path=f"{name}/bucket_00000", length=10) for name in names)
    listing = Listing(files=files, directories=tuple(sorted(names)))
    directory = acid_directory(listing, ids, ValidTxnList(high_watermark=TxnId(99)))
    context = PlanContext(location="/w/t", txn=TxnId(42), write_ids=ids, row_type="struct<a:int>", layout=layout)
    return plan_slices(plan(directory, shape, context), directory, max_deltas, context)


def deltas(*numbers: int) -> list[str]:
    return [f"delta_{n:07d}_{n:07d}_0000" for n in numbers]


@pytest.mark.parametrize("shape", Shape)
def test_so_many_are_read_at_once_and_more_are_sliced(shape: Shape) -> None:
    assert planned(deltas(1, 2, 3), 3, shape).slices == ()
    of_four = planned(deltas(1, 2, 3, 4), 3, shape)
    assert [one.inputs for one in of_four.slices] == [tuple(deltas(1, 2, 3))]  # the last is alone and stays
    assert of_four.inputs == tuple(deltas(1, 2, 3, 4))
    assert {one.shape for one in of_four.slices} == {Shape.MINOR}


def test_both_kinds_and_the_statements_of_a_transaction_stay_together() -> None:
    """HIVE-25441: a slice never ends within a range."""
    names = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "delta_0000002_0000002_0001"]
    names += ["delete_delta_0000002_0000002_0000", *deltas(3, 4)]
    assert [len(one.inputs) for one in planned(names, 2).slices] == [3, 2]


def test_hive_2s_events_are_judged_all_together() -> None:
    assert planned(["delta_0000001_0000001", "delta_0000002_0000002"], 1, layout=Layout.VERSION_1).slices == ()


def test_what_came_of_a_slice_is_read_in_its_place() -> None:
    names = ["base_0000001", *deltas(2, 3, 4, 5, 6), "delete_delta_0000003_0000003_0000"]
    whole = planned(names, 2)
    of_third = ("delete_delta_0000003_0000003_0000", "delta_0000003_0000003_0000")
    assert [one.inputs for one in whole.slices] == [of_third, tuple(deltas(4, 5))]
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
    whole = planned(["base_0000001", *deltas(2, 3, 4, 5)], 2)
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
