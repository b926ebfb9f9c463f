from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting
from compactor.settings.setting import Setting, SettingUnit, Value, parse


def of(
    unit: SettingUnit, *, minimum: int | None = 0, maximum: int | None = None, choices: tuple[str, ...] = ()
) -> Setting:
    return Setting(key="k", default="", unit=unit, effect="", minimum=minimum, maximum=maximum, choices=choices)


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (SettingUnit.COUNT, " 10 ", 10),
        (SettingUnit.RATIO, "0.1", 0.1),
        (SettingUnit.RATIO, ".5f", 0.5),
        (SettingUnit.RATIO, "1e-3", 0.001),
        (SettingUnit.BYTES, "1048576", 2**20),
        (SettingUnit.BYTES, "64MB", 64 * 2**20),
        (SettingUnit.BYTES, "2 g", 2 * 2**30),
        (SettingUnit.MILLISECONDS, "5", 5),
        (SettingUnit.SECONDS, "5", 5_000),
        (SettingUnit.MINUTES, "5", 300_000),
        (SettingUnit.HOURS, "1", 3_600_000),
        (SettingUnit.DAYS, "2", 172_800_000),
        (SettingUnit.SECONDS, "300s", 300_000),
        (SettingUnit.SECONDS, "12 hours", 43_200_000),
        (SettingUnit.DAYS, "5000ms", 5_000),
        (SettingUnit.SECONDS, "1500us", 1),
        (SettingUnit.BOOLEAN, " TRUE ", True),
        (SettingUnit.BOOLEAN, "false", False),
        (SettingUnit.TEXT, " etl ", "etl"),
    ],
)
def test_a_text_of_its_unit_is_parsed(unit: SettingUnit, text: str, value: Value) -> None:
    assert parse(of(unit), text) == value


@pytest.mark.parametrize(
    ("unit", "text", "wanted"),
    [
        (SettingUnit.COUNT, "ten", "a whole number"),
        (SettingUnit.COUNT, "10s", "a whole number"),
        (SettingUnit.COUNT, "1.5", "a whole number"),
        (SettingUnit.COUNT, "-1", "at least 0"),
        (SettingUnit.RATIO, "nan", "a number such as 0.1"),
        (SettingUnit.RATIO, "1e999", "a number such as 0.1"),
        (SettingUnit.RATIO, "10%", "a number such as 0.1"),
        (SettingUnit.BYTES, "1PB", "a size such as"),
        (SettingUnit.SECONDS, "5 fortnights", "a unit among ms, s, min, h and d"),
        (SettingUnit.SECONDS, "", "with or without a unit"),
        (SettingUnit.BOOLEAN, "yes", "true or false"),
        (SettingUnit.SECONDS, "\u0665", "with or without a unit"),
    ],
)
def test_a_refusal_names_key_text_and_expectation(unit: SettingUnit, text: str, wanted: str) -> None:
    with pytest.raises(BadSetting) as error:
        parse(of(unit), text)
    assert str(error.value).startswith(f"k = {text!r}: expected ")
    assert wanted in str(error.value)


def test_bounds_are_in_the_values_own_unit() -> None:
    day = of(SettingUnit.HOURS, minimum=1_000, maximum=86_400_000)
    assert parse(day, "24") == 86_400_000
    with pytest.raises(BadSetting, match="at most 86400000"):
        parse(day, "25")
    with pytest.raises(BadSetting, match="at least 1000"):
        parse(day, "999ms")
    assert parse(of(SettingUnit.COUNT, minimum=None), "-1") == -1


def test_choices_are_taken_as_written() -> None:
    modes = of(SettingUnit.TEXT, choices=("observe", "clean"))
    assert parse(modes, "clean ") == "clean"
    with pytest.raises(BadSetting, match="one of observe, clean"):
        parse(modes, "CLEAN")


def test_a_reference_is_refused_with_a_hint() -> None:
    with pytest.raises(BadSetting, match="references such as"):
        parse(of(SettingUnit.SECONDS), "${system:timeout}")


def test_the_newest_name_comes_first() -> None:
    setting = Setting(key="hive.a", aliases=("metastore.a", "old.a"), default="", unit=SettingUnit.TEXT, effect="")
    assert setting.names == ("metastore.a", "hive.a", "old.a")
    assert of(SettingUnit.TEXT).names == ("k",)


def test_time_units_are_durations() -> None:
    durations = {
        SettingUnit.MILLISECONDS,
        SettingUnit.SECONDS,
        SettingUnit.MINUTES,
        SettingUnit.HOURS,
        SettingUnit.DAYS,
    }
    assert {unit for unit in SettingUnit if unit.is_duration} == durations


@pytest.mark.parametrize(
    "text", ["1" * 10**6 + "x", "0" * 10**6 + "1", "1" * 10**6 + "." + "1" * 10**6 + "x", "9" * 101]
)
@pytest.mark.parametrize("unit", [SettingUnit.RATIO, SettingUnit.COUNT, SettingUnit.BYTES, SettingUnit.SECONDS])
def test_a_long_text_is_refused_at_once(unit: SettingUnit, text: str) -> None:
    """A property of a table held up every pass for hours."""
    with pytest.raises(BadSetting, match="expected a number of at most 100 characters") as refused:
        parse(of(unit), text)
    assert len(str(refused.value)) < 300
