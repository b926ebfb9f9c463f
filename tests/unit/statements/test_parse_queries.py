"""The tables a query reads, and what its conditions say of them."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.statements.parse_queries import find_conditions, find_queried_tables
from compactor.statements.parsed_actions import NeedsSpark, NotRun
from compactor.statements.parser import parse
from compactor.statements.tokens import tokenize


def _read(text: str) -> list[str]:
    return [str(source.name) for source in find_queried_tables(tokenize(text))]


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
        ("select * from a, lateral (select * from b where b.v = a.v)", ["a", "b"]),
        ("select * from a cross join lateral (select * from b) c join d", ["a", "b", "d"]),
        ("select * from a, lateral explode(l)", ["a"]),
        ("select * from explode((select collect_list(v) from b))", ["b"]),
        ("select * from values ((select max(v) from b)) c", ["b"]),
        ("select * from table(f((select max(v) from b)))", ["b"]),
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
    assert dict(find_conditions(tokenize(where))) == known


def test_conditions_apply_only_to_a_query_of_one_table() -> None:
    assert find_queried_tables(tokenize("select * from a where p = 1"))[0].where == (("p", "1"),)
    assert [s.where for s in find_queried_tables(tokenize("select * from a, b where p = 1"))] == [(), ()]
    assert [s.where for s in find_queried_tables(tokenize("select * from a join b on true where p = 1"))] == [(), ()]
    both = {
        str(s.name): s.where for s in find_queried_tables(tokenize("select * from a where p = 1 union select * from b"))
    }
    assert both == {"a": (("p", "1"),), "b": ()}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("insert into t from s insert into u select 1", "character 22"),
        ("insert into t select 1 insert into u select 2", "character 24"),
        ("select a from (from s insert overwrite table u select 1)", "character 23"),
    ],
)
def test_a_query_does_not_write(text: str, place: str) -> None:
    """Spark would run it as a command, in its own catalog."""
    with pytest.raises(BadStatement, match=f"INSERT at line 1, {place} is within a query"):
        parse(text)


def test_a_table_is_not_created_by_a_query_that_writes() -> None:
    action = parse("create table t as from s insert into u select 1").action
    assert isinstance(action, NotRun)
    assert "INSERT at line 1, character 26 is within a query" in action.because
    assert isinstance(parse("insert into t select insert from s").action, NeedsSpark)
