"""Filters that mean the same here and in Spark are pushed, and no others."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds

from compactor.spark_tables.pushdown import translate_filters
from compactor.tables.filters.binding import bind

KINDS = {
    "i": pa.int64(),
    "n": pa.decimal128(10, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "odd `name": pa.int64(),
}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (ds.EqualTo(("i",), 5), "`i` = 5"),
        (ds.EqualNullSafe(("i",), -5), "`i` = -5"),
        (ds.GreaterThan(("n",), Decimal("1E+2")), "`n` > 100"),
        (ds.GreaterThanOrEqual(("d",), datetime.date(2026, 1, 2)), "`d` >= DATE '2026-01-02'"),
        (
            ds.LessThan(("t",), datetime.datetime(2026, 1, 2, 3, 4, 5, 6)),
            "`t` < TIMESTAMP '2026-01-02 03:04:05.000006'",
        ),
        (ds.LessThanOrEqual(("s",), "it's"), "`s` <= 'it''s'"),
        (ds.EqualTo(("b",), True), "`b` = TRUE"),
        (ds.In(("i",), (1, 2)), "`i` IN (1, 2)"),
        (ds.IsNull(("i",)), "`i` IS NULL"),
        (ds.IsNotNull(("odd `name",)), "`odd ``name` IS NOT NULL"),
        (ds.Not(ds.EqualTo(("i",), 5)), "NOT (`i` = 5)"),
        (ds.StringStartsWith(("s",), "a%_\\b"), r"`s` LIKE 'a\%\_\b%'"),
        (ds.StringEndsWith(("s",), "z"), "`s` LIKE '%z'"),
        (ds.StringContains(("s",), "m"), "`s` LIKE '%m%'"),
        (ds.StringEndsWith(("s",), "\\"), "`s` LIKE '%\\'"),
    ],
)
def test_a_filter_becomes_a_text_of_the_grammar(given: ds.Filter, text: str) -> None:
    assert translate_filters([given], KINDS) == [text]
    bind(text, pa.schema(list(KINDS.items())))


@pytest.mark.parametrize(
    "given",
    [
        ds.EqualTo(("padded",), "a"),
        ds.StringContains(("s",), "\\"),
        ds.StringStartsWith(("s",), "a\\"),
        ds.EqualTo(("i", "inner"), 5),
        ds.EqualTo(("i",), None),
        ds.EqualTo(("i",), 1.5),
        ds.EqualTo(("t",), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ds.In(("i",), ()),
        ds.In(("i",), (1, None)),
        ds.Not(ds.EqualNullSafe(("i",), 5)),
        ds.Not(ds.In(("i",), (1, None))),
    ],
)
def test_what_spark_compares_otherwise_stays_with_spark(given: ds.Filter) -> None:
    assert translate_filters([given], KINDS) == []
