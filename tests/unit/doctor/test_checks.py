from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.doctor import checks as doctor
from compactor.metastore.schema.tables import TXNS
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Finding, Level
from compactor.site.site import VERSION, Site
from demo.fixtures import register_fixture
from tests.support.expected import step

CALM = "hive-4.1/f1_basic/s9_major_cleaned"


def found(site: Site, subject: str) -> Finding:
    (finding,) = [f for f in doctor.doctor(site) if f.subject == subject]
    return finding


def test_a_sound_deployment_has_nothing_to_fix(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    findings = doctor.doctor(deployment)
    of_deployment = [f for f in findings if f.subject not in ("java", "pyspark")]
    assert [f for f in of_deployment if f.level is not Level.OK] == []
    assert {"database", "schema", "clock", "mode", "storage", "queue"} <= {f.subject for f in findings}


def test_an_entry_of_a_lost_worker_is_reported(deployment: Site) -> None:
    metastore = deployment.metastore
    entity = Entity(database="default", table="t")
    number = metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-h-manual")
    )
    worker = deployment.identity("worker")
    entry = metastore.claims.claim(worker, VERSION, pool_timeout_ms=0)
    assert entry is not None
    (txn,) = deployment.metastore.transactions.open("ann", "h", agent=worker)
    metastore.claims.record(entry, worker, txn, None, 1)  # type: ignore[arg-type]
    assert found(deployment, "queue").level is Level.OK
    deployment.metastore.transactions.abort(txn, "time-out")
    finding = found(deployment, f"compaction {number}")
    assert finding.level is Level.WARN
    assert "default.t" in finding.found


def test_a_transaction_open_for_days_is_reported(deployment: Site) -> None:
    (txn,) = deployment.metastore.transactions.open("ann", "laptop")
    assert found(deployment, "transactions").level is Level.OK
    long_ago = deployment.metastore.now_ms() - 3 * 86_400_000
    with deployment.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(txn == TXNS.c.TXN_ID).values(TXN_STARTED=long_ago))
    finding = found(deployment, "transactions")
    assert finding.level is Level.WARN
    assert f"{txn} of ann@laptop" in finding.found


def test_many_aborts_are_reported(deployment: Site) -> None:
    settings = {"compactor.mode": "clean", "hive.compactor.abortedtxn.threshold": "1"}
    site = replace(deployment, settings=Settings.of([Layer(name="flag", values=settings)]))
    for txn in site.metastore.transactions.open("ann", "h", count=2):
        write_id = site.metastore.write_ids.allocate(txn, "default", "t")
        site.metastore.write_ids.add_component(txn, Entity(database="default", table="t"), "i", write_id)
        site.metastore.transactions.abort(txn, "by hand")
    finding = found(site, "aborted transactions")
    assert finding.level is Level.WARN
    assert "default.t (2)" in finding.found


def test_an_ignored_property_is_reported(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step(CALM), warehouse)
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.spark.jars", "/tmp/x.jar")
    finding = found(deployment, "table properties")
    assert finding.level is Level.WARN
    assert "compactor.spark.jars" in finding.found


def test_acting_without_a_state_fails_and_observing_does_not(deployment: Site) -> None:
    assert found(replace(deployment, state=None), "state").level is Level.FAIL
    observing = Settings.of([Layer(name="flag", values={"compactor.mode": "observe"})])
    assert found(replace(deployment, state=None, settings=observing), "state").level is Level.OK


def test_a_check_that_fails_is_a_finding_and_the_others_still_run(
    deployment: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise DatabaseUnavailable("database sqlite:///x: away")

    monkeypatch.setattr(deployment.metastore, "now_ms", away)
    findings = doctor.doctor(deployment)
    failed = [f.subject for f in findings if f.level is Level.FAIL]
    assert "clock" in failed
    assert "queue" in failed
    assert found(deployment, "storage").level is Level.OK


@pytest.mark.parametrize(
    ("text", "version", "level"),
    [
        ('openjdk version "21.0.2" 2024-01-16', "21", Level.OK),
        ('java version "1.8.0_292"', "8", Level.WARN),
        ("no java here", "none", Level.WARN),
    ],
)
def test_the_java_that_spark_would_use(
    text: str, version: str, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (java,) = [f for f in doctor.machine() if f.subject == "java"]
    assert java.level is level
    assert version in java.found
