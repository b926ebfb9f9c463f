"""``compactor dump PATH...``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from compactor.base.errors import BadFile, CompactorError, failing_alone
from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import print_json, print_json_line, say

if TYPE_CHECKING:
    from compactor.cli.dump_files import DumpFile
    from compactor.cli.orcfiledump.structure import StructureOptions
    from compactor.orc.format.tail import Tail
    from compactor.orc.io.source import Source
    from compactor.storage.protocol import Storage

_ALL = "*"


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--meta", is_flag=True, help="Print each file's metadata instead of its rows.")
@click.option("--hive", is_flag=True, help="Print what hive --orcfiledump prints: the structure of each file.")
@click.option("-d", "--data", is_flag=True, help="With --hive: print the rows, as hive --orcfiledump -d does.")
@click.option("-t", "--timezone", is_flag=True, help="With --hive: print the writer's time zone with each stripe.")
@click.option(
    "-r", "--rowindex", metavar="COLUMNS", help="With --hive: print row indexes and bloom filters: ids as 1,7, or '*'."
)
@click.option("--column-type", is_flag=True, help="With --hive: print the id, name and type of each column.")
@with_context
def dump(
    context: CliContext, /, paths: tuple[str, ...], meta: bool, hive: bool, data: bool, **hive_options: Any
) -> None:
    """Print the rows of ORC files, ACID or not, as JSON lines, or print their metadata.

    PATH is a file or a directory, on this machine or as a URI (hdfs://…, s3a://…, abfss://…, gs://…); compactor.toml says
    how to reach its store. For a directory, every file below it is printed, ordered by name, except side files and
    names that begin with _ or . An unreadable file is reported, and the others are printed.

    An ACID row has the keys operation, originalTransaction, bucket, rowId, currentTransaction and row, as in Hive's
    orcfiledump. For several files or a directory, a line ==> PATH <== precedes each file's rows; with --json, each line has
    the keys path and row instead, and --meta prints one list.

    With --hive, the output equals that of Hive 4.1 byte for byte.
    """
    from compactor.cli.dump_files import find_files, hive_path
    from compactor.cli.orcfiledump.hive_dump import HiveDump

    if not hive and (data or any(hive_options.values())):
        raise click.UsageError("--data, --timezone, --rowindex and --column-type belong to --hive")
    if hive and (meta or context.json):
        raise click.UsageError("--hive prints Hive's form; it excludes --meta and --json")
    if "" in paths:
        raise click.UsageError("a PATH is empty: expected a file, a directory or a URI")
    options = _parse_options(**hive_options)
    storage = _storage(context)
    files = [file for path in paths for file in find_files(storage, path, os.getcwd())]
    if hive:
        hive_dump = HiveDump(storage=storage)
        if data:
            hive_dump.print_rows(files)
        else:
            hive_dump.print_structures(files, options)
        failed = hive_dump.failed
    else:
        is_single = len(paths) == 1 and [file.hive_name for file in files] == [hive_path(path) for path in paths]
        failed = _print(storage, files, meta=meta, as_json=context.json, is_single=is_single)
    if failed:
        sys.exit(FAILED)


def _parse_options(timezone: bool, rowindex: str | None, column_type: bool) -> StructureOptions:
    """Returns which optional lines Hive's form gets.

    Raises:
        UsageError: the columns are not numbers.
    """
    from compactor.cli.orcfiledump.structure import StructureOptions

    columns: Sequence[int] | None = ()
    if rowindex is not None and rowindex.strip() == _ALL:
        columns = None
    elif rowindex is not None:
        try:
            columns = [int(column) for column in rowindex.split(",")]
        except ValueError:
            columns = [-1]
        if min(columns) < 0:
            raise click.UsageError(f"--rowindex {rowindex!r}: expected column ids, such as 0,7, or '*' for all")
    return StructureOptions(columns=columns, time_zone=timezone, types=column_type)


def _storage(context: CliContext) -> Storage:
    from compactor.settings.catalogue import find
    from compactor.site.deployment import open_stores

    flags = {key: value for key, value in context.flags.items() if find(key) is not None}
    return open_stores(context.metastore, flags=flags, config_path=context.config)


def _print(storage: Storage, files: Sequence[DumpFile], *, meta: bool, as_json: bool, is_single: bool) -> int:
    """Prints files in our own form, and returns how many could not be read.

    A single file's error ends the command.
    """
    documents: list[dict[str, object]] = []
    failed = 0
    for file in files:
        try:
            if meta:
                documents += [{**document, "path": file.shown} for document in _read(storage, file, _read_metadata)]
            else:
                _print_rows(_read(storage, file, _read_rows), file, as_json=as_json, is_single=is_single)
        except CompactorError as error:
            if is_single:
                raise
            failed += 1
            say(f"compactor: {error}", err=True)
    if meta:
        print_json(documents[0] if is_single else documents)
    return failed


def _print_rows(rows: Iterator[dict[str, object]], file: DumpFile, *, as_json: bool, is_single: bool) -> None:
    if not is_single and not as_json:
        say(f"==> {file.shown} <==")
    for row in rows:
        named = {"path": file.shown, "row": row} if as_json and not is_single else row
        print_json_line(named, of_table=True)


def _read(
    storage: Storage, file: DumpFile, read_content: Callable[[Source, Tail], Iterator[dict[str, object]]]
) -> Iterator[dict[str, object]]:
    from compactor.acid.names import FLUSH_LENGTH_SUFFIX
    from compactor.orc.format.tail import read_tail
    from compactor.rows.acid_file import flush_length
    from compactor.rows.remote_source import open_source

    with failing_alone(file.shown), open_source(storage, file.path) as source:
        is_streamed = storage.exists(file.path + FLUSH_LENGTH_SUFFIX)
        length = flush_length(storage, file.path) if is_streamed else None
        if length == 0:
            raise BadFile(
                f"{file.shown}: its streaming writer has not flushed anything yet; wait until its transaction ends"
            )
        yield from read_content(source, replace(read_tail(source, length), default_zone=storage.options.default_zone))


def _read_metadata(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    yield describe_tail(tail)


def _read_rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    from compactor.cli.dump_files import read_rows

    yield from read_rows(source, tail)


def describe_tail(tail: Tail) -> dict[str, object]:
    """Returns the contents of the tail, including the user metadata that Hive's ACID readers use."""
    return {
        "path": tail.name,
        "length": tail.length,
        "rows": tail.rows,
        "acid": tail.is_acid,
        "file_version": ".".join(map(str, tail.file_version)),
        "writer": tail.writer,
        "writer_version": tail.writer_version,
        "software": tail.software,
        "compression": tail.compression.name,
        "compression_block_size": tail.compression_block_size,
        "row_index_stride": tail.row_index_stride,
        "calendar": ("unset", "julian_gregorian", "proleptic_gregorian")[tail.calendar],
        "stripes": [
            {
                "offset": s.offset,
                "index_length": s.index_length,
                "data_length": s.data_length,
                "footer_length": s.footer_length,
                "rows": s.rows,
            }
            for s in tail.stripes
        ],
        "user_metadata": {key: value.decode("utf-8", "replace") for key, value in tail.user_metadata.items()},
        "encrypted": tail.encrypted,
    }
