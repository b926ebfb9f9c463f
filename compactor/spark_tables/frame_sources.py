"""The tables that a DataFrame reads. Its columns carry them in the metadata of Spark's schema.

Spark keeps a column's metadata through filters, joins and renames, so a write knows which tables its rows were read from
(PROTOCOL 14.29).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructField, StructType

from compactor.spark_tables.data_source_options import format_sources, parse_sources
from compactor.spark_tables.messages import FrameSource, MetastorePlace, PlannedScan, SeenCommits

KEY = "hive_acid"  #: the key in the metadata


def describe_source(place: MetastorePlace, scan: PlannedScan) -> FrameSource:
    """Returns the table that a planned scan reads, with the commits that it sees."""
    commits = SeenCommits(table_id=scan.table_id, write_ids=str(scan.plan.write_ids))
    return FrameSource(
        metastore=place.metastore, config=place.config, table=scan.plan.table, commits=commits, snapshot=scan.hold.name
    )


def add_source(schema: StructType, source: FrameSource) -> StructType:
    """Returns ``schema`` with ``source`` in the metadata of every column."""
    metadata = {KEY: format_sources([source])}
    return StructType([StructField(field.name, field.dataType, field.nullable, metadata) for field in schema])


def collect_sources(schema: Iterable[StructField]) -> tuple[FrameSource, ...]:
    """Returns the tables from which columns of ``schema`` are read, each once, as far as their metadata says."""
    texts = dict.fromkeys(field.metadata[KEY] for field in schema if field.metadata and KEY in field.metadata)
    return tuple(dict.fromkeys(source for text in texts for source in parse_sources(text)))
