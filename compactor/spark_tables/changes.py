"""Begins, aborts and counts changes for a program that may be far from the driver: it reads a row, the driver's host
acts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from compactor.spark_tables.messages import AbortChange, BeginChange, BegunChange, CountChange
from compactor.spark_tables.options import place_of
from compactor.spark_tables.snapshots import Answer
from compactor.tables.writing.row_change import Changed

_KINDS = {"begin": BeginChange, "abort": AbortChange, "count": CountChange}


class HiveAcidChange(DataSource):
    """One row: a ``BegunChange``, or the numbers of a committed change, as JSON."""

    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return "hive_acid_change"

    def schema(self) -> str:
        return "answer string"

    def reader(self, schema: StructType) -> Answer:
        return Answer(request_of(dict(self.options.items()), self.application), as_json)


def options_of(request: BeginChange | AbortChange | CountChange) -> dict[str, str]:
    """Returns a request as options of this source, without its place."""
    action = next(name for name, kind in _KINDS.items() if isinstance(request, kind))
    fields = {one.name: getattr(request, one.name) for one in dataclasses.fields(request) if one.name != "place"}
    return {"action": action, "request": json.dumps(fields)}


def request_of(options: Mapping[str, str], application: str) -> BeginChange | AbortChange | CountChange:
    """Returns the request that ``options_of`` made these options from, with the place that they name besides."""
    fields = json.loads(options["request"])
    if options["action"] != "begin":
        return _KINDS[options["action"]](**fields)  # type: ignore[no-any-return]  # a class of _KINDS
    assigns = fields.pop("assigns")
    place = place_of(options, application)
    return BeginChange(place=place, assigns=None if assigns is None else tuple(assigns), **fields)


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
