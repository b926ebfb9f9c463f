"""The data source ``hive_acid``. Its instance is pickled after ``schema``, so what that has planned travels with it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from compactor.base.errors import Refused
from compactor.spark_tables.change_writer import ChangeWriter
from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import (
    read_options,
    schema_options,
    stream_options,
    stream_request,
    write_request,
)
from compactor.spark_tables.frame_sources import source_of, sources_in, with_source
from compactor.spark_tables.inserts_writer import InsertsWriter
from compactor.spark_tables.messages import BeginWrite, BegunInserts, ChangeWork, PlannedScan, Release
from compactor.spark_tables.reader import Reader, schema_of
from compactor.spark_tables.spark_types import spark_schema
from compactor.spark_tables.stream_reader import StreamReader
from compactor.spark_tables.stream_writer import StreamWriter
from compactor.spark_tables.writer import Writer


class HiveAcid(DataSource):
    """Rows of a Hive ACID table: what is read is all of one snapshot, what is written comes with one commit."""

    application: ClassVar[str] = ""  #: the name under which transactions are held; ``register`` sets it
    _scan: PlannedScan | None = None

    @classmethod
    def name(cls) -> str:
        return "hive_acid"

    def schema(self) -> StructType:
        """Plans the scan, which fixes its snapshot, and returns the schema of its rows."""
        request = schema_options(self.options, self.application).request
        scan: PlannedScan = Keeper().ask(request)
        self._scan = scan
        schema = spark_schema(schema_of(scan))
        is_frame = request.change is None and request.within is None
        return with_source(schema, source_of(request.place, scan)) if is_frame else schema

    def reader(self, schema: StructType) -> Reader:
        """Returns the reader of what ``schema`` has planned.

        Raises:
            Refused: Spark was given a schema instead.
        """
        return Reader(self._planned(), schema, read_options(self.options, self.application).split_bytes)

    def writer(self, schema: StructType, overwrite: bool) -> Writer | InsertsWriter | ChangeWriter:
        """Begins an append, several of them or an overwrite, or goes on with a change; Spark asks for it when it runs the
        write, once."""
        request = write_request(self.options, self.application, overwrite=overwrite)
        if isinstance(request, BeginWrite):
            request = replace(request, sources=(*request.sources, *sources_in(schema)))
        begun = Keeper().ask(request)
        match begun:
            case ChangeWork():
                return ChangeWriter(begun)
            case BegunInserts():
                return InsertsWriter(begun)
        return Writer(begun)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Returns what reads the batches of a stream; each has a snapshot of its own, so that of the schema is let go."""
        asked, scan = stream_options(self.options, self.application), self._planned()
        Keeper().ask(Release(snapshot=scan.hold.name))
        return StreamReader(asked, schema, scan.table_id)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Returns what writes the batches of a stream."""
        return StreamWriter(stream_request(self.options, self.application, overwrite=overwrite))

    def _planned(self) -> PlannedScan:
        if self._scan is None:
            raise Refused(
                "hive_acid: a table has its own schema; leave out .schema(…), the option columns selects columns"
            )
        return self._scan
