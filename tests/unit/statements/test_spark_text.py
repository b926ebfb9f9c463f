"""A text for Spark has the words that were parsed, and calls what is allowed."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement, NotSupported
from compactor.statements import parsed_actions
from compactor.statements.parser import parse
from compactor.statements.spark_text import FUNCTIONS, NO_CALLS, REFUSED, SparkText


def passed_on(text: str) -> str:
    """Returns what Spark gets of a query, with the names of tables in brackets."""
    action = parse(text).action
    assert isinstance(action, parsed_actions.NeedsSpark | parsed_actions.Select)
    assert action.query is not None
    assert SparkText(text).functions_to_look_up(action) == ()
    return SparkText(text).query(action.query, lambda place: f"[{place.table}]")


def test_versions_belong_to_the_tables_and_are_not_passed_on() -> None:
    text = "select x.a from t for system_version as of 3 x join t on true join s for system_version as of 4"
    assert passed_on(text) == "select x.a from [t] x join [t] AS `t` on true join [s] AS `s`"
    action = parse(text).action
    assert isinstance(action, parsed_actions.NeedsSpark)
    assert [(place.table.table, place.version) for place in action.query.places] == [("t", 3), ("t", None), ("s", 4)]
    assert passed_on("select version as of from t") == "select version as of from [t] AS `t`"


def looked_up(text: str) -> list[str]:
    return [str(call) for call in SparkText(text).functions_to_look_up(parse(text).action)]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT a FROM t", "SELECT a FROM [t] AS `t`"),
        ("select a -- all\n, b /* both */ from d.t x", "select a , b from [d.t] x"),
        ("select /*+ broadcast(t) */ a from t", "select a from [t] AS `t`"),
        (
            "select a from t where b = 'it''s {0}' and c = \"\\\"\"",
            "select a from [t] AS `t` where b = 'it''s {{0}}' and c = \"\\\"\"",
        ),
        ("select 1.5, .5, 1.5BD, 2e3, 10L, -1", "select 1.5, .5, 1.5BD, 2e3, 10L, - 1"),
        ("select a<=>b, a>=b, a||b, x::int, 1>>2, 1>>>2", "select a <=> b, a >= b, a || b, x :: int, 1 >> 2, 1 >>> 2"),
        ("select date'2026-02-03', X'1F'", "select date '2026-02-03', X '1F'"),
        (
            "select transform(l, x->x+1), f.g, t.`a``b` from t",
            "select transform(l, x -> x + 1), f.g, t.`a``b` from [t] AS `t`",
        ),
        ("select count(*) over (partition by a order by b rows between 1 preceding and current row) from t", None),
        ("with Q(A, b) as (select 1, 2) select x.a from q x", "with `q`(A, b) as (select 1, 2) select x.a from q x"),
        ("select * from (values (1, 2)) as v(a, b) join (select 1) w(a) using (a)", None),
        ("select extract(year from d), trim(both 'x' from s), cast(a as decimal(10,2)) from t", None),
        ("select * from t lateral view explode(l) e as x", None),
        ("select * from t pivot (sum(a) for b in ('x', 'y'))", None),
        ("select a, sum(b) from t group by grouping sets ((a), ()) having sum(b) > 1", None),
        ("select percentile_cont(0.5) within group (order by a) filter (where a > 1) from t", None),
        ("select 1 where 2 in (1, 2) and exists (select 1) and not (a like any ('x', 'y'))", None),
        ("select größe from t", "select `größe` from [t] AS `t`"),
    ],
)
def test_words_are_written_anew(text: str, written: str | None) -> None:
    assert passed_on(text) == (text.replace("from t", "from [t] AS `t`") if written is None else written)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select java_method('java.lang.Math', 'abs', a) from t", "line 1, character 8: java_method is refused"),
        ("select `Reflect`('a', 'b')", "reflect is refused: it calls any method of Java"),
        ("select a from t where try_reflect ('a') = 1", "try_reflect is refused"),
        ("select a from t where a in (select reflect('a', 'b'))", "reflect is refused"),
        ("select a from (select reflect('a', 'b')) as x", "reflect is refused"),
        ("with q as (select reflect('a', 'b') as a) select a from q", "reflect is refused"),
        ("with reflect(a) as (select 1) select a from reflect", "reflect is refused"),
        ("select builtin.reflect('a', 'b')", "reflect is refused"),
        ("select system.builtin.upper('a')", "upper has a name before it"),
        ("select d.f(a) from t", "f has a name before it"),
        ("select * from identifier('text.`/etc/hostname`')", "identifier is refused: it makes a name of a text"),
        ("select identifier('a') from t", "identifier is refused"),
        ("select identifier('upper')('a')", "identifier is refused"),
        ("select * from read_files('/etc')", "read_files is refused"),
        ("select from_avro(a, '\"int\"', map('avroSchemaUrl', '/etc/x')) from t", "from_avro is refused"),
        ("select schema_of_avro('\"int\"', map('avroSchemaUrl', '/etc/x'))", "schema_of_avro is refused"),
        ("select * from upper(table(x))", "table is refused"),
        ("select from_protobuf(a, 'M', '/x') from t", "from_protobuf is refused: it reads a file by its path"),
        ("select a from t version as of 3", "VERSION AS OF; a version is only read after a table's name"),
        ("select a from t timestamp as of '2026-11-01'", "TIMESTAMP AS OF; a version is only read"),
        ("select a from t for system_time as of '2026-11-01'", "SYSTEM_TIME AS OF; a version is only read"),
        ("select a from (select 1 a) for system_version as of 3", "SYSTEM_VERSION AS OF; a version is only read"),
        (
            "delete from d.t where a in (select a from s for system_version as of 3)",
            "SYSTEM_VERSION AS OF; a version is only read",
        ),
        ("select transform(a) using 'cat' as (b) from t", "USING is only read before the columns of a join"),
        ("select transform(a) row format delimited using 'cat' from t", "USING"),
        ('from t map a using "cat" as b', "using at line 1, character 14 is a keyword"),
        ("with q as (select 1) delete from d.t", "WITH at line 1, character 1 before delete at line 1, character 22"),
        ("with q as (select 1) update d.t set a = 1", "before update"),
        (
            "with q(a) as (select 1), r as (select 2) merge into d.t using q on true when matched then delete",
            "before merge",
        ),
        ("with q as (select 1)", "before nothing"),
        ("select * from t where, evil", "where at line 1, character 17 is a keyword"),
        ("select * from t where (a), evil", "WHERE has none"),
        ("select * from t group, evil", "group at line 1"),
        ("from (select 1 as a) x reduce a using 'cat'", "using at line 1, character 33 is a keyword"),
        ("select transform(a) using '(' as (b) from t", "USING"),
        ("select transform(a) using r'cat' from t", "USING"),
        ("select a from t |> where a > 1", r"\|> is not supported"),
        ("select '${env:HOME}'", r"never \$\{"),
        ("select `${env:HOME}`", r"never \$\{"),
        ("select $$ ' $$ from t where a = '", r"\$, @"),
        ("select {fn upper('a')}", r"\$, @"),
        ("select r'\\d' from t", "raw texts are not supported"),
        ("select 'f'('a')", "f before a parenthesis"),
        ("select f(a)(b)", "before a parenthesis"),
        ("update d.t set a = reflect('a', 'b')", "reflect is refused"),
        ("update d.t set a = 1 where reflect('a', 'b') = 'c'", "reflect is refused"),
        ("update d.t set a = 1 where a in (select b from s where reflect('a', 'b') = 'c')", "reflect is refused"),
        ("delete from d.t where java_method('a', 'b') = 'c'", "java_method is refused"),
        ("delete from d.t where a = '${spark.x}'", r"never \$\{"),
        ("insert into d.t select reflect('a', 'b')", "reflect is refused"),
        ("insert into d.t values (reflect('a', 'b'))", "reflect is refused"),
        ("create table d.u as select reflect('a', 'b') as a", "reflect is refused"),
        (
            "from s insert into d.t select a where reflect('a', 'b') = 'c' insert into d.u select a",
            "reflect is refused",
        ),
        (
            "from (select reflect('a', 'b') as a) q insert into d.t select a insert into d.u select a",
            "reflect is refused",
        ),
        ("merge into d.t using s on t.a = reflect('a', 'b') when matched then delete", "reflect is refused"),
        (
            "merge into d.t using (select reflect('a', 'b') as a) s on t.a = s.a when matched then delete",
            "reflect is refused",
        ),
        (
            "merge into d.t using s on t.a = s.a when matched and reflect('a', 'b') = 'c' then delete",
            "reflect is refused",
        ),
        (
            "merge into d.t using s on t.a = s.a when matched then update set a = reflect('a', 'b')",
            "reflect is refused",
        ),
        (
            "merge into d.t using s on t.a = s.a when not matched then insert values (reflect('a', 'b'))",
            "reflect is refused",
        ),
    ],
)
def test_what_reaches_code_files_or_settings_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises((NotSupported, BadStatement), match=said):
        looked_up(text)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("select 1 /* /* */ */ + 2", "select 1 */ + 2"),
        ("select 1 -- \\\n , 2", "select 1 , 2"),
        ("select x://--\n 1", "select x :// 1"),
        ("select a from\xa0s", "select a `from\xa0s`"),
    ],
)
def test_what_spark_reads_otherwise_reaches_it_as_it_was_parsed(text: str, passed: str) -> None:
    """Comments within each other, those that go on behind a line, names like addresses, and other blanks."""
    assert SparkText(text).expression((0, len(text))) == passed


def test_functions_of_the_program_are_looked_up() -> None:
    assert looked_up("select mine(a), upper(b), `Other`(c) from t where a in (select mine(1))") == [
        "mine",
        "other",
        "mine",
    ]
    assert looked_up("delete from d.t where mine(a) > 1") == ["mine"]
    assert looked_up("select t.a from t as x(a) join (select 1) y(a) using (a)") == []


def test_what_is_not_sparks_is_not_looked_at() -> None:
    assert looked_up("show tables") == []
    assert looked_up("insert into d.t values ('${x}')") == []


def test_no_function_is_both_allowed_and_refused() -> None:
    assert not FUNCTIONS & REFUSED.keys()
    assert not NO_CALLS & REFUSED.keys()
