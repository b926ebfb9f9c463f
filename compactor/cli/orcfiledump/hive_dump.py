"""``compactor dump --hive``: prints what Hive's own tool prints for the same files.

Each row becomes a line of JSON as Gson writes it. Dates, times and decimals are texts, binary is a list of bytes, a map is a
list of ``_key`` and ``_value``. A char loses blanks at its end. NaN and the infinities have no quotes, although JSON does
not allow that.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from compactor.acid.names import FLUSH_LENGTH_SUFFIX
from compactor.base.errors import BadFile, CompactorError, failing_alone
from compactor.cli.dump_files import DumpFile, read_batches
from compactor.cli.orcfiledump.java_text import (
    date_text,
    decode_text,
    double_text,
    field_name,
    local_seconds,
    plain_decimal,
    quote,
    timestamp_text,
)
from compactor.cli.orcfiledump.structure import NEWEST_OF_JAVA, StructureOptions, structure
from compactor.cli.output import say
from compactor.orc.codecs.json_values import seconds_and_nanos
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import INTEGERS, TEXT_KINDS, OrcType, TypeKind, Types
from compactor.orc.io.source import Source
from compactor.rows.remote_source import open_source
from compactor.storage.protocol import Storage

SEPARATOR = "_" * 120 + "\n"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_IN_URIS = re.compile(r"[\x00-\x20\x7f\"#%<>?\[\\\]^`{|}]")
_LONG = struct.Struct(">q")
_NOTHING = Types((OrcType(kind=TypeKind.STRUCT),))  #: the type of a file without a byte


_Lines = Callable[[Source, Tail, str], Iterator[str]]


@dataclass(slots=True, kw_only=True)
class HiveDump:
    """Prints files as Hive's tool does; ``failed`` counts the unreadable ones."""

    storage: Storage
    failed: int = 0
    corrupt: list[str] = field(default_factory=list)  #: files with more bytes than their writer flushed

    def print_structures(self, files: Iterable[DumpFile], options: StructureOptions) -> None:
        """Prints the structure of each file."""
        for file in files:
            self._print(file, lambda source, tail, name: structure(source, tail, name, options), always=True)
        if self.corrupt:
            click.echo(
                f"{len(self.corrupt)} file(s) are corrupted. Run the following command to recover corrupted files.\n",
                err=True,
            )
            click.echo(" ".join(["hive --orcfiledump --recover --skip-dump", *self.corrupt]), err=True)
            _print_raw(SEPARATOR)

    def print_rows(self, files: Iterable[DumpFile]) -> None:
        """Prints the rows of each file."""
        for file in files:
            self._print(file, lambda source, tail, name: json_lines(source, tail), always=False)

    def _print(self, file: DumpFile, lines: _Lines, *, always: bool) -> None:
        try:
            for line in self._lines(file, lines, always):
                _print_raw(line)
        except CompactorError as error:
            self.failed += 1
            say(f"compactor: {error}", err=True)

    def _lines(self, file: DumpFile, lines: _Lines, always: bool) -> Iterator[str]:
        """Yields one file's lines and a separator.

        ``always`` prints the separator of a file without flushed rows, too.
        """
        with failing_alone(file.shown), open_source(self.storage, file.path) as source:
            say(f"Processing data file {file.hive_name} [length: {source.length}]", err=True)
            tail = self._tail(source, file)
            if tail is not None:
                tail = replace(tail, default_zone=self.storage.options.default_zone)
                yield from lines(source, tail, file.hive_name)
            if tail is not None or always:
                yield SEPARATOR

    def _tail(self, source: Source, file: DumpFile) -> Tail | None:
        """Returns the tail of the flushed part, or of the whole file; None if its writer has flushed nothing."""
        side = file.path + FLUSH_LENGTH_SUFFIX
        if not self.storage.exists(side):
            return _read_tail(source, source.length)
        length = self.storage.length(side)
        whole = length // _LONG.size * _LONG.size
        [flushed] = _LONG.unpack(self.storage.read_range(side, whole - _LONG.size, _LONG.size)) if whole else (-1,)
        side_name = file.hive_name + FLUSH_LENGTH_SUFFIX
        say(f"Found flush length file {side_name} [length: {length}, maxFooterOffset: {flushed}]", err=True)
        tail = None
        if flushed >= 0:
            try:
                tail = _read_tail(source, flushed)
            except BadFile:
                self.corrupt.append(_as_uri(file.hive_name))
                click.echo("Unable to read data from max footer offset. Adding data file to recovery list.", err=True)
                return None
        if source.length > flushed:
            self.corrupt.append(_as_uri(file.hive_name))
            click.echo(
                f"Data file has more data than max footer offset:{flushed}. Adding data file to recovery list.",
                err=True,
            )
        return tail


def _read_tail(source: Source, length: int) -> Tail:
    """Returns the tail of the first ``length`` bytes.

    An empty file has no columns, and Java's newest writer.
    """
    if length == 0:
        tail = empty_tail(_NOTHING, compression=Compression.NONE, row_index_stride=0, name=source.name)
        return replace(tail, writer_version=NEWEST_OF_JAVA)
    return read_tail(source, length)


def _print_raw(line: str) -> None:
    """Prints a line in UTF-8.

    On a terminal, U+FFFD replaces control characters, which a stranger may have written.
    """
    if sys.stdout.isatty():
        line = _CONTROLS.sub("\ufffd", line)
    click.echo(line.encode("utf-8", "surrogateescape"))


def _as_uri(name: str) -> str:
    return _NOT_IN_URIS.sub(lambda match: f"%{ord(match[0]):02X}", name)


def json_lines(source: Source, tail: Tail) -> Iterator[str]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    printer = _RowPrinter(tail)
    for batch in read_batches(source, tail):
        columns = [(printer.name(0, place), child) for place, child in enumerate(tail.types[0].children)]
        for row in range(batch.num_rows):
            fields = (
                f"{name}:{printer.value(batch.column(place)[row], child)}"
                for place, (name, child) in enumerate(columns)
            )
            yield f"{{{','.join(fields)}}}"


class _RowPrinter:
    """Prints values of one file."""

    def __init__(self, tail: Tail) -> None:
        self._types, self._proleptic = tail.types, tail.is_proleptic

    def name(self, column: int, place: int) -> str:
        """Returns the name of a struct's field as a text of JSON."""
        return quote(field_name(self._types[column].field_names[place]))

    def value(self, scalar: Any, column: int) -> str:
        """Returns a value of ``column``."""
        if not scalar.is_valid:
            return "null"
        item = self._types[column]
        if item.kind in INTEGERS:
            return str(scalar.as_py())
        if item.kind in TEXT_KINDS:
            return quote(_text_value(scalar, item))
        if item.kind is TypeKind.DECIMAL:
            return f'"{plain_decimal(scalar.as_py())}"'
        if item.kind is TypeKind.DATE:
            return f'"{date_text(scalar.value, proleptic=self._proleptic)}"'
        if item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
            return self._timestamp(scalar, item.kind)
        if item.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
            return double_text(scalar.as_py())
        if item.kind is TypeKind.BINARY:
            return f"[{','.join(map(str, scalar.as_py()))}]"
        if item.kind is TypeKind.BOOLEAN:
            return "true" if scalar.as_py() else "false"
        return self._compound(scalar, item, column)

    def _timestamp(self, scalar: Any, kind: TypeKind) -> str:
        seconds, nanos = seconds_and_nanos(scalar)
        if kind is TypeKind.TIMESTAMP_INSTANT:
            seconds = local_seconds(seconds)
        return f'"{timestamp_text(seconds, nanos, proleptic=self._proleptic)}"'

    def _compound(self, scalar: Any, item: OrcType, column: int) -> str:
        if item.kind is TypeKind.STRUCT:
            fields = (
                f"{self.name(column, place)}:{self.value(scalar[place], child)}"
                for place, child in enumerate(item.children)
            )
            return f"{{{','.join(fields)}}}"
        if item.kind is TypeKind.LIST:
            return f"[{','.join(self.value(part, item.children[0]) for part in scalar.values or ())}]"
        key, content = item.children
        pairs = (
            f'{{"_key":{self.value(pair[0], key)},"_value":{self.value(pair[1], content)}}}'
            for pair in scalar.values or ()
        )
        return f"[{','.join(pairs)}]"


def _text_value(scalar: Any, item: OrcType) -> str:
    text = decode_text(scalar.as_buffer().to_pybytes())
    if item.kind is TypeKind.STRING:
        return text
    text = text[: item.maximum_length]
    return text.rstrip(" ") if item.kind is TypeKind.CHAR else text
