"""The offsets of time zones in Java, each as Java 17 and 25 have it (``TimeZone.getTimeZone(name).getOffset(…)``)."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from compactor.base.errors import NotLossless, NotSupported
from compactor.orc.format.java_zones import java_zone


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("name", "instant", "offset"),
    [
        ("Europe/Paris", "0001-01-01", 3600),
        ("Europe/Paris", "1899-12-31 23:59:59", 3600),
        ("Europe/Paris", "1900-01-01", 561),
        ("Europe/Paris", "1911-03-10 23:50:38", 561),
        ("Europe/Paris", "1911-03-10 23:50:39", 0),
        ("Europe/Paris", "2024-07-01", 7200),
        ("Europe/Paris", "2036-07-01", 7200),
        ("Europe/Paris", "2437-07-01", 7200),
        ("Europe/Paris", "9999-07-01", 7200),
        ("Europe/Paris", "9999-12-31", 3600),
        ("Europe/Dublin", "1890-01-01", 0),
        ("Europe/Dublin", "2024-01-01", 0),
        ("Europe/Dublin", "2024-07-01", 3600),
        ("Europe/Amsterdam", "1930-01-01", 0),
        ("Africa/Windhoek", "1899-01-01", 3600),
        ("Africa/Monrovia", "1960-01-01", -2670),
        ("America/New_York", "1883-01-01", -18000),
        ("Asia/Singapore", "1900-01-01", 24925),
        ("Asia/Kathmandu", "1950-01-01", 19800),
        ("Australia/Lord_Howe", "2024-01-01", 39600),
        ("Australia/Lord_Howe", "2024-07-01", 37800),
        ("Pacific/Apia", "2011-12-30 09:59:59", -36000),
        ("Pacific/Apia", "2011-12-30 10:00:00", 50400),
        ("GMT+08:00", "1890-01-01", 28800),
        ("GMT+8", "2024-01-01", 28800),
        ("GMT-0330", "2024-01-01", -12600),
        ("GMT+24:00", "2024-01-01", 0),
        ("Etc/GMT+12", "2024-01-01", -43200),
        ("JST", "1949-06-01", 36000),
        ("CST", "2024-07-01", -18000),
        ("EST", "2024-07-01", -18000),
        ("SystemV/PST8", "2024-07-01", -28800),
        ("UTC", "2024-07-01", 0),
    ],
)
def test_offsets(name: str, instant: str, offset: int) -> None:
    """PROTOCOL 2.6."""
    assert java_zone(name).offsets_at(np.array([seconds(instant)])).tolist() == [offset]


@pytest.mark.parametrize(
    "name", ["", "Nowhere/Land", "+08:00", "UTC+8", "../../etc/passwd", "/etc/localtime", "Europe", "zone.tab"]
)
def test_names_that_are_not_known_are_gmt(name: str) -> None:
    zone = java_zone(name)
    assert not zone.is_known
    assert zone.offsets_at(np.array([-(2**62), 0, 2**60])).tolist() == [0, 0, 0]


def test_rules_that_only_java_has_are_refused() -> None:
    with pytest.raises(NotSupported, match=r"only Java has the rules of the time zone SystemV/EST5EDT"):
        java_zone("SystemV/EST5EDT")


@pytest.mark.parametrize(
    "name", ["Europe/Paris", "America/St_Johns", "Pacific/Apia", "GMT+08:00", "Australia/Lord_Howe"]
)
def test_extreme_offsets_are_those_of_all_instants_between(name: str) -> None:
    zone, random = java_zone(name), np.random.default_rng(7)
    for _ in range(200):
        first = int(random.integers(seconds("1880-01-01"), seconds("2500-01-01")))
        last = first + int(random.choice([0, 3600, 86_400 * 100, 86_400 * 3650]))
        offsets = zone.offsets_at(np.linspace(first, last, 500).astype(np.int64))
        least, most = zone.extreme_offsets(first, last)
        assert least <= offsets.min()
        assert offsets.max() <= most
    assert (
        zone.extreme_offsets(seconds("2024-01-01"), seconds("2024-01-02"))
        == (zone.offsets_at(np.array([seconds("2024-01-01")]))[0],) * 2
    )


def test_a_fraction_before_1970_is_decided_by_the_instant() -> None:
    """A fraction before 1970 is stored under the next second. The zone's own clock, or UTC's, would decide otherwise."""
    zone = java_zone("Asia/Singapore")  # 8 hours in 2015, 7.5 in 1970
    assert zone.base == 28_800
    decoded = np.array([-2, 0, 28_799, 28_799, 28_800])  # stored: -1, 0, 28,799, 28,799, 28,800
    nanos = np.array([500_000_000, 500_000_000, 500_000_000, 999_999, 500_000_000])
    assert zone.wall_clock(decoded, nanos).tolist() == [-1802, -1801, 26_998, 26_999, 27_000]


@pytest.mark.parametrize(
    "name", ["Europe/Paris", "America/St_Johns", "Pacific/Apia", "GMT+08:00", "Australia/Lord_Howe"]
)
def test_times_that_a_zone_has_shown_are_stored_and_shown_again(name: str) -> None:
    """PROTOCOL 2.6: hour by hour, as far as the zone has no spring between; those that come twice in autumn, too."""
    zone, checked = java_zone(name), 0
    for first in range(seconds("1971-01-01"), seconds("2060-01-01"), 86_400 * 50):
        shown = first + np.arange(0, 86_400 * 50, 1800)
        if zone.shows_all(int(shown[0]), int(shown[-1])):
            nanos = np.full_like(shown, 999_999_999)
            assert np.array_equal(zone.wall_clock(zone.stored(shown, nanos), nanos), shown)
            checked += 1
    assert checked > 100


def test_times_that_a_zone_may_not_have_shown() -> None:
    zone = java_zone("Europe/Paris")
    skipped, old = seconds("2021-03-28 02:30:00"), seconds("1969-06-01")
    assert not zone.shows_all(skipped, skipped)
    assert not zone.shows_all(old, old)
    assert not zone.shows_all(seconds("9999-12-31"), seconds("9999-12-31"))
    assert zone.shows_all(seconds("2021-10-31 02:30:00"), seconds("2021-12-31"))
    with pytest.raises(NotLossless, match="Europe/Paris skipped a time"):
        zone.stored(np.array([skipped]), np.array([0]))
