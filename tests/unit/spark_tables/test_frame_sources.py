"""The tables that columns are read from, as the columns carry them."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from compactor.spark_tables.frame_sources import add_source, collect_sources
from compactor.spark_tables.messages import FrameSource, SeenCommits


def source(table: str) -> FrameSource:
    commits = SeenCommits(table_id=7, write_ids=f"{table}:3:9223372036854775807::")
    return FrameSource(metastore="default", config=None, table=table, commits=commits, snapshot="s")


def test_each_source_of_the_columns_is_there_once() -> None:
    kinds = StructType([StructField("a", IntegerType()), StructField("b", StringType())])
    both = [*add_source(kinds, source("d.t")), *add_source(kinds, source("d.u")), *kinds]
    assert collect_sources(both) == (source("d.t"), source("d.u"))
    assert [(field.name, field.dataType) for field in both[:2]] == [("a", IntegerType()), ("b", StringType())]
    assert collect_sources(kinds) == ()
