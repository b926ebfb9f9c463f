from __future__ import annotations

import pytest

from compactor.settings.precedence import Layer, Settings, with_table
from compactor.site.mode import Mode, loosest_mode, may, may_somewhere, mode_of, modes_of_databases


def of(mode: str) -> Settings:
    return Settings.of([Layer(name="flag", values={"compactor.mode": mode})])


@pytest.mark.parametrize("mode", list(Mode))
def test_each_mode_allows_what_the_smaller_ones_allow(mode: Mode) -> None:
    settings = of(mode.name.lower())
    assert mode_of(settings) is mode
    assert [wanted for wanted in Mode if may(settings, wanted)] == [m for m in Mode if m <= mode]


@pytest.mark.parametrize(
    ("site", "table", "database", "result"),
    [
        ("clean", "observe", None, Mode.OBSERVE),
        ("observe", "clean", "clean", Mode.OBSERVE),
        ("clean", "compact", "request", Mode.REQUEST),
        ("compact", None, None, Mode.COMPACT),
    ],
)
def test_the_tightest_wins(site: str, table: str | None, database: str | None, result: Mode) -> None:
    said = [{} if text is None else {"compactor.mode": text} for text in (table, database)]
    assert mode_of(with_table(of(site), *said)) is result


def test_an_unknown_mode_counts_as_the_tightest_and_is_reported() -> None:
    settings = with_table(of("compact"), {"compactor.mode": "observ"}, {})
    assert mode_of(settings) is Mode.OBSERVE
    assert [key for key, _ in settings.ignored] == ["table: compactor.mode"]


def test_what_may_be_done_somewhere_is_not_what_may_be_done_everywhere() -> None:
    settings = Settings.of([], {"pilot": "compact"})
    assert (mode_of(settings), loosest_mode(settings)) == (Mode.OBSERVE, Mode.COMPACT)
    assert may_somewhere(settings, Mode.COMPACT)
    assert not may(settings, Mode.REQUEST)
    assert not may_somewhere(settings, Mode.CLEAN)


def test_the_modes_of_all_databases() -> None:
    settings = Settings.of([], {"pilot*": "clean"})
    databases = {"default": {}, "pilot": {}, "pilot_2": {"compactor.mode": "request"}}
    assert modes_of_databases(settings, databases) == {
        "default": Mode.OBSERVE,
        "pilot": Mode.CLEAN,
        "pilot_2": Mode.REQUEST,
    }
