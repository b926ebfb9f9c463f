"""docs/configuration.md agrees with the catalogue."""

from __future__ import annotations

from pathlib import Path

from compactor.settings.catalogue import CATALOGUE
from compactor.settings.compactor_toml import parse_profile
from compactor.settings.configuration_page import render

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_page_is_rendered_from_the_catalogue() -> None:
    assert PAGE.read_text() == render(), "run: python -m compactor.settings.configuration_page > docs/configuration.md"


def test_every_setting_has_a_row() -> None:
    text = render()
    for setting in CATALOGUE.values():
        assert text.count(f"\n| `{setting.key}` |") == 1


def test_example_in_the_page_is_valid() -> None:
    example = render().split("```toml\n")[1].split("```")[0]
    assert parse_profile(example).metastore("default").mode == "observe"
