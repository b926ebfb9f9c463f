"""The tables that a DataFrame reads, as its columns carry them in the metadata of Spark's schema.

The metadata goes on with a column through filters, joins and renames, so a write knows what its rows were read from
(PROTOCOL 14.29).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructField, StructType

from compactor.spark_tables.data_source_options import sources_of, sources_text
from compactor.spark_tables.messages import Commits, FrameSource, Place, PlannedScan

KEY = "hive_acid"  #: of the metadata


def source_of(place: Place, scan: PlannedScan) -> FrameSource:
    """Returns what a planned scan reads."""
    commits = Commits(table_id=scan.table_id, write_ids=str(scan.plan.write_ids))
    return FrameSource(
        metastore=place.metastore, config=place.config, table=scan.plan.table, commits=commits, snapshot=scan.hold.name
    )


def with_source(schema: StructType, source: FrameSource) -> StructType:
    """Returns ``schema`` with columns that say that they are read from ``source``."""
    metadata = {KEY: sources_text([source])}
    return StructType([StructField(field.name, field.dataType, field.nullable, metadata) for field in schema])


def sources_in(schema: Iterable[StructField]) -> tuple[FrameSource, ...]:
    """Returns what the columns of ``schema`` are known to be read from, each once."""
    texts = dict.fromkeys(field.metadata[KEY] for field in schema if field.metadata and KEY in field.metadata)
    return tuple(dict.fromkeys(source for text in texts for source in sources_of(text)))
