"""The catalogue, and texts of every unit."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadSetting
from compactor.settings.catalogue import CATALOGUE, Scope, Setting, SettingUnit, find, lookup, parse
from tests.support.hive_defaults import OTHERWISE_4_1, compared

PACKAGE = Path(__file__).parents[3] / "compactor"
HIVES = Path(__file__).parents[2] / "fixtures" / "hive-4.1" / "settings.txt"


def test_every_setting_is_well_formed() -> None:
    """Its default is of its unit, its effect is a sentence, and its first choice is the tightest."""
    for setting in CATALOGUE.values():
        parse(setting, setting.default)
        assert re.fullmatch(r"[A-Z].*\.", setting.effect, re.DOTALL), setting.key
        assert "|" not in setting.effect, setting.key
        assert not setting.tightest or setting.choices, setting.key
        for text in setting.of_tables or ():
            parse(setting, text)
        assert setting.of_tables is None or setting.scope is Scope.TABLE, setting.key


def test_defaults_are_those_of_a_real_hive() -> None:
    """The live ones are compared in tests/live (``test_settings.py``, ``test_hive3.py``, ``test_hive42.py``)."""
    other, number = compared(line.split(" ", 1)[1] for line in HIVES.read_text().splitlines())
    assert other == OTHERWISE_4_1
    assert number > 100


def test_every_name_belongs_to_one_setting() -> None:
    assert max(Counter(name for setting in CATALOGUE.values() for name in setting.names).values()) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hive.txn.timeout", "metastore.txn.timeout"),
        ("hive.max.open.txns", "metastore.max.open.txns"),
        ("hive.txn.max.open.batch", "metastore.txn.max.open.batch"),
        (
            "hive.compactor.initiator.failed.compacts.threshold",
            "metastore.compactor.initiator.failed.compacts.threshold",
        ),
        ("hive.compactor.clean.aborts.using.cleaner", "metastore.compactor.clean.aborts.using.cleaner"),
        ("hive.compactor.cleaner.retry.retentionTime", "hive.compactor.cleaner.retry.retention.time"),
        ("hive.lock.numretries", "metastore.lock.numretries"),
        ("hive.metastore.acid.housekeeper.interval", "metastore.acid.housekeeper.interval"),
        ("hive.compactor.history.retention.attempted", "metastore.compactor.history.retention.did.not.initiate"),
    ],
)
def test_old_and_new_names_are_one_setting(old: str, new: str) -> None:
    assert lookup(old) is lookup(new)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("hive.compactor.delta.num.threshold", 10),
        ("hive.compactor.delta.pct.threshold", 0.1),
        ("hive.compactor.abortedtxn.threshold", 1000),
        ("hive.compactor.aborted.txn.time.threshold", 12 * 3_600_000),
        ("hive.txn.timeout", 300_000),
        ("hive.txn.opentxn.timeout", 1000),
        ("hive.compactor.check.interval", 300_000),
        ("hive.compactor.worker.timeout", 86_400_000),
        ("hive.compactor.history.retention.timeout", 7 * 86_400_000),
        ("hive.compactor.wait.timeout", 300_000),
        ("hive.lock.sleep.between.retries", 60_000),
        ("compactor.lock.wait", 60_000),
        ("compactor.forget.grace", 3_600_000),
        ("compactor.quarantine", 0),
        ("compactor.batch.bytes", 50 * 2**30),
        ("compactor.batch.reserved", 600_000),
        ("compactor.full.sweep", 12),
        ("compactor.history.retention.aborted", 3),
        ("compactor.readers", "any"),
        ("compactor.mode", "observe"),
    ],
)
def test_defaults(key: str, default: object) -> None:
    setting = lookup(key)
    assert parse(setting, setting.default) == default


def test_an_unknown_key_suggests_the_closest() -> None:
    assert find("hive.compactor.delta.num.treshold") is None
    with pytest.raises(
        BadSetting, match=r"'hive.compactor.delta.num.treshold' is unknown; did you mean hive\.compactor"
    ):
        lookup("hive.compactor.delta.num.treshold")
    with pytest.raises(BadSetting, match="show settings"):
        lookup("zzz")


def _setting(unit: SettingUnit, minimum: int | None = None) -> Setting:
    return Setting(key="k", default="", unit=unit, effect="", minimum=minimum)


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (SettingUnit.SECONDS, "300s", 300_000),
        (SettingUnit.SECONDS, "300", 300_000),
        (SettingUnit.SECONDS, " 300 s ", 300_000),
        (SettingUnit.SECONDS, "5000ms", 5_000),
        (SettingUnit.SECONDS, "5000msec", 5_000),
        (SettingUnit.SECONDS, "2min", 120_000),
        (SettingUnit.SECONDS, "2m", 120_000),
        (SettingUnit.SECONDS, "12H", 43_200_000),
        (SettingUnit.SECONDS, "7 days", 604_800_000),
        (SettingUnit.SECONDS, "-1", -1_000),
        (SettingUnit.HOURS, "12", 43_200_000),
        (SettingUnit.DAYS, "7", 604_800_000),
        (SettingUnit.MINUTES, "360", 21_600_000),
        (SettingUnit.MILLISECONDS, "5000", 5_000),
        (SettingUnit.MILLISECONDS, "1500us", 1),
        (SettingUnit.BYTES, "1048576", 2**20),
        (SettingUnit.BYTES, "64MB", 64 * 2**20),
        (SettingUnit.BYTES, "1g", 2**30),
        (SettingUnit.BYTES, "2TB", 2**41),
        (SettingUnit.RATIO, "0.1f", 0.1),
        (SettingUnit.RATIO, ".01", 0.01),
        (SettingUnit.RATIO, "1", 1.0),
        (SettingUnit.COUNT, "10", 10),
        (SettingUnit.BOOLEAN, "TRUE", True),
        (SettingUnit.BOOLEAN, "false", False),
        (SettingUnit.TEXT, " etl ", "etl"),
        (SettingUnit.TEXT, "", ""),
    ],
)
def test_texts_of_every_unit(unit: SettingUnit, text: str, value: object) -> None:
    parsed = parse(_setting(unit), text)
    assert parsed == value
    assert type(parsed) is type(value)


#: What no database and no Java holds, written as it is or in its unit.
TOO_LARGE = (
    (SettingUnit.COUNT, str(2**63)),
    (SettingUnit.COUNT, f"-{2**64}"),
    (SettingUnit.COUNT, "9" * 90),
    (SettingUnit.BYTES, f"{2**30}TB"),
    (SettingUnit.SECONDS, "9" * 90 + "d"),
    (SettingUnit.DAYS, str(2**40)),
    (SettingUnit.RATIO, "1e30"),
)


@pytest.mark.parametrize(
    ("unit", "text", "wanted"),
    [
        (SettingUnit.SECONDS, "", "such as 300s"),
        (SettingUnit.SECONDS, "5 parsecs", "a unit among ms, s, min, h and d"),
        (SettingUnit.SECONDS, "1.5h", "such as 300s"),
        (SettingUnit.SECONDS, "${env:T}", "not resolved"),
        *((unit, text, "at most 9223372036854775807") for unit, text in TOO_LARGE),
        (SettingUnit.COUNT, "ten", "a whole number"),
        (SettingUnit.COUNT, "10s", "a whole number"),
        (SettingUnit.COUNT, "1.0", "a whole number"),
        (SettingUnit.COUNT, "١٠", "a whole number"),
        (SettingUnit.BYTES, "5XB", "a size such as"),
        (SettingUnit.RATIO, "10%", "a number such as 0.1"),
        (SettingUnit.RATIO, "nan", "a number such as 0.1"),
        (SettingUnit.RATIO, "inf", "a number such as 0.1"),
        (SettingUnit.RATIO, "1e999", "a number such as 0.1"),
        (SettingUnit.RATIO, "1_0", "a number such as 0.1"),
        (SettingUnit.RATIO, "", "a number such as 0.1"),
        (SettingUnit.BOOLEAN, "yes", "true or false"),
        (SettingUnit.BOOLEAN, "", "true or false"),
    ],
)
def test_bad_texts(unit: SettingUnit, text: str, wanted: str) -> None:
    with pytest.raises(BadSetting, match=wanted) as error:
        parse(_setting(unit), text)
    assert str(error.value).startswith(f"k = {text!r}")


def test_out_of_range() -> None:
    with pytest.raises(BadSetting, match="at least 0"):
        parse(lookup("hive.compactor.delta.num.threshold"), "-1")
    assert parse(lookup("hive.compactor.aborted.txn.time.threshold"), "-1") == -3_600_000
    assert parse(lookup("hive.compactor.delta.num.threshold"), f"000{2**63 - 1}") == 2**63 - 1
    with pytest.raises(BadSetting, match="one of observe, request, compact, clean"):
        parse(lookup("compactor.mode"), "watch")


@given(st.sampled_from(SettingUnit), st.text(max_size=12))
def test_any_text_is_parsed_or_refused(unit: SettingUnit, text: str) -> None:
    with contextlib.suppress(BadSetting):
        assert isinstance(parse(_setting(unit), text), int | float | str)


def test_what_is_said_to_be_honoured_is_read_by_code() -> None:
    """By one of its names, written out."""
    files = [path for path in PACKAGE.rglob("*.py") if path.name not in ("catalogue.py", "reference.py")]
    code = "\n".join(path.read_text("utf-8") for path in files)
    honoured = [setting for setting in CATALOGUE.values() if setting.honoured]
    unread = [setting.key for setting in honoured if not any(f'"{name}"' in code for name in setting.names)]
    assert len(honoured) > 80
    assert unread == []
