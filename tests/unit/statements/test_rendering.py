from __future__ import annotations

import pytest

from compactor.statements.rendering import render_filter, render_type
from compactor.statements.tokens import tokenize
from compactor.tables.filters.expressions import parse


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"a = 'it\'s' AND `b c` IN (1, -2)", "a = 'it''s' and `b c` in ( 1 , -2 )"),
        ("x.a = +1 or t.b < - 5 and y.c = 1", "a = +1 or t . b < -5 and y . c = 1"),
        ("a - 5 = 1", "a - 5 = 1"),
        ("(a) - 5", "( a ) - 5"),
    ],
)
def test_tokens_become_a_text_of_filters(text: str, written: str) -> None:
    assert render_filter(tokenize(text), ("x",)) == written


@pytest.mark.parametrize("value", ["a\\b", "it's", "50\\%", "\n", '"', "`", "--", ";"])
def test_a_text_means_the_same_in_a_filter(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    found = parse(render_filter(tokenize(f"a = '{escaped}'")))
    assert found.right.value == value  # type: ignore[union-attr]  # a comparison


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("DECIMAL ( 10 , 2 )", "decimal(10,2)"),
        ("struct < a : int , `b c` : array < string > >", "struct<a:int,`b c`:array<string>>"),
        ("timestamp   with local time zone", "timestamp with local time zone"),
    ],
)
def test_a_type_is_written_as_hive_writes_it(text: str, written: str) -> None:
    assert render_type(tokenize(text)) == written
