"""The options of ``hive_acid``, from Spark's texts to values."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from compactor.base.errors import BadSetting
from compactor.spark_tables.messages import (
    BeginInserts,
    BeginWrite,
    Commits,
    Creation,
    FrameSource,
    Place,
    PlanScan,
    WriteChange,
)

CREATES = "creates"  #: the table that a write creates, as ``creation_text`` writes it
INSERTS = "inserts"  #: the tables of several INSERTs, as a list in JSON
CHANGE = "change"  #: a change that ``AcidTable`` has begun, which rows are found or written for
WHERE = "where"  #: the condition of a query, which Spark evaluates itself
WITHIN = "within"  #: a change whose transaction reads a table that its condition names
STATEMENT = "statement"  #: one that ``BeginStatement`` has begun, whose rows are written
SOURCES = "sources"  #: what the rows are read from, as ``sources_text`` writes it
_PLACE = ("table", "metastore", "config")
_READING = (*_PLACE, "columns", "filter", "row_ids", "snapshot", "split_bytes", CHANGE, WHERE, WITHIN)
_WRITING = (*_PLACE, "time_zone", "stream", "batch", CHANGE, CREATES, INSERTS, STATEMENT, SOURCES)
_STREAMING = (*_PLACE, "time_zone", "stream")
_STARTING = "starting"
_STREAMED = (*_PLACE, "columns", "filter", "row_ids", "split_bytes", _STARTING)
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
#: options of a query that Spark hands on to where it writes
_OF_SPARK = ("checkpointlocation", "queryname")
_SPLIT_BYTES = 32 * 1024 * 1024
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read, as the request that they are; ``split_bytes`` is about what one task reads."""

    request: PlanScan
    split_bytes: int


def read_options(options: Mapping[str, str], application: str) -> ReadOptions:
    """Returns the options of a read.

    Raises:
        BadSetting: one is missing, unknown or no value of its kind.
    """
    given = _known(options, _READING)
    columns = given.get("columns")
    return ReadOptions(
        request=PlanScan(
            place=place_of(given, application),
            table=_table(given),
            columns=None if columns is None else tuple(filter(None, map(str.strip, columns.split(",")))),
            row_filter=given.get("filter"),
            where=given.get(WHERE),
            row_ids=_boolean(given, "row_ids"),
            snapshot=given.get("snapshot"),
            change=given.get(CHANGE),
            within=given.get(WITHIN),
        ),
        split_bytes=_bytes(given, "split_bytes", _SPLIT_BYTES),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(ReadOptions):
    """The options of a stream of rows; ``from_latest`` leaves out those that are there when it begins."""

    from_latest: bool


def stream_options(options: Mapping[str, str], application: str) -> StreamOptions:
    """Returns the options of ``readStream``.

    Raises:
        BadSetting: as with ``read_options``.
    """
    given = _known(options, _STREAMED)
    starting = given.pop(_STARTING, "earliest").lower()
    if starting not in ("earliest", "latest"):
        raise BadSetting(f"hive_acid: {_STARTING} is {starting!r}; wanted earliest or latest")
    asked = read_options(given, application)
    return StreamOptions(request=asked.request, split_bytes=asked.split_bytes, from_latest=starting == "latest")


def schema_options(options: Mapping[str, str], application: str) -> ReadOptions:
    """Returns the options of a read or of ``readStream``: Spark asks for the schema before it says which.

    Raises:
        BadSetting: as with ``read_options``.
    """
    of_stream = any(key.lower() == _STARTING for key in options)
    return (stream_options if of_stream else read_options)(options, application)


def write_request(
    options: Mapping[str, str], application: str, *, overwrite: bool
) -> BeginWrite | BeginInserts | WriteChange:
    """Returns the options of a write, as the request that they are.

    Raises:
        BadSetting: as with ``read_options``.
    """
    given = _known(options, _WRITING)
    if CHANGE in given:
        return WriteChange(change=given[CHANGE])
    if INSERTS in given:
        tables = tuple(json.loads(given[INSERTS]))
        return BeginInserts(
            place=place_of(given, application),
            tables=tables,
            time_zone=given.get("time_zone"),
            statement=given.get(STATEMENT),
        )
    if ("stream" in given) is not ("batch" in given):
        raise BadSetting("hive_acid: stream and batch are given together, or none of them")
    begun = replace(
        _begin(given, application, overwrite),
        creates=_creation(given),
        statement=given.get(STATEMENT),
        sources=sources_of(given.get(SOURCES, "[]")),
    )
    return replace(begun, stream=_stream(given), batch=_number(given, "batch")) if "stream" in given else begun


def creation_text(creation: Creation) -> str:
    """Returns a table to be created as the option ``creates`` has it."""
    return json.dumps(asdict(creation))


def sources_text(sources: Iterable[FrameSource]) -> str:
    """Returns what rows are read from as the option ``sources`` has it."""
    return json.dumps([asdict(source) for source in sources])


def sources_of(text: str) -> tuple[FrameSource, ...]:
    """Returns what ``sources_text`` wrote."""
    return tuple(FrameSource(**{**fields, "commits": Commits(**fields["commits"])}) for fields in json.loads(text))


def _creation(given: Mapping[str, str]) -> Creation | None:
    if CREATES not in given:
        return None
    found = json.loads(given[CREATES])
    return Creation(
        columns=tuple((name, kind) for name, kind in found["columns"]),
        partitioned_by=tuple(found["partitioned_by"]),
        clustered_by=tuple(found["clustered_by"]),
        buckets=found["buckets"],
        location=found["location"],
        properties=tuple((key, value) for key, value in found["properties"]),
    )


def stream_request(options: Mapping[str, str], application: str, *, overwrite: bool) -> BeginWrite:
    """Returns the options of ``writeStream``, as the request that each batch is.

    Raises:
        BadSetting: as with ``read_options``.
    """
    known = {key: value for key, value in options.items() if key.lower() not in _OF_SPARK}
    given = _known(known, _STREAMING)
    return replace(_begin(given, application, overwrite), stream=_stream(given))


def _begin(given: Mapping[str, str], application: str, overwrite: bool) -> BeginWrite:
    return BeginWrite(
        place=place_of(given, application),
        table=_table(given),
        overwrite=overwrite,
        time_zone=given.get("time_zone"),
    )


def place_of(given: Mapping[str, str], application: str) -> Place:
    return Place(metastore=given.get("metastore", "default"), config=given.get("config"), application=application)


def _known(options: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Returns the options by their names in lower case; Spark gives those of ``CREATE TABLE`` a second time."""
    given = {key.lower(): value for key, value in options.items() if not key.lower().startswith("option.")}
    if unknown := sorted(set(given).difference(known)):
        raise BadSetting(f"hive_acid has no option {unknown[0]!r} here; it has {', '.join(known)}")
    return given


def _table(given: Mapping[str, str]) -> str:
    if "table" not in given:
        raise BadSetting('hive_acid: no table is named; wanted .option("table", "<database>.<table>")')
    return given["table"]


def _stream(given: Mapping[str, str]) -> str:
    name = given.get("stream")
    if name is None:
        raise BadSetting(
            'hive_acid: no stream is named; wanted .option("stream", "<name>"), the same as long as there is the checkpoint'
        )
    if _STREAM.fullmatch(name) is None:
        raise BadSetting(
            f"hive_acid: stream is {name!r}; wanted letters, digits, dots, dashes and underscores, at most 128"
        )
    return name


def _number(given: Mapping[str, str], key: str) -> int:
    if re.fullmatch(r"\d{1,18}", given[key], re.ASCII) is None:
        raise BadSetting(f"hive_acid: {key} is {given[key]!r}; wanted a whole number")
    return int(given[key])


def _boolean(given: Mapping[str, str], key: str) -> bool:
    text = given.get(key, "false").lower()
    if text not in ("true", "false"):
        raise BadSetting(f"hive_acid: {key} is {text!r}; wanted true or false")
    return text == "true"


def _bytes(given: Mapping[str, str], key: str, default: int) -> int:
    text = given.get(key, str(default)).strip().lower()
    match = re.fullmatch(r"([1-9]\d*)([kmg]?)b?", text)
    if match is None:
        raise BadSetting(f"hive_acid: {key} is {text!r}; wanted a number of bytes, such as 32m")
    return int(match[1]) * _SUFFIXES[match[2]]
