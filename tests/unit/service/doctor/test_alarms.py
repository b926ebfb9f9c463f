from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.compaction.states import State
from compactor.rewrite.run.runner import InProcessRunner
from compactor.service.batches.driver import run_entries
from compactor.service.doctor.alarms import Readings, raised_alarms, take_readings
from compactor.service.doctor.finding import Level
from compactor.service.mark_files import MarkFiles
from compactor.service.memory import must_be_newest
from compactor.service.requests.request import request_compaction
from compactor.service.site import Site
from compactor.settings.precedence import Layer, Settings
from tests.support.backups import Backup
from tests.support.tables import insert, make_table

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("changed", "name", "level"),
    [
        ({"oldest_initiated_ms": HOUR + 1}, "oldest_initiated_compaction", Level.WARN),
        ({"oldest_initiated_ms": 12 * HOUR + 1}, "oldest_initiated_compaction", Level.FAIL),
        ({"oldest_ready_for_cleaning_ms": 24 * HOUR + 1}, "oldest_uncleaned_compaction", Level.WARN),
        ({"oldest_open_txn_ms": 24 * HOUR + 1}, "oldest_open_transaction", Level.WARN),
        ({"oldest_open_txn_ms": 72 * HOUR + 1}, "oldest_open_transaction", Level.FAIL),
        ({"oldest_aborted_txn_ms": 24 * HOUR + 1}, "oldest_uncleaned_abort", Level.WARN),
        ({"oldest_aborted_txn_ms": 48 * HOUR + 1}, "oldest_uncleaned_abort", Level.FAIL),
        ({"completed_txn_components": 500_001}, "completed_txn_components", Level.WARN),
        ({"completed_txn_components": 1_000_001}, "completed_txn_components", Level.FAIL),
        ({"txn_to_write_id": 500_001}, "txn_to_write_id", Level.WARN),
        ({"txn_to_write_id": 1_000_001}, "txn_to_write_id", Level.FAIL),
        ({"failed": 2, "succeeded": 98}, "failed_compaction_ratio", Level.WARN),
        ({"most_aborted": 1_501}, "tables_with_many_aborts", Level.WARN),
        ({"worker_versions": 2}, "mixed_worker_versions", Level.WARN),
        ({"contradictions": 1}, "restored_metastore", Level.FAIL),
        ({"memory_away": 1}, "memory_away", Level.FAIL),
    ],
)
def test_each_alarm_with_hives_defaults(changed: dict[str, int], name: str, level: Level) -> None:
    (found,) = raised_alarms(replace(Readings(), **changed), Settings.of())
    assert (found.name, found.level) == (name, level)
    assert found.value > found.limit
    assert found.message[0].islower() or found.message[0].isdigit() or found.message.split()[0].isupper()
    assert found.fix


def test_at_the_limit_there_is_no_alarm() -> None:
    calm = Readings(
        oldest_initiated_ms=HOUR,
        oldest_ready_for_cleaning_ms=24 * HOUR,
        oldest_open_txn_ms=24 * HOUR,
        failed=1,
        succeeded=99,
        most_aborted=1_500,
        worker_versions=1,
        txn_to_write_id=500_000,
    )
    assert raised_alarms(calm, Settings.of()) == ()
    assert raised_alarms(Readings(), Settings.of()) == ()


def test_settings_give_the_limits_and_errors_come_first() -> None:
    key = "hive.compactor.oldest.initiated.compaction.time.threshold.warning"
    settings = Settings.of([Layer(name="flag", values={key: "60s"})])
    found = raised_alarms(Readings(oldest_initiated_ms=61_000, oldest_open_txn_ms=73 * HOUR), settings)
    assert [alarm.name for alarm in found] == ["oldest_open_transaction", "oldest_initiated_compaction"]
    assert found[1].limit == 60_000
    assert found[0].to_json()["level"] == "fail"
    assert "73.0 hours" in found[0].message


def test_readings_of_a_metastore(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    insert(deployment, table, [2])
    insert(deployment, table, [3], commits=False)
    (txn,) = deployment.metastore.transactions.open("ann", "laptop")
    (asked,) = request_compaction(deployment, table="t")
    found = take_readings(deployment)
    assert (found.initiated, found.open_transactions, found.aborted_transactions) == (1, 1, 1)
    assert (found.most_aborted, found.failed, found.succeeded) == (1, 0, 0)
    assert found.oldest_open_txn_ms >= 0
    assert found.txn_to_write_id >= 3
    deployment.metastore.transactions.abort(txn, "test")
    assert asked.entry_id is not None
    run_entries(deployment, [asked.entry_id], InProcessRunner())
    found = take_readings(deployment)
    assert (found.initiated, found.ready_for_cleaning, found.worker_versions) == (0, 1, 1)
    assert deployment.metastore.entries.queue(states=(State.READY_FOR_CLEANING,))
    assert set(found.to_json()) == set(Readings.__slots__)


def test_a_restored_metastore_and_a_memory_that_is_away_are_read(deployment: Site, tmp_path: Path) -> None:
    """PROTOCOL 11.2."""
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    assert take_readings(deployment).contradictions == 0
    (txn,) = deployment.metastore.transactions.open("ann", "h")
    deployment.metastore.transactions.commit(txn)
    must_be_newest(deployment)
    backup.restore()
    found = take_readings(deployment)
    assert (found.contradictions, found.memory_away) == (2, 0)
    assert deployment.memory is not None
    away = replace(deployment, memory=MarkFiles(deployment.storage, str(tmp_path / "metastore.db"), "default"))
    assert take_readings(away).memory_away == 1
