"""On the embedded metastore; ``tests/contract/test_doctor.py`` sees each check trip on every database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.doctor import metastore_checks as doctor_metastore
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Level
from compactor.site.site import Site
from tests.support.tables import with_settings


def test_mode_observe_needs_no_rights_and_no_protections(deployment: Site) -> None:
    observer = with_settings(deployment, compactor_mode="observe")
    assert [f.subject for f in doctor_metastore.check_rights(observer)] == ["mode"]
    assert [f.subject for f in doctor_metastore.check_hive_roles(observer)] == ["hive's roles"]


def test_a_mode_for_a_database_that_is_not_there_is_named(deployment: Site) -> None:
    """``prodd = "observe"`` would leave ``prod`` open."""
    deployment.metastore.embedded_catalog.create_database("default", "/warehouse")
    layers = [Layer(name="compactor.toml", values={"compactor.mode": "clean"})]
    misspelt = replace(deployment, settings=Settings.of(layers, {"defualt": "observe", "def*": "observe"}))
    said = [finding for finding in doctor_metastore.check_rights(misspelt) if finding.level is Level.WARN]
    assert [finding.found for finding in said] == [
        "database_modes names defualt, but no database has that name; did you mean default?"
    ]


def test_a_cleaner_is_wanted(deployment: Site) -> None:
    compacting = with_settings(deployment, compactor_mode="compact")
    *_, alone = doctor_metastore.check_hive_roles(compacting)
    assert (alone.level, alone.fix) == (
        Level.WARN,
        "set compactor.mode to clean, or metastore.compactor.cleaner.on=true in Hive",
    )
    *_, cleans = doctor_metastore.check_hive_roles(deployment)
    assert "only ours removes directories" in cleans.found


def test_a_database_file_that_cannot_be_written(deployment: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compactor.database.privileges.os.access", lambda path, mode: False)
    *_, finding = doctor_metastore.check_rights(deployment)
    assert finding.level is Level.FAIL
    assert f"writing the file {Path(deployment.metastore.database.path)}" in finding.found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, "no configuration turns off"),
        ({"hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager"}, "no configuration turns off"),
        ({"hive.txn.manager": "a.DummyTxnManager"}, "hive.txn.manager is a.DummyTxnManager (from hive-site.xml)"),
        ({"hive.support.concurrency": "false"}, "hive.support.concurrency is false (from hive-site.xml)"),
    ],
)
def test_a_hive_that_keeps_no_transactions_is_told(deployment: Site, values: dict[str, str], found: str) -> None:
    settings = Settings.of([Layer(name="hive-site.xml", values=values)])
    (finding,) = doctor_metastore.check_transaction_manager(replace(deployment, settings=settings))
    assert finding.found.startswith(found)
    assert finding.level is (Level.OK if found == "no configuration turns off" else Level.WARN)


def test_an_empty_metastore_is_sound(deployment: Site) -> None:
    checks = (
        doctor_metastore.check_database,
        doctor_metastore.check_clock,
        doctor_metastore.check_growth,
        doctor_metastore.check_queue,
        doctor_metastore.check_transactions,
    )
    assert {finding.level for check in checks for finding in check(deployment)} == {Level.OK}
