"""Data sources through which a program asks the keeper: reading their single row acts.

The program may run on another host.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from compactor.spark_tables.data_source_options import parse_place, parse_sources
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import (
    AbortChange,
    Active,
    BeginChange,
    BeginStatement,
    BegunChange,
    CountChange,
    ForgetStream,
    OpenSnapshot,
    ReadersOf,
    Release,
    Renew,
    Request,
)
from compactor.tables.writing.row_change import Changed

#: The requests that a program sends to the keeper through this source.
KeeperRequest: TypeAlias = (
    BeginChange | BeginStatement | Renew | ForgetStream | ReadersOf | Active | AbortChange | CountChange
)
_KINDS: Mapping[str, type[KeeperRequest]] = {
    "begin": BeginChange,
    "statement": BeginStatement,
    "renew": Renew,
    "forget": ForgetStream,
    "readers": ReadersOf,
    "active": Active,
    "abort": AbortChange,
    "count": CountChange,
}


class HiveAcidChange(DataSource):
    """One row: the keeper's answer as JSON, such as ``BegunChange`` or the counts of a committed change."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_change"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> KeeperAnswer:
        return KeeperAnswer(request_from_options(dict(self.options.items()), self.application), answer_to_json)


def request_to_options(request: KeeperRequest) -> dict[str, str]:
    """Returns a request as options of this source, without its ``place``."""
    action = next(name for name, kind in _KINDS.items() if isinstance(request, kind))
    fields = dataclasses.asdict(request)
    fields.pop("place", None)
    return {"action": action, "request": json.dumps(fields)}


def request_from_options(options: Mapping[str, str], application: str) -> KeeperRequest:
    """Returns the request that ``request_to_options`` wrote, with the place from the other options."""
    kind = _KINDS[options["action"]]
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(options["request"]).items()
    }
    if "sources" in fields:
        fields["sources"] = parse_sources(json.dumps(fields["sources"]))
    if any(field.name == "place" for field in dataclasses.fields(kind)):
        fields["place"] = parse_place(options, application)
    return kind(**fields)  # type: ignore[arg-type]  # ``request_to_options`` wrote them


def answer_to_json(answer: Any) -> str:
    """Returns an answer of the keeper as the text of the row."""
    return json.dumps(dataclasses.asdict(answer) if dataclasses.is_dataclass(type(answer)) else answer)


def parse_begun_change(answer: str) -> BegunChange:
    """Returns a begun change from the text of the row."""
    fields = json.loads(answer)
    return BegunChange(
        change=fields["change"],
        columns=tuple(fields["columns"]),
        types=tuple(fields["types"]),
        partition_keys=tuple(fields["partition_keys"]),
        bucket_columns=tuple(fields["bucket_columns"]),
        is_checked=fields["is_checked"],
    )


def parse_counts(answer: str) -> Changed:
    """Returns the row counts of a committed change from the text of the row."""
    return Changed(**json.loads(answer))


class HiveAcidSnapshot(DataSource):
    """One row.

    Reading it opens a snapshot and returns its name, or releases snapshots and returns their number.
    """

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
