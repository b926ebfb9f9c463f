"""Partition names, escaped once and twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid import partition_names as names

values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("a b=c/d%", "a b%3Dc%2Fd%25"),
        ('its "q"', "its %22q%22"),
        ("Zürich", "Zürich"),
        ("a:b#c", "a%3Ab%23c"),
        ("{[^]}", "%7B%5B%5E%5D}"),
        ("\n", "%0A"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_escape(value: str, escaped: str) -> None:
    """The names are those of a real Hive 4.1's directories."""
    assert names.escape(value) == escaped


@given(values)
def test_unescape_is_the_inverse(value: str) -> None:
    assert names.unescape(names.escape(value)) == value


@given(st.lists(values, min_size=1, max_size=3))
def test_a_part_name_holds_its_values(parts: list[str]) -> None:
    keys = [f"K{number}" for number in range(len(parts))]
    name = names.part_name(keys, parts)
    assert [names.unescape(part.partition("=")[2]) for part in name.split("/")] == parts
    assert name.startswith("k0=")
    assert list(names.part_values(name)) == parts


def test_hive_records_static_partitions_twice_escaped() -> None:
    assert names.escape_again("p=a b%3Dc%2Fd%25") == "p=a b%253Dc%252Fd%2525"
    assert names.unescape_once("p=a b%253Dc%252Fd%2525") == "p=a b%3Dc%2Fd%25"


@given(values)
def test_once_less_undoes_once_more_and_leaves_other_names(value: str) -> None:
    name = names.part_name(["p"], [value])
    assert names.unescape_once(names.escape_again(name)) == name
    assert names.unescape_once("p=a%3Db") == "p=a%3Db"


def test_forms() -> None:
    assert names.recorded_names(None) == (None,)
    assert names.recorded_names("p=1") == ("p=1",)
    assert names.recorded_names("p=a%3Db") == ("p=a%3Db", "p=a%253Db")
    assert names.recorded_names("p=a%3Db", lowered=True) == ("p=a%3Db", "p=a%253Db", "p=a%3db")
    assert names.recorded_names("p=us", lowered=True) == ("p=us",)


def test_keys_have_no_case_and_values_do() -> None:
    stored = ["p=US/q=1", "p=us/q=1", "p=DE/q=1"]
    assert names.find_in_other_case("P=US/Q=1", stored) == ("p=US/q=1",)
    assert names.find_in_other_case("P=us/q=1", stored) == ("p=us/q=1",)
    assert names.find_in_other_case("p=de/q=1", stored) == ("p=DE/q=1",)
    assert names.find_in_other_case("p=us/q=1", ["p=US/q=1", "p=Us/q=1"]) == ("p=US/q=1", "p=Us/q=1")
    for other in ("p=De/q=1", "P=de/q=1", "q=1/p=US", "p=US", "p=US/q=1/r=2"):
        assert names.find_in_other_case(other, stored) == ()


def test_one_form_may_mean_several_partitions() -> None:
    stored = ["p=US", "p=us", "p=de", "p=a%3Db"]
    found = names.group_by_recorded_name(stored, lowered=True)
    assert found["p=us"] == ["p=US", "p=us"]
    assert found["p=US"] == ["p=US"]
    assert found["p=a%3db"] == found["p=a%253Db"] == ["p=a%3Db"]
    assert "p=us" not in names.group_by_recorded_name(["p=US"], lowered=False)
