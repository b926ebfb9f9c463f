"""A worker does what dry runs and explanations predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.answers.preview import preview
from compactor.base.errors import Refused
from compactor.base.ids import WriteId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.read import Table
from compactor.orc.codecs.bloom_filters import stripe_filters
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.chunks import replace_by_slices
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Unit, UnitResult
from compactor.rewrite.publish import stage
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.site import Site
from compactor.worker.ending import Result
from compactor.worker.plan_summary import PlanSummary
from compactor.worker.planning import NoPlan, PlanPreview, preview_plan
from tests.support.passes import compact
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings

NOT_SLICED = {"slices": 0, "delay": None, "output_class": None}
KINDS = [CompactionType.MINOR, CompactionType.MAJOR, CompactionType.REBALANCE]
SMALL = "{small}"  #: bytes of two deltas, and of three
LARGE = "{large}"
LIMITS = {
    "none": {},
    "bytes": {"compactor_max_bytes": LARGE},
    "time": {"compactor_max_time": "1h", "compactor_chunk_bytes": SMALL},
    "bytes and time": {"compactor_max_bytes": LARGE, "compactor_max_time": "1h", "compactor_chunk_bytes": SMALL},
    "slices": {"hive_compactor_max_num_delta": "3"},
    "split": {"compactor_split_bytes": "1000"},
    "slices and split": {"hive_compactor_max_num_delta": "3", "compactor_split_bytes": "1000"},
    "slices and bytes": {"hive_compactor_max_num_delta": "2", "compactor_max_bytes": LARGE},
}


class Recorder(InProcessRunner):
    """Keeps the units of each run of one entry, and their results."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[tuple[Unit, ...]] = []
        self.results: list[list[UnitResult]] = []

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        answers = super().run(jobs)
        for job, answer in zip(jobs, answers, strict=True):
            assert isinstance(answer, list), answer
            self.units.append(tuple(job.units))
            self.results.append(answer)
        return answers

    def assert_did(self, plan: Plan) -> None:
        """The units of the slices ran first, then those that read the output of the slices."""
        runs = iter(zip(self.units, self.results, strict=True))
        if plan.slices:
            units, results = next(runs)
            assert units == tuple(unit for of_slice in plan.slices for unit in of_slice.units)
            plan = replace_by_slices(plan, results)
        units, _ = next(runs)
        assert units == plan.units
        assert next(runs, None) is None


def with_own_write_id(plan: Plan, write_id: WriteId) -> Plan:
    """The worker of a rebalance has allocated this write ID by then, so its snapshot reaches up to it."""
    (unit,) = plan.units
    assert unit.write_ids.high_watermark == write_id - 1
    return replace(plan, units=(replace(unit, write_ids=replace(unit.write_ids, high_watermark=write_id)),))


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview has no staging directory, so nothing random is in a name here."""
    monkeypatch.setattr(stage, "token", lambda: "")


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    """Eight inserts over two file numbers, and a delete."""
    table = make_table(deployment, warehouse)
    for start in range(0, 80, 10):
        insert(deployment, table, range(start, start + 10))
    delete(deployment, table, [3, 14])
    return table


def limited(site: Site, table: Table, values: dict[str, str]) -> Site:
    deltas = Path(table.location).glob("delta_*")
    largest = max(sum(file.stat().st_size for file in delta.glob("bucket_*")) for delta in deltas)
    sizes = {"small": 2 * largest, "large": 3 * largest}
    return with_settings(site, **{name: value.format(**sizes) for name, value in values.items()})


@contextmanager
def blind_query(site: Site, table: Table) -> Iterator[None]:
    """A query that does not see the last insert."""
    [query] = site.metastore.transactions.open("trino", "coordinator")
    insert(site, table, [100, 101])
    yield
    site.metastore.transactions.commit(query)


@pytest.mark.parametrize("delay", [False, True], ids=["", "delay"])
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label.lower())
def test_a_worker_does_what_the_preview_predicts(
    kind: CompactionType, limits: dict[str, str], delay: bool, deployment: Site, table: Table
) -> None:
    """Inputs, output names, shape, slices, units and left-overs, for every kind and limit."""
    site = limited(deployment, table, limits | ({"compactor_naming_delay": "true"} if delay else {}))
    name, runner = kind.label.lower(), Recorder()
    with blind_query(site, table):
        if kind is CompactionType.REBALANCE and "compactor_max_bytes" in limits:
            with pytest.raises(Refused) as refusal:
                preview(site, "default.t", type=name)
            outcome = compact(site, name, runner=runner)
            assert (outcome.result, outcome.message, runner.units) == (Result.REFUSED, str(refusal.value), [])
            return
        found = preview_plan(site, site.target(entity_of(table)), kind)
        (predicted,) = preview(site, "default.t", type=name)
        outcome = compact(site, name, runner=runner)
    assert isinstance(found, PlanPreview)
    plan = found.plan
    runner.assert_did(plan if found.scope.write_id is None else with_own_write_id(plan, found.scope.write_id))
    assert outcome.result is Result.COMPACTED
    assert (predicted.inputs, predicted.outputs) == (outcome.inputs, outcome.output)
    assert (plan.inputs, plan.location, plan.txn) == (outcome.inputs, outcome.location, outcome.txn)
    assert plan.left == outcome.left
    assert predicted.input_bytes == outcome.figures.bytes_in
    assert (predicted.cost.rows_in, predicted.cost.rows_out) == (outcome.figures.rows_in, outcome.figures.rows_out)
    entry = site.metastore.entries.get(outcome.entry.id)
    assert plan.highest_write_id == predicted.highest_write_id == entry.highest_write_id
    assert predicted.summary.slices == len(plan.slices)


def test_every_limit_shows_in_some_plan(deployment: Site, table: Table) -> None:
    """Else the comparison above would compare little."""

    def plan_of(kind: CompactionType, limits: str) -> Plan:
        site = limited(deployment, table, LIMITS[limits])
        found = preview_plan(site, site.target(entity_of(table)), kind)
        assert isinstance(found, PlanPreview)
        return found.plan

    plain = plan_of(CompactionType.MAJOR, "none")
    assert (len(plain.units), plain.chunks, plain.slices, bool(plain.left)) == (2, (), (), False)
    assert plan_of(CompactionType.MINOR, "bytes").left.again
    assert len(plan_of(CompactionType.MINOR, "time").chunks) > 1
    assert len(plan_of(CompactionType.MAJOR, "slices").slices) > 1
    for unit in plan_of(CompactionType.MAJOR, "split").units:
        assert unit.split_bytes == 1000
    (unit,) = plan_of(CompactionType.REBALANCE, "none").units
    assert unit.rebalance is not None
    assert [part.number for part in unit.rebalance.parts] == [0, 1]


def of_json(found: dict[str, object]) -> dict[str, object]:
    return {key: found[key] for key in NOT_SLICED}


def test_a_compaction_of_many_deltas_says_in_how_many_slices(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in range(7):
        insert(deployment, table, [value])
    site = with_settings(deployment, hive_compactor_max_num_delta="3", hive_compactor_delta_num_threshold="2")
    (plain,) = preview(deployment, "default.t", type="major")
    (shown,) = preview(site, "default.t", type="major")
    assert (of_json(plain.to_json()), plain.summary.sentences) == (NOT_SLICED, [])
    assert of_json(shown.to_json()) == NOT_SLICED | {"slices": 2}  # the seventh delta is read as it is
    assert shown.summary.sentences == [
        "2 slices of at most 3 deltas are merged in the staging directory first (hive.compactor.max.num.delta)"
    ]
    (partition,) = explain(site, "default.t").partitions
    assert (partition.surveyed.considered.outcome, partition.summary.slices) == ("major", 2)
    assert of_json(partition.to_json()) == NOT_SLICED | {"slices": 2}
    assert compact(site, "major").output == shown.outputs


def test_what_the_delay_leaves_is_said(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, compactor_naming_delay="true", hive_compactor_delta_num_threshold="1")
    table = make_table(site, warehouse)
    for value in range(2):
        insert(site, table, [value])
    (all_seen,) = preview(site, "default.t", type="major")
    assert all_seen.summary.delay == "every open transaction sees all that is to be merged"
    [query] = site.metastore.transactions.open("trino", "coordinator")
    insert(site, table, [2])
    (shown,) = preview(site, "default.t", type="major")
    left = "write IDs above 2 are left until the transactions that do not see them have ended"
    assert (shown.summary.delay, shown.highest_write_id, shown.inputs) == (left, 2, all_seen.inputs)
    (partition,) = explain(site, "default.t").partitions
    assert of_json(partition.to_json()) == NOT_SLICED | {"delay": left}
    assert partition.summary.sentences == [f"compactor.naming.delay: {left}"]
    assert compact(site, "major").output == shown.outputs
    site.metastore.transactions.commit(query)


def test_where_the_delay_leaves_nothing_a_dry_run_says_so(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, compactor_naming_delay="true")
    table = make_table(site, warehouse)
    [query] = site.metastore.transactions.open("trino", "coordinator")
    for value in range(2):
        insert(site, table, [value])
    found = preview_plan(site, site.target(entity_of(table)), CompactionType.MAJOR)
    (shown,) = preview(site, "default.t", type="major")
    assert shown.nothing is not None
    assert "compactor.naming.delay is set" in shown.nothing
    assert shown.summary.delay == shown.nothing
    assert (shown.inputs, shown.outputs) == ((), ())
    assert found == NoPlan(because=shown.nothing, summary=PlanSummary(delay=shown.nothing))
    outcome = compact(site, "major")
    assert (outcome.result, outcome.message) == (Result.WAITING, shown.nothing)
    site.metastore.transactions.commit(query)


def test_a_rebalance_has_neither_slices_nor_delay(deployment: Site, warehouse: Path) -> None:
    """It waits for every reader and reads all at once, whatever the settings say."""
    site = with_settings(deployment, compactor_naming_delay="true", hive_compactor_max_num_delta="2")
    table = make_table(site, warehouse)
    for value in range(5):
        insert(site, table, [value])
    found = preview_plan(site, site.target(entity_of(table)), CompactionType.REBALANCE)
    assert isinstance(found, PlanPreview)
    assert (found.summary.delay, found.plan.slices) == (None, ())


@pytest.mark.parametrize("kind", ["major", "minor", "rebalance"])
def test_a_request_chooses_the_class_of_files(deployment: Site, warehouse: Path, kind: str) -> None:
    """Hive's WITH OVERWRITE TBLPROPERTIES: stripes of another class are re-encoded, rows stay, and so do their ROW__IDs
    unless it is a rebalance."""
    table = make_table(deployment, warehouse)
    for start in (0, 10):
        insert(deployment, table, range(start, start + 10))
    delete(deployment, table, [3])
    wanted = {
        "tblprops.orc.compress": "ZSTD",
        "tblprops.orc.compress.size": "131072",
        "tblprops.orc.row.index.stride": "2000",
        "tblprops.orc.bloom.filter.columns": "A",
    }
    before = rows_of(deployment, table)
    (found,) = preview(deployment, "default.t", type=kind, properties=wanted)
    assert found.cost.stripes_copied == 0
    assert found.summary.sentences == [
        "orc.compress = ZSTD, orc.compress.size = 131072, orc.row.index.stride = 2000, orc.bloom.filter.columns = a: "
        "stripes of another class are re-encoded"
    ]
    request_compaction(deployment, table="t", type=kind, properties=wanted)
    (outcome,) = run_entries(deployment, list_claimable_ids(deployment), InProcessRunner()).outcomes
    assert outcome.result is Result.COMPACTED
    classes, filtered = set(), set()
    for path in Path(table.location).glob("*_v*/bucket_*"):
        with LocalSource(path) as source:
            tail = read_tail(source)
            classes.add((tail.compression, tail.compression_block_size, tail.row_index_stride))
            if not path.parent.name.startswith("delete_delta"):
                filtered |= {stream.column for stream in stripe_filters(source, tail, 0)[1]}
    assert classes == {(Compression.ZSTD, 131072, 2000)}
    assert filtered == {7}
    after = rows_of(deployment, table)
    assert [row[3:] for row in after] == [row[3:] for row in before]
    assert kind == "rebalance" or after == before


def test_stripes_of_the_class_that_is_asked_for_are_copied(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for start in (0, 5000):
        insert(deployment, table, range(start, start + 5000))
    (found,) = preview(deployment, "default.t", type="major", properties={"tblprops.orc.compress": "ZLIB"})
    (usual,) = preview(deployment, "default.t", type="major")
    assert found.cost == usual.cost


def test_files_of_an_insert_only_table_keep_their_class(deployment: Site, warehouse: Path) -> None:
    made = make_table(deployment, warehouse, transactional_properties="insert_only")
    with pytest.raises(Refused, match=r"orc\.compress = ZSTD: files of an insert-only table are combined as they are"):
        request_compaction(deployment, table=str(made), properties={"tblprops.orc.compress": "ZSTD"})
