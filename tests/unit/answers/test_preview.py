from __future__ import annotations

from pathlib import Path

import pytest

from compactor.answers.preview import preview
from compactor.base.errors import BadFile, NotFound, Refused
from compactor.batches.driver import run_entries
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.embedded import NewTable
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.passes import compact
from tests.support.tables import delete, insert, make_table, story


def tree(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*")}


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_what_is_foretold_is_what_happens(kind: str, deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    before = tree(warehouse)
    (told,) = preview(deployment, "default.f1_basic", type=kind)
    assert tree(warehouse) == before
    (asked,) = request_compaction(deployment, table="default.f1_basic", type=kind)
    assert asked.entry_id is not None
    (outcome,) = run_entries(deployment, [asked.entry_id], InProcessRunner()).outcomes
    assert told.outputs == outcome.output
    assert (told.cost.rows_in, told.cost.rows_out) == (outcome.figures.rows_in, outcome.figures.rows_out)
    assert told.cost.stripes_copied == outcome.figures.stripes_copied
    assert told.cost.stripes_reencoded == outcome.figures.stripes_encoded
    assert told.input_bytes == outcome.figures.bytes_in
    assert told.highest_write_id == deployment.metastore.entries.get(asked.entry_id).highest_write_id


@pytest.mark.parametrize("gone", [range(0), range(1), range(10)], ids=["none", "some", "all"])
@pytest.mark.parametrize("below", [False, True], ids=["no base", "base"])
def test_the_directories_of_a_minor_go_by_what_is_left_to_write(
    gone: range, below: bool, deployment: Site, warehouse: Path
) -> None:
    """Events that are applied within the range need no directory."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, [100, 101])
    if below:
        insert(deployment, table, [102])
        compact(deployment)
        delete(deployment, table, [100])
    insert(deployment, table, range(10))
    delete(deployment, table, gone)
    (told,) = preview(deployment, "default.t", type="minor")
    assert told.outputs == compact(deployment, "minor").output


def test_a_rebalance_is_foretold_with_the_next_write_id(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    story(deployment, table)
    (told,) = preview(deployment, "default.t", type="rebalance")
    outcome = compact(deployment, "rebalance")
    assert told.outputs == outcome.output
    assert told.highest_write_id == deployment.metastore.entries.get(outcome.entry.id).highest_write_id
    assert (told.cost.rows_in, told.cost.rows_out) == (outcome.figures.rows_in, outcome.figures.rows_out)
    assert (told.cost.stripes_copied, told.cost.bytes_copied) == (0, 0)
    assert told.cost.stripes_reencoded == outcome.figures.stripes_encoded
    assert told.cost.bytes_reencoded > 0
    assert told.input_bytes == outcome.figures.bytes_in


@pytest.mark.parametrize("kind", ["minor", "major", "rebalance"])
def test_an_empty_table_is_no_error(kind: str, deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    (told,) = preview(deployment, "default.t", type=kind)
    assert told.nothing is not None
    assert (told.outputs, told.error) == ((), None)


def test_without_a_type_it_is_what_the_initiator_would_ask_for(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    (told,) = preview(deployment, "default.f1_basic")
    assert told.type is CompactionType.MAJOR
    assert "hive.compactor.delta.pct.threshold" in told.because
    assert "base_0000006_v0000031" in told.inputs


def test_partitions_one_or_all(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    assert len(preview(deployment, "default.f2_part")) == 6
    (told,) = preview(deployment, "default.f2_part", partition="p=x,q=1")
    assert told.entity.partition == "p=x/q=1"
    assert told.to_json()["partition"] == "p=x/q=1"
    with pytest.raises(NotFound, match="p=nope"):
        preview(deployment, "default.f2_part", partition="p=nope,q=1")


def test_a_partition_that_cannot_be_read_says_so_and_the_others_go_on(deployment: Site, warehouse: Path) -> None:
    """Bad input: a truncated file of one partition."""
    register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    for file in (warehouse / "f2_part" / "p=y").rglob("bucket_0*"):
        file.write_bytes(file.read_bytes()[:-20])
    told = {p.entity.partition: p for p in preview(deployment, "default.f2_part", type="major")}
    assert "bucket_0" in (told["p=y/q=2"].error or "")
    assert told["p=x/q=1"].error is None
    assert told["p=x/q=1"].outputs
    with pytest.raises(BadFile):
        preview(deployment, "default.f2_part", partition="p=y/q=2", type="major")


def test_nothing_to_merge_is_said(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s9_major_cleaned"), warehouse)
    (told,) = preview(deployment, "default.f1_basic", type="major")
    assert told.nothing is not None
    assert told.outputs == ()


def test_what_is_not_compacted_is_refused_by_name(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s9_major_cleaned"), warehouse)
    embedded = deployment.metastore.embedded_catalog
    embedded.create_table(NewTable("default", "plain", str(warehouse / "plain"), []))
    acid = {"transactional": "true"}
    (warehouse / "avro").mkdir()
    embedded.create_table(
        NewTable("default", "avro", str(warehouse / "avro"), [], parameters=acid, input_format="Avro")
    )
    with pytest.raises(Refused, match="not transactional"):
        preview(deployment, "default.plain")
    with pytest.raises(Refused, match="expected the ORC input format, found Avro"):
        preview(deployment, "default.avro")
    embedded.create_table(
        NewTable("default", "by", str(warehouse / "by"), [], parameters={"transactional": "true"}, buckets=2)
    )
    with pytest.raises(Refused, match="is bucketed"):
        preview(deployment, "default.by", type="rebalance")
