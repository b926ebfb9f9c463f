"""The structure of one ORC file, line by line, as Hive's tool prints it.

Also names of writers and their versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import NotLossless
from compactor.cli.orcfiledump.column_statistics import index_lines, statistics_text
from compactor.cli.orcfiledump.java_text import decode_text, field_name, round_text
from compactor.orc.footer_figures import raw_data_size
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import schema_text, valid_name
from compactor.orc.format.stripe_footer import DICTIONARY, DICTIONARY_V2, read_stripe_footer
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TypeKind, Types
from compactor.orc.io.source import Source

_STREAMS = (
    "PRESENT",
    "DATA",
    "LENGTH",
    "DICTIONARY_DATA",
    "DICTIONARY_COUNT",
    "SECONDARY",
    "ROW_INDEX",
    "BLOOM_FILTER",
    "BLOOM_FILTER_UTF8",
)  #: by their numbers
_ENCODINGS = ("DIRECT", "DICTIONARY", "DIRECT_V2", "DICTIONARY_V2")  #: by their numbers
_UNKNOWN = "UNKNOWN"
_ROOT = "0"  #: its name among the columns


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureOptions:
    """The optional lines of a file's structure.

    Attributes:
        columns: ids of the columns whose row indexes are printed; None for all.
        time_zone: whether each stripe names its writer's time zone.
        types: whether the id, name and type of each column are printed.
    """

    columns: Sequence[int] | None = ()
    time_zone: bool = False
    types: bool = False


def structure(source: Source, tail: Tail, name: str, options: StructureOptions) -> Iterator[str]:
    """Yields the lines about a file, which they call ``name``.

    Raises:
        BadFile: a stripe's footer or an index cannot be read.
        NotLossless: the file has encrypted columns, whose streams Compactor cannot list.
    """
    if tail.encrypted:
        raise NotLossless(
            f"{tail.name}: has encrypted columns, and `--hive` cannot print their structure; "
            "`compactor dump --meta` shows the rest"
        )
    yield from _head(tail, name, options)
    yield from _statistics(tail)
    yield "\nStripes:"
    for number in range(len(tail.stripes)):
        yield from _stripe(source, tail, number, options)
    yield from _end(source, tail)


def _head(tail: Tail, name: str, options: StructureOptions) -> Iterator[str]:
    yield f"Structure for {name}"
    version = ".".join(map(str, tail.file_version or (0, 11)))
    yield f"File Version: {version} with {version_name(tail)} by {software_name(tail)}"
    yield f"Rows: {tail.rows}"
    yield f"Compression: {tail.compression.name}"
    if tail.compression is not Compression.NONE:
        yield f"Compression size: {tail.compression_block_size}"
    yield f"Calendar: {'Proleptic Gregorian' if tail.is_proleptic else 'Julian/Gregorian'}"
    types = Types(replace(item, field_names=tuple(map(field_name, item.field_names))) for item in tail.types)
    yield f"Type: {schema_text(types, quoting=True)}"
    if options.types:
        yield "Columns type:"
        for number, path in enumerate(_paths(types)):
            yield f"  Column {number}: field: {path or _ROOT} type: {schema_text(types, number, quoting=True)}"
    for path, item in zip(_paths(types, root="root", branch="_"), types, strict=True):
        if item.attributes:
            yield f"Attributes on {path}"
            for key, value in sorted((decode_text(key), decode_text(value)) for key, value in item.attributes):
                yield f"  {key}: {value}"


def _paths(types: Types, *, root: str = "", branch: str = "") -> list[str]:
    """Returns the path of each column, such as ``address.street`` for a field of a struct."""
    paths = [root] * len(types)
    for number, item in enumerate(types):
        names: Sequence[str] = item.field_names
        if item.kind is TypeKind.LIST:
            names = ["_elem"]
        elif item.kind is TypeKind.MAP:
            names = ["_key", "_value"]
        elif item.kind is TypeKind.UNION:
            names = [f"{branch}{place}" for place in range(len(item.children))]
        for name, child in zip(names, item.children, strict=True):
            paths[child] = f"{paths[number]}.{name}" if paths[number] else name
    return paths


def _statistics(tail: Tail) -> Iterator[str]:
    yield "\nStripe Statistics:"
    for number, columns in enumerate(tail.stripe_statistics or (), start=1):
        yield f"  Stripe {number}:"
        for line in _column_lines(columns, tail):
            yield f"    {line}"
    yield "\nFile Statistics:"
    for line in _column_lines(tail.statistics, tail):
        yield f"  {line}"


def _column_lines(columns: Sequence[messages.Message], tail: Tail) -> Iterator[str]:
    for number, (statistics, item) in enumerate(zip(columns, tail.types, strict=False)):
        yield f"Column {number}: {statistics_text(statistics, item, proleptic=tail.is_proleptic)}"


def _stripe(source: Source, tail: Tail, number: int, options: StructureOptions) -> Iterator[str]:
    stripe, footer = tail.stripes[number], read_stripe_footer(source, tail, number)
    line = (
        f"  Stripe: offset: {stripe.offset} data: {stripe.data_length} rows: {stripe.rows} tail: {stripe.footer_length} "
        f"index: {stripe.index_length}"
    )
    yield f"{line} timezone: {decode_text(footer.writer_timezone) or _UNKNOWN}" if options.time_zone else line
    place = stripe.offset
    for stream in footer.streams:
        kind = _STREAMS[stream.kind] if stream.HasField("kind") else _UNKNOWN
        yield f"    Stream: column {stream.column} section {kind} start: {place} length {stream.length}"
        place += stream.length
    for column, encoding in enumerate(footer.columns):
        size = f"[{encoding.dictionary_size}]" if encoding.kind in (DICTIONARY, DICTIONARY_V2) else ""
        yield f"    Encoding column {column}: {_ENCODINGS[encoding.kind]}{size}"
    columns = range(len(tail.statistics)) if options.columns is None else options.columns
    if columns:
        yield from index_lines(source, tail, number, footer, columns)


def _end(source: Source, tail: Tail) -> Iterator[str]:
    padded = sum(after.offset - before.end for before, after in zip(tail.stripes, tail.stripes[1:], strict=False))
    yield f"\nFile length: {source.length} bytes"
    yield f"File raw data size: {raw_data_size(tail)} bytes"
    yield f"Padding length: {padded} bytes"
    yield f"Padding ratio: {round_text(100.0 * padded / source.length if source.length else 0.0, 2)}%"
    if tail.user_metadata:
        yield "\nUser Metadata:"
    for key, value in tail.user_metadata.items():
        yield f"  {valid_name(key)}={decode_text(value)}"


FUTURE = "FUTURE"  #: a version that ORC 2.1.2 does not know
_JAVA = (
    "ORIGINAL",
    "HIVE_8732",
    "HIVE_4243",
    "HIVE_12055",
    "HIVE_13083",
    "ORC_101",
    "ORC_135",
    "ORC_517",
    "ORC_203",
    "ORC_14",
)  #: by their numbers
NEWEST_OF_JAVA = len(_JAVA) - 1
_WRITERS = ("ORC Java", "ORC C++", "Presto", "Scritchley Go", "Trino", "CUDF")  #: by their numbers
#: The only version of each other writer; its number is 6.
_OTHERS = ("", "ORC_CPP_ORIGINAL", "PRESTO_ORIGINAL", "SCRITCHLEY_GO_ORIGINAL", "TRINO_ORIGINAL", "CUDF_ORIGINAL")
_FIRST_OF_OTHERS = 6


def version_name(tail: Tail) -> str:
    """Returns the name of the writer's version in the postscript."""
    if tail.writer == 0:
        return _JAVA[tail.writer_version] if tail.writer_version < len(_JAVA) else FUTURE
    if tail.writer < len(_OTHERS) and tail.writer_version == _FIRST_OF_OTHERS:
        return _OTHERS[tail.writer]
    return FUTURE


def software_name(tail: Tail) -> str:
    """Returns the program that wrote the file, and its version, which most writers omit."""
    name = _WRITERS[tail.writer] if tail.writer < len(_WRITERS) else f"Unknown({tail.writer})"
    return f"{name} {tail.software}"
