from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.base.errors import NotFound, Refused
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from demo.fixtures import register_fixture
from tests.support.expected import step

DUE, CALM = "hive-4.1/f1_basic/s10_dml_over_base", "hive-4.1/f1_basic/s9_major_cleaned"


def test_it_explains_the_decision_and_what_would_change_it(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(DUE), warehouse)
    explanation = explain(deployment, "default.f1_basic")
    (partition,) = explanation.partitions
    explained = partition.to_json()
    assert explained["partition"] is None
    assert explained["outcome"] == "major"
    assert "hive.compactor.delta.pct.threshold" in str(explained["because"])
    assert explained["directories"] == 5
    assert explained["deltas"] == 4
    numbers = explained["numbers"]
    assert isinstance(numbers, dict)
    assert numbers["deltas"] == 4
    assert explained["flips"]


def test_everything_is_in_the_json(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    explained = json.loads(json.dumps(explain(deployment, "default.f2_part").to_json()))
    assert explained["table"] == "default.f2_part"
    assert explained["mode"] == "clean"
    assert explained["partition_keys"] == ["p", "q"]
    assert len(explained["partitions"]) == 6
    assert all(isinstance(p["bytes"], int) for p in explained["partitions"])
    assert explained["unnamed_partitions"] is None


def test_settings_that_differ_and_properties_that_are_ignored(deployment: Site, warehouse: Path) -> None:
    """Bad input: a property that tries to pass spark.jars is ignored and shown with the reason."""
    table = register_fixture(deployment.metastore, step(CALM), warehouse)
    embedded = deployment.metastore.embedded_catalog
    for key, value in (
        ("compactorthreshold.hive.compactor.delta.num.threshold", "3"),
        ("compactor.spark.jars", "/tmp/evil.jar"),
        ("compactor.spark.executor.memory", "8g"),
        ("compactor.hive.tez.container.size", "1"),
    ):
        table = embedded.set_table_parameter(table, key, value)
    explanation = explain(deployment, "default.f1_basic")
    changed = {c.key: (c.value, c.source) for c in explanation.settings}
    assert changed["hive.compactor.delta.num.threshold"] == ("3", "table")
    assert dict(explanation.spark_conf) == {"spark.executor.memory": "8g"}
    reasons = dict(explanation.ignored)
    assert "load code" in reasons["table: compactor.spark.jars"]
    assert "table: compactor.hive.tez.container.size" in reasons


def test_a_request_that_waits_for_a_worker(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(DUE), warehouse)
    request_compaction(deployment, table="default.f1_basic")
    (partition,) = explain(deployment, "default.f1_basic").partitions
    (queued,) = partition.queue
    assert queued.waits_for == "a worker"
    assert partition.surveyed.considered.outcome == "skipped"


def test_a_reader_that_blocks_the_cleaner_is_shown(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 7: the transaction that holds the gate is shown."""
    register_fixture(deployment.metastore, step(DUE), warehouse)
    (reader,) = deployment.metastore.transactions.open("ann", "laptop")
    (asked,) = request_compaction(deployment, table="default.f1_basic")
    assert asked.entry_id is not None
    done = run_entries(deployment, [asked.entry_id], InProcessRunner())
    assert not done.failed
    (partition,) = explain(deployment, "default.f1_basic").partitions
    (queued,) = partition.queue
    assert [(b.txn, b.user, b.host) for b in queued.blockers] == [(reader, "ann", "laptop")]
    assert str(reader) in (queued.waits_for or "")
    deployment.metastore.transactions.commit(reader)
    (partition,) = explain(deployment, "default.f1_basic").partitions
    assert partition.queue[0].blockers == ()
    (run,) = partition.runs
    assert run["entry_id"] == asked.entry_id
    assert run["directories_after"] == 1


def test_the_mode_says_what_compactor_may_do(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step(CALM), warehouse)
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", "observe")
    explanation = explain(deployment, "default.f1_basic")
    assert (explanation.mode, explanation.mode_source) == ("observe", "table")
    assert any("writes nothing" in sentence for sentence in explanation.protections)
    strict = Settings.of([Layer(name="flag", values={"compactor.mode": "clean", "hive.compactor.cleaner.on": "true"})])
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", None)
    explanation = explain(replace(deployment, settings=strict), "default.f1_basic")
    assert any("Hive's own cleaner" in sentence for sentence in explanation.protections)


def test_aborts_of_unnamed_partitions_are_shown(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    metastore = deployment.metastore
    (txn,) = metastore.transactions.open("ann", "h")
    write_id = metastore.write_ids.allocate(txn, "default", "f2_part")
    metastore.write_ids.add_component(txn, Entity(database="default", table="f2_part"), "i", write_id)
    metastore.transactions.abort(txn, "by hand")
    unnamed = explain(deployment, "default.f2_part").unnamed
    assert unnamed is not None
    assert unnamed.outcome in ("skipped", "notneeded")


def test_it_works_without_our_own_state(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(DUE), warehouse)
    (partition,) = explain(replace(deployment, state=None), "default.f1_basic").partitions
    assert partition.runs == ()
    assert partition.surveyed.considered.outcome == "major"


def test_unknown_tables_and_bad_names(deployment: Site) -> None:
    with pytest.raises(NotFound, match="default.nope"):  # noqa: RUF043
        explain(deployment, "default.nope")
    with pytest.raises(Refused, match="DATABASE.TABLE"):  # noqa: RUF043
        explain(deployment, "a.b.c")
