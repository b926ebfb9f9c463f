"""Opens and releases snapshots for a program that may be far from the driver: it reads a row, the driver's host acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import OpenSnapshot, Release
from compactor.spark_tables.options import place_of


class HiveAcidSnapshot(DataSource):
    """One row, the name of a snapshot, that is read as often as it is opened; or the number of those that were released."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_snapshot"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> _Reader:
        given = dict(self.options.items())
        if given.get("action") == "release":
            return _Reader(Release(snapshot=given.get("snapshot")))
        return _Reader(OpenSnapshot(place=place_of(given, self.application)))


class _Reader(DataSourceReader):
    def __init__(self, request: OpenSnapshot | Release) -> None:
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Acts: Spark asks for partitions once for each time that the row is read, on the driver's host."""
        return [InputPartition(str(Keeper().ask(self._request)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (partition.value,)
