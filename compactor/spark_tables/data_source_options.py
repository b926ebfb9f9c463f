"""The options of ``hive_acid``, and the tables that a DataFrame reads, which its columns carry."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from pyspark.sql.types import StructField, StructType

from compactor.base.errors import BadSetting
from compactor.spark_tables.keeper_requests import (
    BeginInserts,
    BeginWrite,
    Creation,
    FrameSource,
    MetastorePlace,
    PlannedScan,
    PlanScan,
    SeenCommits,
    WriteChange,
)

CREATES = "creates"  #: the table that a write creates, as ``format_creation`` writes it
INSERTS = "inserts"  #: the tables of several INSERTs, as a JSON list
CHANGE = "change"  #: the change, begun by ``AcidTable``, whose rows are read or written
WHERE = "where"  #: the condition of a query; Spark evaluates it again
WITHIN = "within"  #: the change or statement in whose transaction a table is read
VERSION_AS_OF = "versionAsOf"  #: the version that is read, as Delta and Spark call it
STATEMENT = "statement"  #: the statement, begun by ``BeginStatement``, whose rows are written
SOURCES = "sources"  #: the tables that the rows are read from, as ``format_sources`` writes them
_PLACE = ("table", "metastore", "config")
_READING = (
    *_PLACE,
    "columns",
    "filter",
    "row_ids",
    VERSION_AS_OF.lower(),
    "snapshot",
    "split_bytes",
    CHANGE,
    WHERE,
    WITHIN,
)
_WRITING = (*_PLACE, "time_zone", "stream", "batch", CHANGE, CREATES, INSERTS, STATEMENT, SOURCES)
_STREAMING = (*_PLACE, "time_zone", "stream")
_STARTING = "starting"
_STREAMED = (*_PLACE, "columns", "filter", "row_ids", "split_bytes", _STARTING)
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
#: options of a streaming query that Spark passes on to its writer
_OF_SPARK = ("checkpointlocation", "queryname")
_SPLIT_BYTES = 32 * 1024 * 1024
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read as a request; ``split_bytes`` is roughly what one task reads."""

    request: PlanScan
    split_bytes: int


def parse_read_options(options: Mapping[str, str], application: str) -> ReadOptions:
    """Returns the options of a read.

    Raises:
        BadSetting: an option is missing, unknown or has a bad value.
    """
    values = _check_names(options, _READING)
    columns = values.get("columns")
    return ReadOptions(
        request=PlanScan(
            place=parse_place(values, application),
            table=_required_table(values),
            columns=None if columns is None else tuple(filter(None, map(str.strip, columns.split(",")))),
            row_filter=values.get("filter"),
            where=values.get(WHERE),
            row_ids=_parse_boolean(values, "row_ids"),
            as_of=_parse_number(values, VERSION_AS_OF.lower()) if VERSION_AS_OF.lower() in values else None,
            snapshot=values.get("snapshot"),
            change=values.get(CHANGE),
            within=values.get(WITHIN),
        ),
        split_bytes=_parse_bytes(values, "split_bytes", _SPLIT_BYTES),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(ReadOptions):
    """The options of a stream of rows.

    With ``from_latest`` the stream skips rows that exist when it begins.
    """

    from_latest: bool


def parse_stream_options(options: Mapping[str, str], application: str) -> StreamOptions:
    """Returns the options of ``readStream``.

    Raises:
        BadSetting: as with ``parse_read_options``.
    """
    values = _check_names(options, _STREAMED)
    starting = values.pop(_STARTING, "earliest").lower()
    if starting not in ("earliest", "latest"):
        raise BadSetting(f"hive_acid: {_STARTING} is {starting!r}; expected earliest or latest")
    read = parse_read_options(values, application)
    return StreamOptions(request=read.request, split_bytes=read.split_bytes, from_latest=starting == "latest")


def parse_schema_options(options: Mapping[str, str], application: str) -> ReadOptions:
    """Returns the options of a read or of ``readStream``.

    Spark asks for a schema before it says which of both it runs.

    Raises:
        BadSetting: as with ``parse_read_options``.
    """
    of_stream = any(key.lower() == _STARTING for key in options)
    return (parse_stream_options if of_stream else parse_read_options)(options, application)


def parse_write_request(
    options: Mapping[str, str], application: str, *, overwrite: bool
) -> BeginWrite | BeginInserts | WriteChange:
    """Returns the request that begins or continues a write with these options.

    Raises:
        BadSetting: as with ``parse_read_options``.
    """
    values = _check_names(options, _WRITING)
    if CHANGE in values:
        return WriteChange(change=values[CHANGE])
    if INSERTS in values:
        tables = tuple(json.loads(values[INSERTS]))
        return BeginInserts(
            place=parse_place(values, application),
            tables=tables,
            time_zone=values.get("time_zone"),
            statement=values.get(STATEMENT),
        )
    if ("stream" in values) is not ("batch" in values):
        raise BadSetting("hive_acid: only one of stream and batch is set; set both or neither")
    request = replace(
        _parse_begin_write(values, application, overwrite),
        creates=_parse_creation(values),
        statement=values.get(STATEMENT),
        sources=parse_sources(values.get(SOURCES, "[]")),
    )
    if "stream" not in values:
        return request
    return replace(request, stream=_required_stream(values), batch=_parse_number(values, "batch"))


def format_creation(creation: Creation) -> str:
    """Returns a table that a write creates, as text for the option ``creates``."""
    return json.dumps(asdict(creation))


def format_sources(sources: Iterable[FrameSource]) -> str:
    """Returns the tables that rows are read from, as text for the option ``sources``."""
    return json.dumps([asdict(source) for source in sources])


def parse_sources(text: str) -> tuple[FrameSource, ...]:
    """Returns the tables that ``format_sources`` wrote."""
    return tuple(FrameSource(**{**fields, "commits": SeenCommits(**fields["commits"])}) for fields in json.loads(text))


def _parse_creation(values: Mapping[str, str]) -> Creation | None:
    if CREATES not in values:
        return None
    fields = json.loads(values[CREATES])
    return Creation(
        columns=tuple((name, kind) for name, kind in fields["columns"]),
        partitioned_by=tuple(fields["partitioned_by"]),
        clustered_by=tuple(fields["clustered_by"]),
        buckets=fields["buckets"],
        location=fields["location"],
        properties=tuple((key, value) for key, value in fields["properties"]),
    )


def parse_stream_request(options: Mapping[str, str], application: str, *, overwrite: bool) -> BeginWrite:
    """Returns the request that each batch of a ``writeStream`` with these options sends.

    Raises:
        BadSetting: as with ``parse_read_options``.
    """
    known = {key: value for key, value in options.items() if key.lower() not in _OF_SPARK}
    values = _check_names(known, _STREAMING)
    return replace(_parse_begin_write(values, application, overwrite), stream=_required_stream(values))


def _parse_begin_write(values: Mapping[str, str], application: str, overwrite: bool) -> BeginWrite:
    return BeginWrite(
        place=parse_place(values, application),
        table=_required_table(values),
        overwrite=overwrite,
        time_zone=values.get("time_zone"),
    )


def parse_place(values: Mapping[str, str], application: str) -> MetastorePlace:
    return MetastorePlace(
        metastore=values.get("metastore", "default"), config=values.get("config"), application=application
    )


def _check_names(options: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Returns the options by lower-case name.

    The copies ``option.<name>`` are left out, which Spark adds for ``CREATE TABLE``.
    """
    values = {key.lower(): value for key, value in options.items() if not key.lower().startswith("option.")}
    if unknown := sorted(set(values).difference(known)):
        raise BadSetting(f"hive_acid has no option {unknown[0]!r} here; it has {', '.join(known)}")
    return values


def _required_table(values: Mapping[str, str]) -> str:
    if "table" not in values:
        raise BadSetting('hive_acid: no table is named; expected .option("table", "<database>.<table>")')
    return values["table"]


def _required_stream(values: Mapping[str, str]) -> str:
    name = values.get("stream")
    if name is None:
        raise BadSetting(
            'hive_acid: no stream is named; expected .option("stream", "<name>"), with the same name for one checkpoint'
        )
    if _STREAM.fullmatch(name) is None:
        raise BadSetting(
            f"hive_acid: stream is {name!r}; expected at most 128 letters, digits, dots, dashes and underscores"
        )
    return name


def _parse_number(values: Mapping[str, str], key: str) -> int:
    if re.fullmatch(r"\d{1,18}", values[key], re.ASCII) is None:
        raise BadSetting(f"hive_acid: {key} is {values[key]!r}; expected a whole number")
    return int(values[key])


def _parse_boolean(values: Mapping[str, str], key: str) -> bool:
    text = values.get(key, "false").lower()
    if text not in ("true", "false"):
        raise BadSetting(f"hive_acid: {key} is {text!r}; expected true or false")
    return text == "true"


def _parse_bytes(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, str(default)).strip().lower()
    match = re.fullmatch(r"([1-9]\d*)([kmg]?)b?", text)
    if match is None:
        raise BadSetting(f"hive_acid: {key} is {text!r}; expected a number of bytes, such as 32m")
    return int(match[1]) * _SUFFIXES[match[2]]


SOURCES_KEY = "hive_acid"  #: the key in the metadata


def describe_source(request: PlanScan, scan: PlannedScan) -> FrameSource:
    """Returns the table that a planned scan reads, with the commits that it sees."""
    commits = SeenCommits(table_id=scan.table_id, write_ids=str(scan.plan.write_ids))
    return FrameSource(
        metastore=request.place.metastore,
        config=request.place.config,
        table=scan.plan.table,
        commits=commits,
        snapshot=scan.hold.name,
        is_version=request.as_of is not None,
    )


def add_source(schema: StructType, source: FrameSource) -> StructType:
    """Returns ``schema`` with ``source`` in the metadata of every column."""
    metadata = {SOURCES_KEY: format_sources([source])}
    return StructType([StructField(field.name, field.dataType, field.nullable, metadata) for field in schema])


def collect_sources(schema: Iterable[StructField]) -> tuple[FrameSource, ...]:
    """Returns the tables from which columns of ``schema`` are read, each once.

    The columns' metadata says it for some of them.
    """
    texts = dict.fromkeys(
        field.metadata[SOURCES_KEY] for field in schema if field.metadata and SOURCES_KEY in field.metadata
    )
    return tuple(dict.fromkeys(source for text in texts for source in parse_sources(text)))
