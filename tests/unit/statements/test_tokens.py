"""Texts as statements, and these as tokens with their places."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.statements.tokens import DEEPEST, LONGEST, render_filter, render_type, split_statements, tokenize
from compactor.tables.filters.expressions import parse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 'a", "the text or name that begins with ' at line 1, character 8 has no end"),
        ("select `a", "the text or name that begins with ` at line 1, character 8 has no end"),
        ("select 1; select 2", "there are several"),
        ("select 1 /* of */ /* two", "the comment at line 1, character 19 has no end"),
        (r"select '\ude00\ud83d'", "at line 1, character 8 has half of a character"),
        ("select `\udcff`", "at line 1, character 8 has half of a character"),
        ("select \udcff", "at line 1, character 8 is not a word"),
    ],
)
def test_a_text_that_is_no_statement_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadStatement, match=said):
        tokenize(text)


def test_a_final_semicolon_starts_no_second_statement() -> None:
    assert [str(token) for token in tokenize("Select 1 ;; ")] == ["select", "1"]


def test_statements_are_split_where_no_text_name_or_comment_has_the_semicolon() -> None:
    text = "select ';' -- ;\n; /* ; */ select `;`;;"
    assert [[str(token) for token in one] for one in split_statements(text)] == [["select", ";"], ["select", ";"]]
    assert split_statements("") == split_statements(" ; -- nothing\n") == ()
    assert [str(token) for token in tokenize("select -- one\r 1")] == ["select", "1"]


def test_each_token_has_its_place_in_the_whole_text() -> None:
    found = tokenize("select\n  a -- x\n  from 'b\nc' d")
    assert [(str(token), token.line, token.column) for token in found] == [
        ("select", 1, 1), ("a", 2, 3), ("from", 3, 3), ("b\nc", 3, 8), ("d", 4, 4),
    ]  # fmt: skip
    assert [(token.start, token.end) for token in found][:2] == [(0, 6), (9, 10)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\'b'", "a'b"),
        ("'it''s'", "it's"),
        ('"say ""no"""', 'say "no"'),
        (r"'a\\b'", r"a\b"),
        (r"'\n\t\0\x'", "\n\t\0x"),
        (r"'\u0041\101'", "AA"),
        (r"'50\%\_'", r"50\%\_"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        ("'\U0001f600'", "\U0001f600"),
    ],
)
def test_texts_have_hives_escapes(text: str, value: str) -> None:
    """``BaseSemanticAnalyzer.unescapeSQLString``; those of LIKE stay for LIKE."""
    (token,) = tokenize(text)
    assert (token.kind, token.value) == ("text", value)


def test_a_text_has_its_limits() -> None:
    assert len(tokenize("(" * DEEPEST)) == DEEPEST
    with pytest.raises(
        BadStatement, match=f"more than {DEEPEST} levels of parentheses at line 1, character {DEEPEST + 1}"
    ):
        tokenize("(" * (DEEPEST + 1))
    with pytest.raises(BadStatement, match="at most"):
        tokenize(" " * (LONGEST + 1))


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
