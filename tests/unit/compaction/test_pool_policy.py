from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadSetting
from compactor.compaction.pool_policy import (
    Item,
    PoolPolicy,
    Route,
    Window,
    compute_allowance,
    group_batches,
    open_until,
    parse_policy,
    parse_window,
    route,
    settings_at,
)
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Layer, Settings, with_request, with_table

NUM = "hive.compactor.delta.num.threshold"
MONDAY = datetime(2026, 6, 1, tzinfo=UTC)


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


def _item(id: int, bytes_: int, queue: str | None = None) -> Item:
    entity = Entity(database="d", table="t", partition=f"p={id}")
    entry = Entry(id=id, entity=entity, state=State.INITIATED, type=CompactionType.MINOR)
    return Item(entry=entry, bytes=bytes_, route=Route(queue=queue))


def _ids(items: list[Item], max_bytes: int) -> list[list[int]]:
    return [[item.entry.id for item in batch.items] for batch in group_batches(items, max_bytes)]


def test_batches_are_filled_in_the_order_of_claims() -> None:
    assert _ids([_item(1, 50), _item(2, 50), _item(3, 30), _item(4, 80)], 100) == [[1, 2], [3], [4]]
    assert _ids([_item(3, 30), _item(1, 50), _item(2, 50), _item(4, 80)], 100) == [[3, 1], [2], [4]]


def test_entries_of_different_routes_never_share_a_batch() -> None:
    """DESIGN 7: entries with different queue, run-as or conf never share a batch."""
    items = [_item(1, 1, "a"), _item(2, 1, "b"), _item(3, 1, "a"), _item(4, 1)]
    assert _ids(items, 100) == [[1, 3], [2], [4]]


def test_an_item_too_large_for_any_batch_goes_alone() -> None:
    assert _ids([_item(1, 10), _item(2, 500), _item(3, 10)], 100) == [[1], [2], [3]]


def test_nothing() -> None:
    assert group_batches([], 100) == ()


items_of_any_kind = st.lists(
    st.builds(_item, st.integers(1, 500), st.integers(0, 150), st.sampled_from(["a", "b", None])),
    unique_by=lambda item: item.entry.id,
)


@given(items_of_any_kind)
def test_every_entry_is_batched_once_within_bounds_and_in_order(items: list[Item]) -> None:
    """DESIGN 8.8: no entry overtakes an earlier one of the same route."""
    place = {item.entry.id: number for number, item in enumerate(items)}
    made = group_batches(items, 100)
    assert sorted(i.entry.id for b in made for i in b.items) == sorted(i.entry.id for i in items)
    assert [b.items[0].entry.id for b in made] == sorted((b.items[0].entry.id for b in made), key=place.__getitem__)
    by_route: dict[Route, list[int]] = defaultdict(list)
    for batch in made:
        assert batch.bytes <= 100 or len(batch.items) == 1
        assert {item.route for item in batch.items} == {batch.route}
        by_route[batch.route] += [item.entry.id for item in batch.items]
    assert all(ids == sorted(ids, key=place.__getitem__) for ids in by_route.values())


def _entry(pool: str | None = None, run_as: str | None = None) -> Entry:
    entity = Entity(database="d", table="t")
    return Entry(id=1, entity=entity, state=State.INITIATED, type=CompactionType.MINOR, pool=pool, run_as=run_as)


def test_the_default_route() -> None:
    assert route(_entry(), Settings.of(), run_as=None) == Route()
    assert route(_entry(pool=""), Settings.of(), run_as=None).pool is None


def test_the_pool_comes_from_the_row_queue_and_conf_from_settings() -> None:
    settings = with_table(
        Settings.of([Layer(name="flag", values={"hive.compactor.job.queue": "site"})]),
        {"compactor.hive.compactor.job.queue": "etl", "compactor.spark.executor.memory": "8g"},
    )
    settings = with_request(settings, {"compactor.spark.driver.memory": "2g"})
    assert route(_entry(pool="night"), settings, run_as=None) == Route(
        pool="night",
        queue="etl",
        conf=(("spark.driver.memory", "2g"), ("spark.executor.memory", "8g")),
    )


def test_the_user_is_the_one_that_was_decided_whatever_the_row_says() -> None:
    """A user in the row records who compacted before a worker was lost; it is no wish."""
    for entry in (_entry(), _entry(run_as="ann")):
        assert route(entry, Settings.of(), run_as="hive").run_as == "hive"
        assert route(entry, Settings.of(), run_as=None).run_as is None


def test_equal_routes_are_equal_keys() -> None:
    one = with_table(Settings.of(), {"compactor.spark.executor.memory": "8g", "compactor.spark.driver.memory": "1g"})
    two = with_table(Settings.of(), {"compactor.spark.driver.memory": "1g", "compactor.spark.executor.memory": "8g"})
    assert len({route(_entry(), one, run_as=None), route(_entry(), two, run_as=None)}) == 1


def moment(day: int, clock: str) -> datetime:
    hours, minutes = map(int, clock.split(":"))
    return MONDAY + timedelta(days=day, hours=hours, minutes=minutes)


@pytest.mark.parametrize(
    ("text", "days", "begin", "end"),
    [
        ("Mon-Fri 20:00-06:00", {0, 1, 2, 3, 4}, 1200, 360),
        ("sat 0:00-24:00", {5}, 0, 1440),
        ("22:00-04:30", set(range(7)), 1320, 270),
        ("Sat-Mon 08:00-09:00", {5, 6, 0}, 480, 540),
    ],
)
def test_windows_are_parsed(text: str, days: set[int], begin: int, end: int) -> None:
    assert parse_window(text) == Window(days=frozenset(days), begin=begin, end=end)


@pytest.mark.parametrize(
    "text", ["", "nightly", "Mon 20-6", "Mond 20:00-06:00", "Xxx 20:00-06:00", "25:00-26:00", "10:77-11:00"]
)
def test_bad_windows_say_what_is_wanted(text: str) -> None:
    with pytest.raises(BadSetting, match="wanted"):
        parse_window(text)


@pytest.mark.parametrize(
    ("texts", "now", "until"),
    [
        (["Mon-Fri 20:00-06:00"], moment(0, "19:59"), None),
        (["Mon-Fri 20:00-06:00"], moment(0, "20:00"), moment(1, "06:00")),
        (["Mon-Fri 20:00-06:00"], moment(5, "05:59"), moment(5, "06:00")),  # Friday's
        (["Mon-Fri 20:00-06:00"], moment(5, "06:00"), None),
        (["Mon-Fri 20:00-06:00"], moment(0, "03:00"), None),  # Sunday has none
        (["Sun 22:00-02:00"], moment(0, "01:00"), moment(0, "02:00")),  # over the end of the week
        (["Sat-Sun 00:00-24:00"], moment(5, "12:00"), moment(7, "00:00")),
        (
            ["Fri 20:00-24:00", "Sat-Sun 00:00-24:00", "Mon 00:00-06:00"],
            moment(4, "21:00"),
            moment(7, "06:00"),
        ),
        (["00:00-24:00"], moment(2, "10:00"), moment(9, "10:00")),  # always: a week ahead
        ([], moment(0, "10:00"), None),
    ],
)
def test_the_end_of_a_window(texts: list[str], now: datetime, until: datetime | None) -> None:
    assert open_until([parse_window(text) for text in texts], now) == until


@given(
    days=st.frozensets(st.integers(0, 6), min_size=1),
    begin=st.integers(0, 1439),
    end=st.integers(0, 1440),
    minute=st.integers(0, 7 * 1440 - 1),
)
def test_open_until_agrees_with_counting_minutes(days: frozenset[int], begin: int, end: int, minute: int) -> None:
    """Compares with a model that steps through the week minute by minute."""
    length = (end - begin) % 1440 or 1440
    opened = {(day * 1440 + begin + step) % (7 * 1440) for day in days for step in range(length)}
    until = open_until([Window(days=days, begin=begin, end=end)], MONDAY + timedelta(minutes=minute))
    assert (until is not None) == (minute in opened)
    if until is not None:
        last = int((until - MONDAY).total_seconds() // 60) - 1
        assert last % (7 * 1440) in opened
        assert len(opened) == 7 * 1440 or (last + 1) % (7 * 1440) not in opened
