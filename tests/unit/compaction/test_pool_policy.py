from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from compactor.base.errors import BadSetting
from compactor.compaction.pool_policy import PoolPolicy, compute_allowance, parse_policy, settings_at
from compactor.compaction.time_windows import parse_window

NUM = "hive.compactor.delta.num.threshold"


def at(day: int, clock: str) -> datetime:
    hours, minutes = map(int, clock.split(":"))
    return datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=day, hours=hours, minutes=minutes)


def test_a_policy_is_parsed_from_the_file() -> None:
    found = parse_policy(
        "night",
        {
            "queue": "etl",
            "windows": ["Mon-Fri 20:00-06:00", "Sat 00:00-24:00"],
            "time_zone": "Europe/Berlin",
            "applications": 4,
            "applications_outside": 1,
            "max_run": "2h",
        },
    )
    assert found == PoolPolicy(
        name="night",
        queue="etl",
        windows=(parse_window("Mon-Fri 20:00-06:00"), parse_window("Sat 00:00-24:00")),
        time_zone="Europe/Berlin",
        applications=4,
        applications_outside=1,
        max_run_seconds=7200.0,
    )
    assert parse_policy("p", {}) == PoolPolicy(name="p")
    assert parse_policy("p", {"max_run": 90}).max_run_seconds == 90


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"window": []}, "did you mean windows"),
        ({"windows": "20:00-06:00"}, "expected a list"),
        ({"windows": ["nightly"]}, "wanted DAYS"),
        ({"time_zone": "Mars/Olympus"}, "not known here"),
        ({"applications": -1}, "expected a number from 0"),
        ({"applications": True}, "expected a number from 0"),
        ({"queue": 7}, "expected a text"),
        ({"max_run": "soon"}, "max_run"),
        ({"off_peak": ["22:00-06:00"]}, "need each other"),
        ({"off_peak_settings": {NUM: 3}}, "need each other"),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": 3}, "expected a table"),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": {NUM: "few"}}, "few"),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": {"hive.compactor.delta.nun.threshold": 3}}, NUM),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": {"compactor.mode": "clean"}}, "the same at every hour"),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": {"hive.compactor.worker.pool": "x"}}, "every hour"),
        ({"off_peak": ["22:00-06:00"], "off_peak_settings": {"compactor.lock.wait": "1s"}}, "the same at every hour"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        parse_policy("p", table)


def night(**more: object) -> PoolPolicy:
    values = {"name": "night", "windows": (parse_window("20:00-06:00"),), "applications": 3}
    return PoolPolicy(**{**values, **more})  # type: ignore[arg-type]


def test_within_its_hours_a_pool_runs_up_to_its_bound_until_they_end() -> None:
    found = compute_allowance(night(), at(0, "23:00"), running=1)
    assert (found.applications, found.run_seconds) == (2, 7 * 3600)
    assert found.because == "pool night is within its hours: 3 at a time, 1 under way"
    assert compute_allowance(night(), at(0, "23:00"), running=5).applications == 0


def test_outside_its_hours_a_pool_runs_nothing_or_less() -> None:
    found = compute_allowance(night(), at(0, "12:00"), running=0)
    assert (found.applications, found.run_seconds) == (0, None)
    assert "outside its hours" in found.because
    assert compute_allowance(night(applications_outside=1), at(0, "12:00"), running=0).applications == 1


def test_hours_that_only_allow_less_do_not_end_what_runs() -> None:
    assert compute_allowance(night(applications_outside=3), at(0, "23:00"), running=0).run_seconds is None
    assert compute_allowance(night(applications=None), at(0, "23:00"), running=9).applications is None
    assert compute_allowance(night(applications=None), at(0, "23:00"), running=0).run_seconds == 7 * 3600


def test_the_shorter_of_maximum_time_and_window_applies() -> None:
    assert compute_allowance(night(max_run_seconds=3600.0), at(0, "23:00"), running=0).run_seconds == 3600
    assert compute_allowance(night(max_run_seconds=3600.0), at(0, "05:30"), running=0).run_seconds == 1800
    assert compute_allowance(PoolPolicy(name="p", max_run_seconds=60.0), at(0, "12:00"), running=0).run_seconds == 60


def test_an_empty_policy_bounds_nothing() -> None:
    found = compute_allowance(PoolPolicy(name="p"), at(0, "12:00"), running=7)
    assert (found.applications, found.run_seconds) == (None, None)


def test_in_off_peak_hours_other_settings_are_in_force() -> None:
    said = {
        "off_peak": ["Mon-Fri 22:00-06:00"],
        "off_peak_settings": {NUM: 3, "hive.compactor.delta.pct.threshold": 0.02},
    }
    found = parse_policy("night", said)
    quiet = {NUM: "3", "hive.compactor.delta.pct.threshold": "0.02"}
    assert settings_at(found, at(0, "22:00")) == quiet
    assert settings_at(found, at(5, "05:59")) == quiet
    for day, clock in ((0, "21:59"), (5, "06:00"), (6, "23:00")):
        assert settings_at(found, at(day, clock)) == {}
    assert settings_at(PoolPolicy(name="p"), at(0, "22:00")) == {}
