from __future__ import annotations

from typing import Any

import pytest

from compactor.airflow.form import fields, must_know_words, parse_form
from compactor.base.errors import BadSetting, CompactorError

FORM: dict[str, Any] = {name: field.value for name, field in fields().items()} | {"table": "demo.flights"}


def test_an_untouched_form_asks_for_a_major_compaction_of_the_table() -> None:
    found = parse_form(FORM)
    assert (found.tables, found.dry_run) == (("demo.flights",), False)
    assert found.arguments == {
        "partition": None,
        "type": "major",
        "pool": None,
        "properties": {},
        "buckets": None,
        "order_by": None,
    }


def test_typed_values_are_trimmed() -> None:
    found = parse_form(
        FORM | {"table": " a.b , a.c*,", "pool": " night ", "type": "rebalance", "buckets": 4, "order_by": "x desc"}
    )
    assert found.tables == ("a.b", "a.c*")
    assert (found.arguments["pool"], found.arguments["buckets"], found.arguments["order_by"]) == ("night", 4, "x desc")
    assert parse_form(FORM | {"partition": " month=1 "}).arguments["partition"] == "month=1"


def test_a_number_of_files_with_a_point_is_an_integer() -> None:
    buckets = parse_form(FORM | {"type": "rebalance", "buckets": 2.0}).arguments["buckets"]
    assert (type(buckets), buckets) == (int, 2)


@pytest.mark.parametrize("table", ["", None, "flights", "a.b.c", ".flights", "demo.", "a.b,c"])
def test_a_table_without_its_database_is_refused_in_our_words(table: str | None) -> None:
    with pytest.raises(CompactorError, match=r"expected: DATABASE\.TABLE"):
        parse_form(FORM | {"table": table})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": "a.b, a.c", "partition": "p=1"}, "name one"),
        ({"table": "a.*", "partition": "p=1"}, "name one"),
        ({"buckets": 4}, "choose rebalance or empty them"),
        ({"order_by": "a", "type": "minor"}, "the type is minor"),
        ({"properties": {"compactor.x": 7}}, r'property compactor\.x is 7; expected: text.*"compactor\.x": "7"'),
    ],
)
def test_contradictory_values_are_reported_in_a_sentence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(CompactorError, match=message):
        parse_form(FORM | changed)


def test_every_field_has_a_label_and_a_help_text() -> None:
    """Fields without a section come first and are open; a section starts closed."""
    found = fields()
    for field in found.values():
        assert field.schema["title"]
        assert len(field.description or "") > 10
        assert "pattern" not in field.schema
    sections = [field.schema.get("section") for field in found.values()]
    assert sections == [None] * 5 + ["Rebalance"] * 2 + ["Where it runs"] * 2
    assert set(found["type"].schema["values_display"]) == set(found["type"].schema["enum"])


@pytest.mark.parametrize(
    ("conf", "known", "message"),
    [
        ({"table": "a.b", "dryrun": True}, fields(), r"DAG d has 'dryrun'; expected: table, .*did you mean dry_run\?"),
        ({"parition": "p=1", "x": None}, fields(), r"has 'parition', 'x'; expected: .*did you mean partition\?"),
        ({"Table": "a.b"}, fields(), r"has 'Table'; expected: table"),
        ({"dry_run": True}, (), r"DAG d has 'dry_run'; expected: no conf. Nothing was done"),
    ],
)
def test_an_unknown_word_of_a_conf_is_refused_by_name(conf: dict[str, Any], known: Any, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        must_know_words("d", conf, known)


@pytest.mark.parametrize("conf", [None, {}, FORM, {"openlineage": {"parentRunId": "x"}}])
def test_known_words_and_those_of_airflow_itself_pass(conf: dict[str, Any] | None) -> None:
    must_know_words("d", conf, fields())
