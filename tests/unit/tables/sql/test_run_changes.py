"""INSERT ... VALUES, UPDATE and DELETE: which rows are there then, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from compactor.base.errors import (
    BadExpression,
    BadStatement,
    CompactorError,
    NotConforming,
    NotFound,
    NotSupported,
    Refused,
)
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run

Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def sql(deployment: Site, warehouse: Path) -> Sql:
    """Runs a text, and returns the rows of its last statement; ``t`` has every kind of column, ``p`` partitions."""
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))

    def go(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(deployment, check_text(text))][-1]

    go(
        "create table t (i int, b bigint, d decimal(5,2), f double, s string, v varchar(3), l boolean, y date, m timestamp);"
        "create table p (a int, b string) partitioned by (y date, n int)"
    )
    return go


def test_literals_become_values_of_their_columns(sql: Sql) -> None:
    sql(
        "insert into t values "
        "(1, -9223372036854775808, 2.5, 1e3, 'it''s', 'abcdef', true, date '2026-11-01', timestamp '2026-11-01 10:00:00.5'),"
        "(null, 2, 3, 0.5, '', null, false, '2026-11-02', '1500-01-01 00:00:00.123456789'),"
        "(null, null, null, null, null, null, null, null, null)"
    )
    first, second, third = sql("select * from t")
    assert first == {
        "i": 1,
        "b": -(2**63),
        "d": "2.50",
        "f": 1000.0,
        "s": "it's",
        "v": "abc",
        "l": True,
        "y": "2026-11-01",
        "m": "2026-11-01 10:00:00.5",
    }
    assert (second["i"], second["d"], second["m"]) == (None, "3.00", "1500-01-01 00:00:00.123456789")
    assert set(third.values()) == {None}


def test_columns_may_be_named(sql: Sql) -> None:
    assert sql("insert into t (s, i) values ('x', 1)") == [
        {"statement": "INSERT INTO … VALUES", "table": "default.t", "rows": 1}
    ]
    assert sql("select i, b, s from t") == [{"i": 1, "b": None, "s": "x"}]


def test_partitions_come_from_the_clause_or_the_values(sql: Sql) -> None:
    sql("insert into p partition (y='2026-11-01', n=1) values (1, 'x')")
    sql("insert into p partition (y='2026-11-01', n) values (2, 'x', 2)")
    sql("insert into p values (3, 'x', '2026-11-02', 1)")
    sql("insert into p partition (y, n) (a, n, y) values (4, 1, '2026-11-02')")
    assert [row["partition"] for row in sql("show partitions p")] == [
        "y=2026-11-01/n=1",
        "y=2026-11-01/n=2",
        "y=2026-11-02/n=1",
    ]
    assert sql("select a from p where y = '2026-11-02'") == [{"a": 3}, {"a": 4}]
    sql("insert overwrite p partition (y='2026-11-02', n='1') values (5, null)")
    assert sql("select a, b, n from p where y = '2026-11-02'") == [{"a": 5, "b": None, "n": 1}]


@pytest.mark.parametrize(
    "text", ["insert into t (i) values (٣)", "delete from t where i = ٣", "select i from t limit ٣"]
)
def test_numbers_have_the_digits_of_ascii(sql: Sql, text: str) -> None:
    with pytest.raises((BadExpression, NotSupported)):  # names, to Spark
        sql(text)


def test_a_char_becomes_another_text_without_its_blanks(sql: Sql) -> None:
    """As in a live Hive 4.1: what is equal to the char before is so afterwards."""
    sql("create table c (k char(4), s string, v varchar(4), w char(6)) partitioned by (p char(3))")
    sql("insert into c values ('ab', 'x', 'y', 'z', 'q'); update c set s = k, v = p, w = k")
    assert sql("select * from c where s = 'ab' and s = k") == [
        {"k": "ab  ", "s": "ab", "v": "q", "w": "ab    ", "p": "q  "}
    ]


def test_dynamic_partition_keys_have_the_tables_order(sql: Sql) -> None:
    """Hive: values come in the order of the PARTITION clause; where that is another one than the table's, one is wrong."""
    for columns in ("", " (a, b)"):
        with pytest.raises(Refused, match="PARTITION has n, y; expected the table's order, y, n"):
            sql(f"insert into p partition (n, y){columns} values (1, 'x', '2026-11-02', 1)")
    sql("insert into p partition (n, y) (a, y, n) values (1, '2026-11-02', 1)")
    assert sql("select * from p") == [{"a": 1, "b": None, "y": "2026-11-02", "n": 1}]


def test_rows_are_updated_and_deleted_by_a_filter(sql: Sql) -> None:
    sql(r"insert into t (i, s) values (1, 'a\'b'), (2, 'c\\d'), (3, null)")
    assert sql(r"update t x set x.s = 'done', x.b = x.i where x.s = 'a\'b' or x.s = 'c\\d'")[0]["rows"] == 2
    assert sql("select i, b, s from t") == [
        {"i": 3, "b": None, "s": None},
        {"i": 1, "b": 1, "s": "done"},
        {"i": 2, "b": 2, "s": "done"},
    ]
    assert sql("delete from t where s is null or i in (-1, 2)")[0]["rows"] == 2
    assert sql("select i from t") == [{"i": 1}]
    assert sql("delete from t")[0]["rows"] == 1


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("insert into t values (1)", NotConforming, "a row has 1 values; expected 9, for i, b, d"),
        ("insert into t (i) values ('x')", NotConforming, "column i"),
        ("insert into t (i) values (1.5)", NotConforming, "column i"),
        ("insert into t (i) values (3000000000)", NotConforming, "i"),
        ("insert into t (i) values (1e99999999)", NotConforming, "i"),
        (
            "insert into t (i) values (1e99999999999999999999)",
            BadStatement,
            "at line 1, character 27 has too long an exp",
        ),
        ("update t set i = 1e99999999999999999999", BadExpression, "UPDATE at line 1.*exponent has at most 17 digits"),
        ("insert into t (f) values (1), (true)", NotConforming, "column f: is given as bool; expected: double"),
        ("insert into t (l) values (true), (1)", NotConforming, "column l: is given as a number; expected: bool"),
        ("update t set f = false", NotConforming, "column f: is given as bool; expected: double"),
        ("insert into t (m) values ('2020-01-01 10.5')", NotConforming, "column m: .*hh:mm:ss.fraction was expected"),
        ("update t set m = '2020-01-01.5'", NotConforming, "column m: .*hh:mm:ss.fraction was expected"),
        ("insert into t (d) values (1000)", NotConforming, "d"),
        ("insert into t (y) values ('yesterday')", NotConforming, "y"),
        ("insert into t (i, i) values (1, 2)", Refused, "column i is named twice"),
        ("insert into t (x) values (1)", NotFound, "no column 'x'"),
        ("insert into p partition (y='2026-11-01', z=1) values (1, 'x')", NotFound, "no partition key 'z'"),
        ("insert into p partition (y='soon', n=1) values (1, 'x')", NotConforming, "partition key y is a date"),
        ("insert into nowhere values (1)", NotFound, "nowhere"),
        ("update p set n = 2", NotSupported, "n is a partition column; rows with another value are stored elsewhere"),
        ("update c set a = 2", NotSupported, "a is a bucketing column; rows with another value are stored elsewhere"),
        ("update plain set a = 2", CompactorError, "default.plain"),
        ("delete from plain", CompactorError, "default.plain"),
        ("insert into plain values (1)", CompactorError, "default.plain"),
        ("delete from only", CompactorError, "insert_only"),
        ("update only set a = 1", CompactorError, "insert_only"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    sql: Sql, deployment: Site, warehouse: Path, text: str, error: type[CompactorError], said: str
) -> None:
    """The limits of Hive's documents: partition and bucketing columns, tables that are plain or insert-only."""
    sql(
        "create table c (a int) clustered by (a) into 2 buckets; insert into c values (1); insert into t (i) values (1)"
    )
    kinds: dict[str, dict[str, str]] = {
        "plain": {},
        "only": {"transactional": "true", "transactional_properties": "insert_only"},
    }
    for name, parameters in kinds.items():
        (warehouse / name).mkdir()
        columns = [Column(name="a", type="int")]
        deployment.metastore.embedded_catalog.create_table(
            NewTable("default", name, str(warehouse / name), columns, parameters=parameters)
        )
    with pytest.raises(error, match=said):
        sql(text)
    assert sql("select count(*) from t") == [{"count(*)": 1}]
    assert sql("select count(*) from p") == [{"count(*)": 0}]
