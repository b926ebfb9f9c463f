"""Opens and releases snapshots for a program that may be far from the driver: it reads a row, the driver's host acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import place_of
from compactor.spark_tables.messages import OpenSnapshot, Release, Request


class HiveAcidSnapshot(DataSource):
    """One row, the name of a snapshot, that is read as often as it is opened; or the number of those that were released."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_snapshot"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> Answer:
        given = dict(self.options.items())
        if given.get("action") == "release":
            return Answer(Release(snapshot=given.get("snapshot")))
        is_of_frames = given.get("action") == "open_of_frames"
        return Answer(OpenSnapshot(place=place_of(given, self.application), is_of_frames=is_of_frames))


class Answer(DataSourceReader):
    """A row with the keeper's answer to a request, which is asked for each time that the row is read."""

    def __init__(self, request: Request, as_text: Callable[[Any], str] = str) -> None:
        self._request, self._as_text = request, as_text

    def partitions(self) -> list[InputPartition]:
        """Acts: Spark asks for partitions once for each time that the row is read, on the driver's host."""
        return [InputPartition(self._as_text(Keeper().ask(self._request)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (partition.value,)
