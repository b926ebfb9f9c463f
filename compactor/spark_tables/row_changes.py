"""Begins, renews, aborts and counts changes and statements for a program that may be far from the driver: it reads a row,
the driver's host acts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from compactor.spark_tables.data_source_options import place_of, sources_of
from compactor.spark_tables.messages import (
    AbortChange,
    Active,
    BeginChange,
    BeginStatement,
    BegunChange,
    CountChange,
    ForgetStream,
    ReadersOf,
    Renew,
)
from compactor.spark_tables.snapshots import Answer
from compactor.tables.writing.row_change import Changed

#: What a program asks the keeper for through this source.
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
    """One row: the keeper's answer as JSON, such as a ``BegunChange`` or the numbers of a committed change."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_change"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> Answer:
        return Answer(request_of(dict(self.options.items()), self.application), as_json)


def options_of(request: KeeperRequest) -> dict[str, str]:
    """Returns a request as options of this source, without its place."""
    action = next(name for name, kind in _KINDS.items() if isinstance(request, kind))
    fields = dataclasses.asdict(request)
    fields.pop("place", None)
    return {"action": action, "request": json.dumps(fields)}


def request_of(options: Mapping[str, str], application: str) -> KeeperRequest:
    """Returns the request that ``options_of`` made these options from, with the place that they name besides."""
    kind = _KINDS[options["action"]]
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(options["request"]).items()
    }
    if "sources" in fields:
        fields["sources"] = sources_of(json.dumps(fields["sources"]))
    if any(field.name == "place" for field in dataclasses.fields(kind)):
        fields["place"] = place_of(options, application)
    return kind(**fields)  # type: ignore[arg-type]  # they are those of ``options_of``


def as_json(answer: Any) -> str:
    """Returns the answer of a keeper as the text of the row."""
    return json.dumps(dataclasses.asdict(answer) if dataclasses.is_dataclass(type(answer)) else answer)


def begun_of(answer: str) -> BegunChange:
    """Returns a change that was begun from the text of its row."""
    fields = json.loads(answer)
    return BegunChange(
        change=fields["change"],
        columns=tuple(fields["columns"]),
        types=tuple(fields["types"]),
        partition_keys=tuple(fields["partition_keys"]),
        bucket_columns=tuple(fields["bucket_columns"]),
        is_checked=fields["is_checked"],
    )


def counts_of(answer: str) -> Changed:
    """Returns the numbers of a committed change from the text of its row."""
    return Changed(**json.loads(answer))
