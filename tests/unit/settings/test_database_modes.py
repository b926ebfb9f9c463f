from __future__ import annotations

import pytest

from compactor.settings.database_modes import loosest, mode_of_database, without_match
from compactor.settings.precedence import Layer, Settings, with_table

MODES = {"pilot": "clean", "team_*": "compact", "team_secret*": "observe", "team_secret_lab": "request"}


@pytest.mark.parametrize(
    ("database", "mode"),
    [
        ("pilot", "clean"),
        ("PILOT", "clean"),
        ("pilot_2", None),
        ("team_a", "compact"),
        ("team_secret_b", "observe"),  # the tightest of two patterns
        ("team_secret_lab", "request"),  # the name itself
        ("default", None),
    ],
)
def test_a_database_has_the_mode_of_its_name_or_of_the_tightest_pattern(database: str, mode: str | None) -> None:
    assert mode_of_database(MODES, database) == mode


def test_names_and_patterns_that_no_database_has() -> None:
    assert without_match(MODES, ["default", "Pilot", "team_secret"]) == ["team_secret_lab"]
    assert without_match(MODES, []) == sorted(MODES)


def test_the_loosest_of_some_modes() -> None:
    assert loosest(["observe", "compact", "request"]) == "compact"


def site(mode: str | None = "observe", *, layer: str = "compactor.toml") -> Settings:
    return Settings.of([Layer(name=layer, values={} if mode is None else {"compactor.mode": mode})], MODES)


def test_a_database_that_is_not_named_has_the_mode_of_its_metastore() -> None:
    """So one that is created tomorrow is as closed as the others."""
    assert (site().mode, site().loosest_mode) == ("observe", "clean")
    assert site().of_database("created_tomorrow") == site()
    assert site(None).of_database("created_tomorrow").mode == "observe"


def test_a_named_database_has_its_own() -> None:
    pilot = site().of_database("pilot")
    assert (pilot.mode, pilot.source("compactor.mode")) == ("clean", "compactor.toml")
    assert site("clean").of_database("team_secret_x").mode == "observe"
    assert site("request").loosest_mode == "clean"


def test_properties_still_only_tighten() -> None:
    settings = site().of_database("pilot")
    assert with_table(settings, {"compactor.mode": "request"}).mode == "request"
    assert with_table(settings, {}, {"compactor.mode": "observe"}).mode == "observe"
    assert with_table(site().of_database("default"), {"compactor.mode": "clean"}, {"compactor.mode": "clean"}).mode == (
        "observe"
    )


@pytest.mark.parametrize("mode", ["observe", "clean"])
def test_a_flag_is_for_every_database(mode: str) -> None:
    """A ``--set compactor.mode=observe`` means this run, whatever the site's file opens."""
    settings = site(mode, layer="flag")
    assert {settings.of_database(name).mode for name in ("pilot", "team_a", "default")} == {mode}
    assert settings.loosest_mode == mode
