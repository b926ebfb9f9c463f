from __future__ import annotations

import pytest

from compactor.insight.query_text import MOST_TEXT, digest_likeness, normalise_query

TABLES = [("d", "t")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT * FROM t WHERE a = 1", "select  *\nfrom T where A=42"),
        ("select a from t where b = 'x' -- it's mine", "select a from t where b = 'it''s; -- not' /* c */"),
        ("select a from t where b in (1, 2, 3)", "select a from t where b in (7)"),
        ("select 1.5e3;", "select 2"),
    ],
)
def test_constants_blanks_and_comments_do_not_count(one: str, other: str) -> None:
    assert normalise_query(one, quotes_are_text=False) == normalise_query(other, quotes_are_text=False)
    assert digest_likeness(one, TABLES, quotes_are_text=False) == digest_likeness(other, TABLES, quotes_are_text=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t", "select b from t"),
        ('select "A" from t', 'select "a" from t'),
        ("select `A` from t", "select `a` from t"),
        ("select a1 from t", "select a2 from t"),
    ],
)
def test_names_count(one: str, other: str) -> None:
    assert digest_likeness(one, TABLES, quotes_are_text=False) != digest_likeness(other, TABLES, quotes_are_text=False)


def test_tables_count_and_their_order_does_not() -> None:
    two = [("d", "t"), ("d", "u")]
    assert digest_likeness("x", TABLES, quotes_are_text=False) != digest_likeness("x", two, quotes_are_text=False)
    assert digest_likeness("x", two, quotes_are_text=False) == digest_likeness("x", two[::-1], quotes_are_text=False)


def test_double_quotes_hold_constants_in_hive() -> None:
    assert normalise_query('a = "x"', quotes_are_text=True) == normalise_query("a = 'y'", quotes_are_text=True)


@pytest.mark.parametrize("text", ["/*", "'", '"', "`", "''", "\\'", "--", "/*/", "?"])
def test_no_text_takes_long(text: str) -> None:
    """Whatever is never closed is read once: quadratic time would be hours here."""
    assert len(normalise_query(text * MOST_TEXT, quotes_are_text=True)) <= 3 * MOST_TEXT


def test_no_secret_can_be_read_from_it() -> None:
    assert "hunter2" not in digest_likeness("select 'hunter2'", TABLES, quotes_are_text=False)
