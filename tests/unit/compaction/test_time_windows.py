from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadSetting
from compactor.compaction.time_windows import Window, open_until, parse_window

MONDAY = datetime(2026, 6, 1, tzinfo=UTC)


def at(day: int, clock: str) -> datetime:
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
        (["Mon-Fri 20:00-06:00"], at(0, "19:59"), None),
        (["Mon-Fri 20:00-06:00"], at(0, "20:00"), at(1, "06:00")),
        (["Mon-Fri 20:00-06:00"], at(5, "05:59"), at(5, "06:00")),  # Friday's
        (["Mon-Fri 20:00-06:00"], at(5, "06:00"), None),
        (["Mon-Fri 20:00-06:00"], at(0, "03:00"), None),  # Sunday has none
        (["Sun 22:00-02:00"], at(0, "01:00"), at(0, "02:00")),  # over the end of the week
        (["Sat-Sun 00:00-24:00"], at(5, "12:00"), at(7, "00:00")),
        (["Fri 20:00-24:00", "Sat-Sun 00:00-24:00", "Mon 00:00-06:00"], at(4, "21:00"), at(7, "06:00")),
        (["00:00-24:00"], at(2, "10:00"), at(9, "10:00")),  # always: a week ahead
        ([], at(0, "10:00"), None),
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
