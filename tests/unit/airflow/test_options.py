from __future__ import annotations

import ast
from pathlib import Path

import pytest

from compactor.airflow import options
from compactor.airflow.options import OPTIONS, Option, render_page
from compactor.compaction.pool_policy import KEYS

NUMBERS = {"integer": int, "float": float}


@pytest.mark.parametrize(("key", "option"), OPTIONS.items())
def test_defaults_and_examples_are_of_the_documented_type(key: str, option: Option) -> None:
    assert option.type in ("string", "boolean", *NUMBERS)
    assert option.type != "boolean" or option.default in ("True", "False")
    for text in (option.default, option.example):
        if option.type in NUMBERS and text is not None:
            assert NUMBERS[option.type](text) > 0


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_descriptions_are_sentences_and_keys_are_words(option: Option) -> None:
    assert option.description.endswith(".")
    assert option.description[0].isupper()


def test_an_empty_default_says_what_it_means() -> None:
    assert {key for key, option in OPTIONS.items() if not option.default} == {
        "airflow_pools",
        "approval_bytes",
        "config",
        "conn_id",
        "deploy_mode",
        "driver_logs",
        "keytab",
        "linger",
        "notifier",
        "only_pools",
        "principal",
    }
    assert all("Empty:" in option.description for option in OPTIONS.values() if not option.default)


def test_they_are_read_without_airflow() -> None:
    """The provider's entry point is asked by every ``airflow`` command; this file must not import it back."""
    imports = ast.parse(Path(options.__file__).read_text("utf-8")).body
    assert {node.module for node in imports if isinstance(node, ast.ImportFrom)} == {"__future__", "dataclasses"}
    assert [name.name for node in imports if isinstance(node, ast.Import) for name in node.names] == ["sys"]


DOCUMENT = Path(__file__).parents[3] / "docs" / "airflow-settings.md"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text("utf-8") == render_page()


def test_nothing_is_left_out() -> None:
    text = render_page()
    assert all(f"| `{key}` |" in text for key in (*OPTIONS, *(key.key for key in KEYS)))
