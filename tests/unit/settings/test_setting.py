from __future__ import annotations

import pytest

from compactor.errors import BadSetting
from compactor.settings.setting import Setting, Unit, Value, parse


def of(unit: Unit, *, minimum: int | None = 0, maximum: int | None = None, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(key="k", default="", unit=unit, effect="", minimum=minimum, maximum=maximum, choices=choices)


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (Unit.COUNT, " 10 ", 10),
        (Unit.RATIO, "0.1", 0.1),
        (Unit.RATIO, ".5f", 0.5),
        (Unit.RATIO, "1e-3", 0.001),
        (Unit.BYTES, "1048576", 2**20),
        (Unit.BYTES, "64MB", 64 * 2**20),
        (Unit.BYTES, "2 g", 2 * 2**30),
        (Unit.MILLISECONDS, "5", 5),
        (Unit.SECONDS, "5", 5_000),
        (Unit.MINUTES, "5", 300_000),
        (Unit.HOURS, "1", 3_600_000),
        (Unit.DAYS, "2", 172_800_000),
        (Unit.SECONDS, "300s", 300_000),
        (Unit.SECONDS, "12 hours", 43_200_000),
        (Unit.DAYS, "5000ms", 5_000),
        (Unit.SECONDS, "1500us", 1),
        (Unit.BOOLEAN, " TRUE ", True),
        (Unit.BOOLEAN, "false", False),
        (Unit.TEXT, " etl ", "etl"),
    ],
)
def test_a_text_of_its_unit_is_a_value(unit: Unit, text: str, value: Value) -> None:
    assert parse(of(unit), text) == value


@pytest.mark.parametrize(
    ("unit", "text", "wanted"),
    [
        (Unit.COUNT, "ten", "a whole number"),
        (Unit.COUNT, "10s", "a whole number"),
        (Unit.COUNT, "1.5", "a whole number"),
        (Unit.COUNT, "-1", "at least 0"),
        (Unit.RATIO, "nan", "a number such as 0.1"),
        (Unit.RATIO, "1e999", "a number such as 0.1"),
        (Unit.RATIO, "10%", "a number such as 0.1"),
        (Unit.BYTES, "1PB", "a size such as"),
        (Unit.SECONDS, "5 fortnights", "a unit among ms, s, min, h and d"),
        (Unit.SECONDS, "", "with or without a unit"),
        (Unit.BOOLEAN, "yes", "true or false"),
        (Unit.SECONDS, "\u0665", "with or without a unit"),
    ],
)
def test_another_text_is_refused_by_key_text_and_wish(unit: Unit, text: str, wanted: str) -> None:
    with pytest.raises(BadSetting) as error:
        parse(of(unit), text)
    assert str(error.value).startswith(f"k = {text!r}: wanted ")
    assert wanted in str(error.value)


def test_bounds_are_in_the_values_own_unit() -> None:
    day = of(Unit.HOURS, minimum=1_000, maximum=86_400_000)
    assert parse(day, "24") == 86_400_000
    with pytest.raises(BadSetting, match="at most 86400000"):
        parse(day, "25")
    with pytest.raises(BadSetting, match="at least 1000"):
        parse(day, "999ms")
    assert parse(of(Unit.COUNT, minimum=None), "-1") == -1


def test_choices_are_taken_as_they_are_written() -> None:
    modes = of(Unit.TEXT, choices=("observe", "clean"))
    assert parse(modes, "clean ") == "clean"
    with pytest.raises(BadSetting, match="one of observe, clean"):
        parse(modes, "CLEAN")


def test_a_reference_is_not_resolved_and_says_so() -> None:
    with pytest.raises(BadSetting, match="references such as"):
        parse(of(Unit.SECONDS), "${system:timeout}")


def test_the_newest_name_comes_first() -> None:
    setting = Setting(key="hive.a", aliases=("metastore.a", "old.a"), default="", unit=Unit.TEXT, effect="")
    assert setting.names == ("metastore.a", "hive.a", "old.a")
    assert of(Unit.TEXT).names == ("k",)


def test_which_units_are_durations() -> None:
    durations = {Unit.MILLISECONDS, Unit.SECONDS, Unit.MINUTES, Unit.HOURS, Unit.DAYS}
    assert {unit for unit in Unit if unit.is_duration} == durations
