"""A cursor over tokens: names, partitions, groups, and what it says where something else was wanted."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Name
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import tokenize


def test_names() -> None:
    assert TokenReader(tokenize("A.B")).name() == Name(database="a", table="b")
    assert TokenReader(tokenize("2024_x")).name() == Name(table="2024_x")
    with pytest.raises(BadStatement, match="too many parts"):
        TokenReader(tokenize("a.b.c")).name()
    with pytest.raises(BadStatement, match="a name is expected before '= 1'"):
        TokenReader(tokenize("= 1")).name()


def test_partition_clause() -> None:
    assert TokenReader(tokenize("partition (p='a b', Q, r=-3)")).partition() == (("p", "a b"), ("q", None), ("r", "-3"))
    assert TokenReader(tokenize("(p > '2024', q=date '2024-01-01')")).spec(comparisons=True) == (
        ("p", None),
        ("q", "2024-01-01"),
    )
    assert TokenReader(tokenize("select")).partition() is None
    with pytest.raises(BadStatement, match="a partition's value is expected at the end"):
        TokenReader(tokenize("partition (p=")).partition()


def test_an_unclosed_parenthesis_is_refused() -> None:
    with pytest.raises(BadStatement, match="never closed"):
        TokenReader(tokenize("(a (b)")).group()


def test_a_comparison_is_no_value() -> None:
    """Read as a key without one it would mean every partition."""
    with pytest.raises(BadStatement, match="is expected before '> 1"):
        TokenReader(tokenize("partition (p > 1)")).partition()
    with pytest.raises(BadStatement, match="names a key without a value"):
        TokenReader(tokenize("partition (p = 1, q)")).values()


def test_lists_numbers_and_properties() -> None:
    assert TokenReader(tokenize("(A, `b c`)")).names() == ("a", "b c")
    assert TokenReader(tokenize("12")).integer() == 12
    assert TokenReader(tokenize("('k'='v', 'K'='w')")).properties() == (("k", "v"), ("K", "w"))
    for text, said in (
        ("1.5", "a number is expected"),
        ("9" * 19, "a number is expected"),
        ("x", "a number is expected"),
    ):
        with pytest.raises(BadStatement, match=said):
            TokenReader(tokenize(text)).integer()


def test_what_is_wrong_has_its_place() -> None:
    reader = TokenReader(tokenize("a\nb"))
    reader.need("a")
    with pytest.raises(BadStatement, match="the end is expected before 'b' at line 2, character 1"):
        reader.end()
    reader.need("b")
    with pytest.raises(BadStatement, match="C is expected at the end, after 'b' at line 2, character 1"):
        reader.need("c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("('my.password' 'hush')", "= is expected before '*** )' at line 1, character 16"),
        ("('my.password', 'hush')", "= is expected before ', *** )'"),
        ("('my.password'='hush' 'hush too')", ") is expected before '*** )'"),
        ("('my.password'='hush'", ") is expected at the end, after '***'"),
        ("('a' 'b')", "= is expected before 'b )'"),
        ("('a' 'my.password'='hush')", "= is expected before 'my.password = ***"),
    ],
)
def test_no_text_after_the_name_of_a_secret_is_shown(text: str, said: str) -> None:
    with pytest.raises(BadStatement) as raised:
        TokenReader(tokenize(text)).properties()
    assert said in str(raised.value)
