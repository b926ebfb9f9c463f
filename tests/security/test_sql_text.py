"""Texts of strangers in a session of Spark, judged by Spark's own parser: what it makes of what it is given."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compactor.base.errors import BadStatement, CompactorError, NotSupported
from compactor.spark_tables import sql
from compactor.spark_tables.spark_plan import must_only_read
from compactor.statements.parser import parse
from compactor.statements.spark_text import FUNCTIONS, NO_CALLS, REFUSED, SparkText, _parts
from tests.support.patience import PATIENCE
from tests.support.sizes import sized
from tests.support.spark_connect import connect_server
from tests.support.spark_sessions import local_session

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]

_WORDS = r"""
select from where with as table using join union all values transform map reduce in exists not and on lateral view group by
order limit over partition stream identifier reflect java_method upper explode range f t d.t parquet.`/x` text.`/x` `t` 'a'
"b" 'it''s' '\'' r'a' X'1F' 1 2.5 ( ) ( ) , , . = > | |> - -- --\ /* */ /*+ $$ ${x} { } : // ; \ a b q a://b ' " ` case when
then end cast null rows insert into delete merge recursive pivot for tablesample qualify having window outer left on on
r R using' from/**/t
"""
TOKENS = st.sampled_from([*_WORDS.split(), "\n", "\t", "\u00a0", "\u2028", "\\\n"])
TEXTS = st.lists(TOKENS, max_size=25).map(" ".join) | st.lists(TOKENS, max_size=25).map("".join)
QUERIES = TEXTS.map("select a from t ".__add__) | TEXTS.map("with q as (select 1 as a) select a from q where ".__add__)
#: Plans and expressions of Spark that run code, or read or write something by a name or path.
_REACHES = re.compile(
    r"ScriptTransformation|CallMethodViaReflection|UnresolvedTableValuedFunction \[(?!range|explode|inline|stack)|"
    r"InsertInto|DeleteFrom|MergeInto|UpdateTable|RelationTimeTravel|NamedStreamingRelation|UnresolvedIdentifier|"
    r"NameParameterized|Command"
)
_RELATION = re.compile(r"UnresolvedRelation \[([^]]*)\]")


READING = [
    "select a from f where a in (select b from f) and exists (select 1 from f x where x.a = f.a)",
    "with q(a) as (select 1), r as (select a from q) select * from r join q using (a) order by a limit 3 offset 1",
    "with recursive q(a) as (select 1 union all select a + 1 from q where a < 3) select * from q",
    "select * from f pivot (sum(a) for b in ('x', 'y'))",
    "select * from f unpivot (v for n in (a, b))",
    "select * from f lateral view outer explode(l) e as x",
    "select * from f, lateral (select f.a) y, range(3) r(n)",
    "select * from f tablesample (10 percent) s",
    "values (1, 2), (3, (select max(a) from f))",
    "select a, count(*) from f group by grouping sets ((a), ()) having count(*) > 1",
    "select sum(b) over w from f window w as (partition by a) qualify row_number() over w = 1",
    "select a from f union select a from f intersect select 1 except all select 2",
    "from f select a where a > 1 distribute by a sort by a",
    "select * from (f join f g on f.a = g.a) natural join f",
    "select * from explode(array(1, 2)) as t(x) order by all limit all",
]
#: Queries of which Spark makes something else, and what.
REACHING = [
    ("select (select max(a) from f), a in (select a from evil) from f", "the table evil"),
    ("select * from f where, evil", "the table evil"),
    ("select * from f, (values ((select 1 from x.evil))) v", r"the table x\.evil"),
    ("select * from (with z as (select 1) select * from z), z", "the table z"),
    ("with z as (select * from z) select * from z", "the table z"),
    ("select * from parquet.`/x`", r"the table parquet\./x"),
    ("select * from f with (a = 'b')", "the table f"),
    ("select * from f |> where a = 1", "PipeOperator"),
    ("select transform(a) using 'cat' as (b) from f", "ScriptTransformation"),
    ("select * from stream f", "NamedStreamingRelation"),
    ("select * from f timestamp as of '2026-01-01'", "RelationTimeTravel"),
    ("insert into f select 1", "InsertIntoStatement"),
    ("with q as (select 1) delete from f", "DeleteFromTable"),
    ("with q as (select 1) merge into f using q on true when matched then delete", "MergeIntoTable"),
    ("with q as (select 1) update f set a = 1", "UpdateTable"),
    ("cache table f", "CacheTable"),
    ("add jar 'x.jar'", "AddJarsCommand"),
    ("set a = b", "SetCommand"),
    ("create temporary function f as 'a.B' using jar 'x.jar'", "CreateFunction"),
    ("explain select 1", "ExplainCommand"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def plan_of(session: Any) -> Callable[[str], str]:
    """Returns what Spark's parser makes of a text."""
    parser = session._jsparkSession.sessionState().sqlParser()
    return lambda text: str(parser.parsePlan(text).toString())


def plans(plan_of: Callable[[str], str], text: str) -> list[str]:
    """Returns what Spark would make of each query of a text; nothing if it is refused, here or there."""
    try:
        action = parse(text).action
        spark_text = SparkText(text)
        if spark_text.functions_to_look_up(action):
            return []  # no program has registered any
    except CompactorError:
        return []
    queries, _ = _parts(action)
    found = []
    for query in queries:
        written = spark_text.query(query, lambda _: "frame").format()
        with contextlib.suppress(Exception):  # Spark refuses it
            found.append(plan_of(written))
    return found


@settings(max_examples=sized(short=200, whole=4000), deadline=None, suppress_health_check=list(HealthCheck))
@given(text=QUERIES)
@example(text="select a from t -- \\\n ' \n , evil --'")
@example(text="select /* /* */ ' */ a from t, evil where b = '*/ '")
@example(text="select $$ ' $$ from evil where a = ''")
@example(text="select r'\\' from evil where a = ''")
@example(text="select a from\u00a0evil")
@example(text="select x://--' , evil \n '")
@example(text="with Q as (select 1) select * from q")
@example(text="select (table evil)")
@example(text="select * from t |> union all table evil")
@example(text="select * from range(1) |> join evil")
@example(text="select * from t where, evil")
@example(text="select * from t where(a), evil")
@example(text="select * from t x join t y on x.a = y.a, evil")
@example(text="select * from t x join t y on case when x.a = 1 then true end, evil")
@example(text="select * from t x join t y using (a), evil")
@example(text="select * from t having, evil")
@example(text="select * from t group, evil")
@example(text="select * from t when, evil")
@example(text="select * from t window, evil")
@example(text="select * from t limit, evil")
@example(text="select * from t x join t y on percentile_cont(0.5) within group (order by x.a) = 1, evil")
def test_spark_sees_no_table_but_those_that_were_parsed_and_runs_nothing(
    plan_of: Callable[[str], str], text: str
) -> None:
    defined = {"q"} if "with q" in text.lower() else set()
    for plan in plans(plan_of, text):
        assert not _REACHES.search(plan), plan
        relations = set(_RELATION.findall(plan))
        assert relations <= {"frame"} | defined, plan


def test_every_function_of_spark_is_decided(session: Any) -> None:
    """A newer Spark brings functions: each is put on one of the lists."""
    names = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    words = {name for name in names if re.fullmatch(r"\w+", name)}
    assert len(words) > 500
    assert words - FUNCTIONS - REFUSED.keys() == set()
    assert FUNCTIONS - words == set()
    assert words & NO_CALLS <= FUNCTIONS
    assert {"java_method", "reflect", "try_reflect"} <= words & REFUSED.keys()


@pytest.mark.parametrize("text", READING)
def test_a_query_of_any_kind_is_passed_on(session: Any, text: str) -> None:
    must_only_read(session, text, ["f"])


@pytest.mark.parametrize(("text", "said"), REACHING)
def test_whatever_spark_finds_besides_is_refused(session: Any, text: str, said: str) -> None:
    with pytest.raises(NotSupported, match=f"Spark finds {said}"):
        must_only_read(session, text, ["f"])


#: Asks a server of Connect about queries, without a JVM of its own, and prints what was said of each.
_CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from compactor.base.errors import NotSupported
from compactor.spark_tables.spark_plan import must_only_read
spark, said = SparkSession.builder.remote(sys.argv[1]).getOrCreate(), {}
for text in json.load(sys.stdin):
    try:
        said[text] = must_only_read(spark, text, ["f"])
    except NotSupported as error:
        said[text] = str(error)
print(json.dumps(said))
"""


def test_a_session_of_connect_asks_its_server_for_the_plan(tmp_path: Path) -> None:
    """It has no parser of its own; a line in a text does not pass for one of the plan."""
    forged = ["a\n", "a\\n", "\\u000a", "\\012", "\n\n== Analyzed Logical Plan ==\n"]
    texts = [*READING, *(text for text, _ in REACHING), *(f"select '{text}' from f, evil" for text in forged)]
    with connect_server(tmp_path) as address:
        client = subprocess.run(
            [sys.executable, "-c", _CLIENT, address],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert client.returncode == 0, client.stderr
    said = json.loads(client.stdout.splitlines()[-1])
    assert {text: said[text] for text in READING if said[text] is not None} == {}
    assert [text for text, _ in REACHING if "query: Spark finds" not in (said[text] or "")] == []
    assert [text for text in texts[-len(forged) :] if "with a line break" not in (said[text] or "")] == []


def test_functions_of_the_program_are_called_and_those_of_a_catalog_are_not(session: Any) -> None:
    session.udf.register("twice", lambda number: number * 2, "int")
    assert [tuple(row) for row in sql(session, "select twice(a) from (values (4)) as v(a)").collect()] == [(8,)]
    session.sql("create function abs_of_hive as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs'")
    for text in ("select abs_of_hive(-1)", "select default.abs_of_hive(-1)", "select nobody_knows(1)"):
        with pytest.raises(NotSupported, match=r"neither a function of Spark|has a name before it"):
            sql(session, text)


@pytest.mark.parametrize(
    "text",
    [
        "select java_method('java.lang.Math', 'abs', -1)",
        "select transform(1) using 'cat' as (a)",
        "select * from identifier('text.`{path}`')",
        "select * from text.`{path}`",
        "select '${env:PATH}'",
        "with q as (select 1 as a) delete from t where a in (select a from q)",
    ],
)
def test_nothing_of_a_refused_text_is_done(session: Any, text: str, tmp_path: Path) -> None:
    """Also not what comes before it, which would need a metastore here."""
    (tmp_path / "file").write_text("a line", "utf-8")
    with pytest.raises((NotSupported, BadStatement)):
        sql(session, f"drop table d.t; {text.replace('{path}', str(tmp_path / 'file'))}").collect()
