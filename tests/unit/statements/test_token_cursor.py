"""A cursor over tokens: names, partitions, groups, and what it says where something else was wanted."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.locking.accesses import Name
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import tokens


def test_names() -> None:
    assert TokenReader(tokens("A.B")).name() == Name(database="a", table="b")
    assert TokenReader(tokens("2024_x")).name() == Name(table="2024_x")
    with pytest.raises(BadStatement, match="too many parts"):
        TokenReader(tokens("a.b.c")).name()
    with pytest.raises(BadStatement, match="a name is expected before '= 1'"):
        TokenReader(tokens("= 1")).name()


def test_partition_clause() -> None:
    assert TokenReader(tokens("partition (p='a b', Q, r=-3)")).partition() == (("p", "a b"), ("q", None), ("r", "-3"))
    assert TokenReader(tokens("(p > '2024', q=date '2024-01-01')")).spec(comparisons=True) == (
        ("p", None),
        ("q", "2024-01-01"),
    )
    assert TokenReader(tokens("select")).partition() is None
    with pytest.raises(BadStatement, match="a partition's value is expected at the end"):
        TokenReader(tokens("partition (p=")).partition()


def test_an_unclosed_parenthesis_is_refused() -> None:
    with pytest.raises(BadStatement, match="never closed"):
        TokenReader(tokens("(a (b)")).group()


def test_a_comparison_is_no_value() -> None:
    """Read as a key without one it would mean every partition."""
    with pytest.raises(BadStatement, match="is expected before '> 1"):
        TokenReader(tokens("partition (p > 1)")).partition()
    with pytest.raises(BadStatement, match="names a key without a value"):
        TokenReader(tokens("partition (p = 1, q)")).values()


def test_lists_numbers_and_properties() -> None:
    assert TokenReader(tokens("(A, `b c`)")).names() == ("a", "b c")
    assert TokenReader(tokens("12")).integer() == 12
    assert TokenReader(tokens("('k'='v', 'K'='w')")).properties() == (("k", "v"), ("K", "w"))
    for text, said in (
        ("1.5", "a number is expected"),
        ("9" * 19, "a number is expected"),
        ("x", "a number is expected"),
    ):
        with pytest.raises(BadStatement, match=said):
            TokenReader(tokens(text)).integer()


def test_what_is_wrong_has_its_place() -> None:
    reader = TokenReader(tokens("a\nb"))
    reader.need("a")
    with pytest.raises(BadStatement, match="the end is expected before 'b' at line 2, character 1"):
        reader.end()
    reader.need("b")
    with pytest.raises(BadStatement, match="C is expected at the end, after 'b' at line 2, character 1"):
        reader.need("c")
