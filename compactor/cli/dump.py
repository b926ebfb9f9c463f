"""``compactor dump PATH``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.output import print_json
from compactor.errors import NotLossless

if TYPE_CHECKING:
    from compactor.orc.format.tail import Tail


@click.command()
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--meta", is_flag=True, help="Print the file's metadata instead of its rows.")
@with_context
def dump(context: CliContext, path: str, meta: bool) -> None:
    """Print the rows of an ORC file, ACID or not, as JSON lines, or print its metadata.

    An ACID row has the keys operation, originalTransaction, bucket, rowId, currentTransaction and row, as Hive's
    orcfiledump prints them.
    """
    from compactor.orc.format.tail import read_tail
    from compactor.orc.io.source import LocalSource
    from compactor.settings.catalogue import find
    from compactor.settings.file_limits import FileLimits
    from compactor.settings.precedence import Layer, Settings

    # no metastore is configured for a file alone: its limits are the defaults, or those of --set
    given = {key: value for key, value in context.flags.items() if find(key) is not None}
    limits = FileLimits.of(Settings.of([Layer(name="flag", values=given)]))
    with LocalSource(path, limits=limits) as source:
        tail = read_tail(source)
        if meta:
            print_json(metadata(tail))
            return
        if tail.encrypted:
            raise NotLossless(f"{path}: has encrypted columns; its rows cannot be shown, its metadata can (--meta)")
        from compactor.cli.row_json import rows

        for row in rows(source, tail):
            click.echo(json.dumps(row, ensure_ascii=False))


def metadata(tail: Tail) -> dict[str, object]:
    """Returns the contents of the tail, including the user metadata that Hive's ACID readers look at."""
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
