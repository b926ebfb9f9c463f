"""The data source ``hive_acid``.

Spark pickles its instance after ``schema``, so the planned scan travels with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from compactor.base.errors import Refused
from compactor.spark_tables.data_source_options import (
    add_source,
    collect_sources,
    describe_source,
    parse_read_options,
    parse_schema_options,
    parse_stream_options,
    parse_stream_request,
    parse_write_request,
)
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import BeginWrite, BegunInserts, ChangeWork, PlannedScan, Release
from compactor.spark_tables.reader import Reader, StreamReader, scan_schema
from compactor.spark_tables.spark_types import to_spark_schema
from compactor.spark_tables.writer import ChangeWriter, InsertsWriter, StreamWriter, Writer


class HiveAcid(DataSource):
    """Rows of a Hive ACID table. A read sees one snapshot, a write is one commit."""

    application: ClassVar[str] = ""  #: the name under which transactions are held; ``register`` sets it
    _scan: PlannedScan | None = None

    @classmethod
    def name(cls) -> str:
        return "hive_acid"

    def schema(self) -> StructType:
        """Plans the scan, which fixes its snapshot, and returns the schema of its rows."""
        request = parse_schema_options(self.options, self.application).request
        scan: PlannedScan = Keeper().ask(request)
        self._scan = scan
        schema = to_spark_schema(scan_schema(scan))
        is_frame = request.change is None and request.within is None
        return add_source(schema, describe_source(request, scan)) if is_frame else schema

    def reader(self, schema: StructType) -> Reader:
        """Returns the reader of the scan that ``schema`` has planned.

        Raises:
            Refused: the program gave Spark a schema, so ``schema`` was not called.
        """
        return Reader(self._planned_scan(), schema, parse_read_options(self.options, self.application).split_bytes)

    def writer(self, schema: StructType, overwrite: bool) -> Writer | InsertsWriter | ChangeWriter:
        """Begins an append, several of them or an overwrite, or continues a change.

        Spark calls this once for each write.
        """
        request = parse_write_request(self.options, self.application, overwrite=overwrite)
        if isinstance(request, BeginWrite):
            request = replace(request, sources=(*request.sources, *collect_sources(schema)))
        begun = Keeper().ask(request)
        match begun:
            case ChangeWork():
                return ChangeWriter(begun)
            case BegunInserts():
                return InsertsWriter(begun)
        return Writer(begun)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Returns the reader of a stream.

        Each batch has its own snapshot, so the snapshot of the schema is released.
        """
        options, scan = parse_stream_options(self.options, self.application), self._planned_scan()
        Keeper().ask(Release(snapshot=scan.hold.name))
        return StreamReader(options, schema, scan.table_id)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Returns the writer of a stream."""
        return StreamWriter(parse_stream_request(self.options, self.application, overwrite=overwrite))

    def _planned_scan(self) -> PlannedScan:
        if self._scan is None:
            raise Refused(
                "hive_acid: a table has its own schema; leave out .schema(…), and select columns with the option columns"
            )
        return self._scan
