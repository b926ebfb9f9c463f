"""Types as Hive's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import NotLossless
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.types import TypeKind, acid_types, from_messages

_LEAVES = st.sampled_from(
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"),
        *("timestamp", "timestamp with local time zone", "decimal(38,10)", "char(7)", "varchar(65535)"),
    ]
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        inner.map(lambda part: f"array<{part}>"),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, max_size=4).map(
            lambda parts: "struct<" + ",".join(f"c {i}é:{part}" for i, part in enumerate(parts)) + ">"
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"uniontype<{','.join(parts)}>"),
    )


@given(text=st.recursive(_LEAVES, _nested, max_leaves=12))
def test_text_and_footer_round_trip(text: str) -> None:
    types = parse_hive_type(text)
    assert schema_text(types) == text
    assert from_messages(types.messages, "f") == types
    assert acid_types(types).row == types if types[0].kind is TypeKind.STRUCT else True


def test_hives_shorthand() -> None:
    assert schema_text(parse_hive_type("DECIMAL")) == "decimal(10,0)"
    assert schema_text(parse_hive_type("struct<`a:b`:integer>")) == "struct<a:b:int>"


@pytest.mark.parametrize(
    "text", ["", "void", "struct<a>", "struct<a:int", "array<int,int>", "map<int>", "char", "int int", "uniontype<>"]
)
def test_text_that_is_not_a_type_is_refused(text: str) -> None:
    with pytest.raises(NotLossless, match="at position"):
        parse_hive_type(text)


def test_orc_quotes_names_that_are_more_than_letters_digits_and_underscores() -> None:
    types = parse_hive_type("struct<a_1:int,`b c`:array<struct<`d``e`:int>>,é:int>")
    text = "struct<a_1:int,`b c`:array<struct<`d``e`:int>>,`é`:int>"
    assert schema_text(types, quoting=True) == text
    assert parse_hive_type(text) == types


def test_a_number_of_many_digits_is_none() -> None:
    with pytest.raises(NotLossless, match="expected"):
        parse_hive_type(f"decimal({'0' * 5000}1)")
