"""A data source through which a program, perhaps on another host, opens and releases snapshots: reading it acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.data_source_options import parse_place
from compactor.spark_tables.messages import OpenSnapshot, Release, Request


class HiveAcidSnapshot(DataSource):
    """One row. Reading it opens a snapshot and returns its name, or releases snapshots and returns their number."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_snapshot"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> KeeperAnswer:
        options = dict(self.options.items())
        if options.get("action") == "release":
            return KeeperAnswer(Release(snapshot=options.get("snapshot")))
        is_of_frames = options.get("action") == "open_of_frames"
        return KeeperAnswer(OpenSnapshot(place=parse_place(options, self.application), is_of_frames=is_of_frames))


class KeeperAnswer(DataSourceReader):
    """A row with the keeper's answer to a request. Every read of the row sends the request."""

    def __init__(self, request: Request, as_text: Callable[[Any], str] = str) -> None:
        self._request, self._as_text = request, as_text

    def partitions(self) -> list[InputPartition]:
        """Sends the request: Spark calls this on the driver's host, once for each read of the row."""
        return [InputPartition(self._as_text(Keeper().ask(self._request)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (partition.value,)
