"""Statements as tokens, and the tables a query reads."""

from __future__ import annotations

import pytest

from compactor.errors import Refused
from compactor.locking.statement_tokens import Name, TokenReader, conditions, sources, tokens


def _read(text: str) -> list[str]:
    return [str(source.name) for source in sources(tokens(text))]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select 1", []),
        ("select * from t", ["t"]),
        ("SELECT a FROM Db.`T x` AS b WHERE a = 'from u'", ["db.t x"]),
        ("select * from hive.db.t", ["db.t"]),
        ("select * from a, b c, d", ["a", "b", "d"]),
        ("select * from a x join b y on x.i = y.i left outer join c using (i)", ["a", "b", "c"]),
        ("select * from (select * from a) x cross join b", ["b", "a"]),
        ("select * from (a join b on a.i = b.i)", ["a", "b"]),
        ("select * from a where i in (select i from b where exists (select 1 from c))", ["b", "c", "a"]),
        ("with q as (select * from a), r as (select * from q) select * from r join b", ["a", "b"]),
        ("select * from a union all select * from b", ["a", "b"]),
        ("select extract(year from d), trim(both 'x' from s) from a", ["a"]),
        ("select * from a where x is not distinct from y", ["a"]),
        ("select * from a lateral view explode(l) e as v join b on v = b.v", ["a", "b"]),
        ("select a.x -- from b\nfrom a /* from c */", ["a"]),
    ],
)
def test_tables_of_a_query(text: str, tables: list[str]) -> None:
    assert sorted(_read(text)) == sorted(tables)


@pytest.mark.parametrize(
    ("where", "known"),
    [
        ("p = 'a'", {"p": "a"}),
        ("t.p = 'a' and q = 3", {"p": "a", "q": "3"}),
        ("'it''s' = p", {"p": "it's"}),
        ("p = 'a' and (q = 1 or q = 2)", {"p": "a"}),
        ("p = 'a' or q = 1", {}),
        ("not p = 'a'", {}),
        ("p between 'a' and 'b'", {}),
        ("p > 'a' and q = 1 order by q", {"q": "1"}),
        ("p = q", {}),
    ],
)
def test_conditions_that_name_one_value(where: str, known: dict[str, str]) -> None:
    assert dict(conditions(tokens(where))) == known


def test_conditions_apply_only_to_a_query_of_one_table() -> None:
    assert sources(tokens("select * from a where p = 1"))[0].where == (("p", "1"),)
    assert [s.where for s in sources(tokens("select * from a, b where p = 1"))] == [(), ()]
    assert [s.where for s in sources(tokens("select * from a join b on true where p = 1"))] == [(), ()]
    both = {str(s.name): s.where for s in sources(tokens("select * from a where p = 1 union select * from b"))}
    assert both == {"a": (("p", "1"),), "b": ()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 'a", "character 8"),
        ("select 1; select 2", "there are several"),
    ],
)
def test_a_text_that_is_no_statement_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        tokens(text)


def test_a_final_semicolon_starts_no_second_statement() -> None:
    assert [str(token) for token in tokens("Select 1 ;; ")] == ["select", "1"]


def test_names() -> None:
    assert TokenReader(tokens("A.B")).name() == Name(database="a", table="b")
    assert TokenReader(tokens("2024_x")).name() == Name(table="2024_x")
    with pytest.raises(Refused, match="too many parts"):
        TokenReader(tokens("a.b.c")).name()
    with pytest.raises(Refused, match="a name is expected before '= 1'"):
        TokenReader(tokens("= 1")).name()


def test_partition_clause() -> None:
    assert TokenReader(tokens("partition (p='a b', Q, r=-3)")).partition() == (("p", "a b"), ("q", None), ("r", "-3"))
    assert TokenReader(tokens("partition (p > '2024', q=date '2024-01-01')")).partition() == (
        ("p", None),
        ("q", "2024-01-01"),
    )
    assert TokenReader(tokens("select")).partition() is None
    with pytest.raises(Refused, match="a partition's value is expected at the end"):
        TokenReader(tokens("partition (p=")).partition()


def test_an_unclosed_parenthesis_is_refused() -> None:
    with pytest.raises(Refused, match="never closed"):
        TokenReader(tokens("(a (b)")).group()
