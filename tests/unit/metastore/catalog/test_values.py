from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compactor.metastore.catalog.values import Column, Partition, Table, is_true, parameter
from compactor.orc.format.hive_types import parse_hive_type


def table(**parameters: str) -> Table:
    return Table(id=1, database="d", name="t", location="/w/t", parameters=parameters)


@pytest.mark.parametrize(
    ("text", "true"),
    [("true", True), ("TRUE", True), (" True ", True), ("1", False), ("yes", False), ("", False), (None, False)],
)
def test_truth_is_javas(text: str | None, true: bool) -> None:
    assert is_true(text) is true


def test_a_parameter_in_any_case_and_the_exact_one_first() -> None:
    assert parameter({"TRANSACTIONAL": "a", "transactional": "b"}, "transactional") == "b"
    assert parameter({"Transactional": "a"}, "transactional") == "a"
    assert parameter({"b": "1", "B": "2"}, "b") == "1"
    assert parameter({"NO_CLEANUP": "1", "No_Cleanup": "2"}, "no_cleanup") == "1"
    assert parameter({}, "x") is None


@pytest.mark.parametrize(
    ("parameters", "full", "insert_only"),
    [
        ({}, False, False),
        ({"transactional": "true"}, True, False),
        ({"transactional": "true", "transactional_properties": "default"}, True, False),
        ({"transactional": "true", "transactional_properties": " INSERT_ONLY"}, False, True),
        ({"transactional": "false", "transactional_properties": "insert_only"}, False, False),
    ],
)
def test_the_kind_of_a_table(parameters: dict[str, str], full: bool, insert_only: bool) -> None:
    found = table(**parameters)
    assert (found.is_full_acid, found.is_insert_only, found.is_transactional) == (
        full,
        insert_only,
        full or insert_only,
    )


ACID = {"transactional": "true"}
MM = {"transactional": "true", "transactional_properties": "insert_only"}
ORC, TEXT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.mapred.TextInputFormat"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"parameters": ACID}, None),
        ({"parameters": MM, "input_format": TEXT}, None),
        ({"parameters": ACID, "type": "MATERIALIZED_VIEW"}, None),
        ({"parameters": {**ACID, "EXTERNAL": "FALSE"}}, None),
        ({"parameters": ACID, "type": "EXTERNAL_TABLE"}, "is an external table"),
        ({"parameters": {**ACID, "EXTERNAL": "TRUE"}}, "is an external table"),
        ({"parameters": {**MM, "External": "true"}}, "is an external table"),
        ({"parameters": {}, "type": "EXTERNAL_TABLE"}, "is an external table"),
        ({"parameters": {}}, "the table is not transactional"),
        ({"parameters": ACID, "input_format": TEXT}, f"expected the ORC input format, found {TEXT}"),
        ({"parameters": ACID, "input_format": None}, "expected the ORC input format, found None"),
        ({"parameters": ACID, "sort_columns": ("a",)}, "the table is sorted"),
    ],
)
def test_the_kinds_of_tables_that_are_never_touched(changes: dict[str, Any], why: str | None) -> None:
    """PROTOCOL 11.13"""
    found = replace(table(), **{"input_format": ORC, **changes}).refusal()
    assert found is None if why is None else (found or "").startswith(f"d.t: {why}")


def test_a_partition_may_be_sorted_otherwise_than_its_table() -> None:
    part = Partition(id=1, name="p=1", values=("1",), location="/", sort_columns=("a",))
    unsorted = replace(table(**ACID), input_format=ORC)
    assert "is sorted" in (unsorted.refusal(part) or "")
    assert replace(unsorted, sort_columns=("a",)).refusal(replace(part, sort_columns=())) is None


def test_a_partition_has_a_word_of_its_own_on_cleaning() -> None:
    assert Partition(id=1, name="p=1", values=("1",), location="/", parameters={"No_Cleanup": "TRUE"}).no_cleanup
    assert not Partition(id=1, name="p=1", values=("1",), location="/").no_cleanup


def test_names_and_keys() -> None:
    assert str(table()) == "d.t"
    assert not table().is_partitioned
    keyed = Table(id=1, database="d", name="t", location="/", partition_keys=(Column(name="p", type="int"),))
    assert keyed.is_partitioned


def test_names_that_hold_the_marks_of_a_type_are_quoted_in_it() -> None:
    names = ["a", "b,c", "d:e", "f<g>", "back`tick", "with space", "a.b"]
    found = replace(table(), columns=tuple(Column(name=name, type="map<string,int>") for name in names))
    types = parse_hive_type(found.row_type)
    assert list(types[0].field_names) == names
    assert replace(table(), columns=(Column(name="a", type="int"),)).row_type == "struct<a:int>"


def with_parameters(parameters: Mapping[str, str], database: Mapping[str, str] | None = None) -> Table:
    return Table(id=1, database="d", name="t", location="/t", parameters=parameters, database_parameters=database or {})


@pytest.mark.parametrize(
    ("parameters", "full", "insert_only"),
    [
        ({}, False, False),
        ({"transactional": "true"}, True, False),
        ({"TRANSACTIONAL": "TRUE", "transactional_properties": "default"}, True, False),
        ({"transactional": "true", "TRANSACTIONAL_PROPERTIES": "Insert_Only"}, False, True),
        ({"transactional": "false"}, False, False),
        ({"transactional_properties": "insert_only"}, False, False),
    ],
)
def test_what_kind_of_table(parameters: dict[str, str], full: bool, insert_only: bool) -> None:
    found = with_parameters(parameters)
    assert (found.is_full_acid, found.is_insert_only, found.is_transactional) == (
        full,
        insert_only,
        full or insert_only,
    )


@pytest.mark.parametrize(
    ("of_table", "of_database", "left_alone"),
    [
        ({}, {}, False),
        ({"NO_AUTO_COMPACTION": "TRUE"}, {}, True),
        ({"no_auto_compaction": "false"}, {"no_auto_compaction": "true"}, True),
        ({"no_auto_compaction": "true"}, {"NO_AUTO_COMPACTION": "false"}, False),
    ],
)
def test_the_databases_word_on_compaction_wins(
    of_table: dict[str, str], of_database: dict[str, str], left_alone: bool
) -> None:
    assert with_parameters(of_table, of_database).no_auto_compaction is left_alone


def test_the_databases_word_on_cleaning_wins() -> None:
    assert with_parameters({"no_cleanup": "true"}).no_cleanup
    assert not with_parameters({"no_cleanup": "true"}, {"no_cleanup": "false"}).no_cleanup
