from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.answers.alarms import raised_alarms
from compactor.answers.readings import take_readings
from compactor.base.errors import DatabaseUnavailable
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.doctor import checks as doctor
from compactor.doctor.checks import check_memory
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.schema.tables import TXNS
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Finding, Level
from compactor.site.mark_files import MarkFiles
from compactor.site.restored_database import must_be_newest
from compactor.site.site import VERSION, Site
from demo.fixtures import register_fixture
from tests.support.backups import Backup
from tests.support.expected import step
from tests.support.tables import insert, make_table, with_settings

CALM = "hive-4.1/f1_basic/s9_major_cleaned"


def finding_of(site: Site, subject: str) -> Finding:
    (finding,) = [f for f in doctor.doctor(site) if f.subject == subject]
    return finding


def test_a_sound_deployment_has_nothing_to_fix(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    findings = doctor.doctor(deployment)
    of_deployment = [f for f in findings if f.subject not in ("java", "spark-submit")]
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
    assert finding_of(deployment, "queue").level is Level.OK
    deployment.metastore.transactions.abort(txn, "time-out")
    finding = finding_of(deployment, f"compaction {number}")
    assert finding.level is Level.WARN
    assert "default.t" in finding.found


def test_a_transaction_open_for_days_is_reported(deployment: Site) -> None:
    (txn,) = deployment.metastore.transactions.open("ann", "laptop")
    assert finding_of(deployment, "transactions").level is Level.OK
    long_ago = deployment.metastore.now_ms() - 3 * 86_400_000
    with deployment.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(txn == TXNS.c.TXN_ID).values(TXN_STARTED=long_ago))
    finding = finding_of(deployment, "transactions")
    assert finding.level is Level.WARN
    assert f"{txn} of ann@laptop" in finding.found


def test_many_aborts_are_reported(deployment: Site) -> None:
    settings = {"compactor.mode": "clean", "hive.compactor.abortedtxn.threshold": "1"}
    site = replace(deployment, settings=Settings.of([Layer(name="flag", values=settings)]))
    for txn in site.metastore.transactions.open("ann", "h", count=2):
        write_id = site.metastore.write_ids.allocate(txn, "default", "t")
        site.metastore.write_ids.add_component(txn, Entity(database="default", table="t"), "i", write_id)
        site.metastore.transactions.abort(txn, "by hand")
    finding = finding_of(site, "aborted transactions")
    assert finding.level is Level.WARN
    assert "default.t (2)" in finding.found


def test_an_ignored_property_is_reported(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step(CALM), warehouse)
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.spark.jars", "/tmp/x.jar")
    finding = finding_of(deployment, "table properties")
    assert finding.level is Level.WARN
    assert "compactor.spark.jars" in finding.found


def test_acting_without_a_state_fails_and_observing_does_not(deployment: Site) -> None:
    assert finding_of(replace(deployment, state=None), "state").level is Level.FAIL
    observing = Settings.of([Layer(name="flag", values={"compactor.mode": "observe"})])
    assert finding_of(replace(deployment, state=None, settings=observing), "state").level is Level.OK


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
    assert finding_of(deployment, "storage").level is Level.OK


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


def test_a_disagreement_is_a_finding_and_an_alarm(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 11.1."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    initiate(deployment)
    assert [finding.level for finding in doctor.check_agreement(deployment)] == [Level.OK]
    (Path(table.location) / "delta_0000009_0000009_0000").mkdir()
    insert(deployment, table, [2])  # what has not changed is not looked at until the next full sweep
    initiate(deployment)
    (finding,) = doctor.check_agreement(deployment)
    assert finding.level is Level.FAIL
    assert "delta_0000009_0000009_0000: write ID 9 was never allocated" in finding.found
    (alarm,) = raised_alarms(take_readings(deployment), deployment.settings)
    assert (alarm.name, alarm.level, alarm.value) == ("disagreements", Level.FAIL, 1)


def test_a_table_for_itself_is_well(deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    assert [finding.level for finding in doctor.check_ground(deployment)] == [Level.OK]


def test_overlaps_fail_and_plain_tables_around_warn(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    create = deployment.metastore.embedded_catalog.create_table
    create(NewTable("default", "b", f"{table.location}/x", table.columns, parameters={"transactional": "true"}))
    create(NewTable("default", "around", str(warehouse), table.columns))
    refused, warned = doctor.check_ground(deployment)
    assert (refused.level, warned.level) == (Level.FAIL, Level.WARN)
    assert "default.t: does not have its directory" in refused.found
    assert "default.b: does not have its directory" in refused.found
    assert "default.around lies around it" in warned.found


def test_each_state_of_the_memory(deployment: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2: doctor says so if nothing is remembered, and by how much a restored database is behind."""
    site = with_settings(deployment)
    (none,) = check_memory(replace(site, memory=None))
    assert (none.level, "a restore of an older one would go unnoticed" in none.found) == (Level.WARN, True)
    (observing,) = check_memory(with_settings(replace(site, memory=None), compactor_mode="observe"))
    assert observing.level is Level.OK
    (begins,) = check_memory(site)
    assert (begins.level, "has no marks yet" in begins.found) == (Level.OK, True)
    backup = Backup(tmp_path / "metastore.db")
    for _ in range(2):
        backup.take()
        (txn,) = site.metastore.transactions.open("ann", "h")
        site.metastore.transactions.commit(txn)
        must_be_newest(site)
        (well,) = check_memory(site)
        assert (well.level, "agrees with the database; its newest file is from 20" in well.found) == (Level.OK, True)
    backup.restore()
    (restored,) = check_memory(site)
    assert (restored.level, restored.subject) == (Level.FAIL, "restored metastore")
    assert "by 1 transaction (remembered 20" in restored.found
    assert "newest transaction: 1 in the database, 2 remembered" in restored.found
    assert site.memory is not None
    newest = max(Path(site.memory.place).iterdir())
    newest.write_text("{")
    (damaged,) = check_memory(
        replace(site, memory=MarkFiles(site.storage, f"{tmp_path}/metastore.db.memory", "default"))
    )
    assert (damaged.level, newest.name in damaged.found) == (Level.FAIL, True)
