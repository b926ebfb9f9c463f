from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.answers.alarms import _RULES, raised_alarms
from compactor.answers.readings import Readings
from compactor.settings.precedence import Layer, Settings
from compactor.site.finding import Level

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


def test_each_view_of_an_alarm_is_one_of_the_page() -> None:
    views = {rule.view.partition("?")[0] for rule in _RULES if rule.view is not None}
    assert views == {"queue", "blocked", "tables", "history"}
    (alarm,) = raised_alarms(Readings(failed=1), Settings.of())
    assert (alarm.to_json()["view"], "1 of the 1 compactions" in alarm.message) == ("history?state=failed", True)


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
