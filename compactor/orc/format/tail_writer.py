"""Writes a file's tail: the stripe statistics, footer and postscript of a ``Tail``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from compactor.acid.bucket import RowId
from compactor.base.errors import NotLossless
from compactor.orc.format import messages, statistics
from compactor.orc.format.compression import Compression, compress
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.tail import MAGIC, Tail, read_tail
from compactor.orc.format.types import Types, same_shape
from compactor.orc.io.source import LocalSource, Source

#: Computes a file's user metadata from the file, its tail, and the key of its last row if that is known.
Metadata: TypeAlias = Callable[[Source, Tail, RowId | None], Mapping[str, bytes]]


def tail_bytes(tail: Tail) -> bytes:
    """Returns the bytes after the last stripe.

    File statistics are merged from those of the stripes. ``tail.statistics`` and lengths of sections are ignored. Without
    stripe statistics there are no file statistics.
    """
    metadata = compress(_metadata(tail).SerializeToString(), tail.compression, tail.compression_block_size)
    footer = compress(_footer(tail).SerializeToString(), tail.compression, tail.compression_block_size)
    script = messages.PostScript(
        footer_length=len(footer),
        compression=tail.compression,
        version=tail.file_version,
        metadata_length=len(metadata),
        writer_version=tail.writer_version,
        magic=MAGIC,
    )
    if tail.compression is not Compression.NONE:
        script.compression_block_size = tail.compression_block_size
    end = script.SerializeToString()
    return bytes(metadata + footer + end + bytes([len(end)]))


def _metadata(tail: Tail) -> messages.Message:
    metadata = messages.Metadata()
    for columns in tail.stripe_statistics or ():
        metadata.stripe_stats.add(col_stats=columns)
    return metadata


def _footer(tail: Tail) -> messages.Message:
    footer = messages.Footer(
        header_length=len(MAGIC),
        content_length=tail.content_length,
        number_of_rows=tail.rows,
        row_index_stride=tail.row_index_stride,
        writer=tail.writer,
        types=tail.types.messages,
    )
    if tail.calendar:
        footer.calendar = tail.calendar
    if tail.software:
        footer.software_version = tail.software.encode()
    for stripe in tail.stripes:
        footer.stripes.add(
            offset=stripe.offset,
            index_length=stripe.index_length,
            data_length=stripe.data_length,
            footer_length=stripe.footer_length,
            number_of_rows=stripe.rows,
        )
    if tail.stripe_statistics is not None:
        for number, column in enumerate(tail.types):
            footer.statistics.append(statistics.merge([part[number] for part in tail.stripe_statistics], column))
    for name, value in tail.user_metadata.items():
        footer.metadata.add(name=name.encode("utf-8", "surrogateescape"), value=value)
    return footer


def no_metadata(_: Source, __: Tail, ___: RowId | None) -> Mapping[str, bytes]:
    """Returns no user metadata, for a file that records nothing about its rows."""
    return {}


def replace_tail(
    path: str | os.PathLike[str],
    like: Tail,
    types: Types,
    metadata: Metadata = no_metadata,
    last: RowId | None = None,
) -> Tail:
    """Replaces the tail of a local file that was just encoded, and returns the new tail.

    The new tail has types with char and varchar, the calendar of ``like`` (values were copied without conversion), and the
    user metadata.

    Raises:
        NotLossless: the encoder wrote columns of another shape, or not in the class of ``like``.
    """
    with LocalSource(path) as source:
        tail = read_tail(source)
        _check_encoded(tail, like, types)
        end = max((stripe.end for stripe in tail.stripes), default=len(MAGIC))
        new = replace(tail, types=types, calendar=like.calendar, user_metadata={}, content_length=end)
        new = replace(new, user_metadata=metadata(source, new, last))
    written = tail_bytes(new)
    with open(path, "r+b") as file:
        file.truncate(end)
        file.seek(end)
        file.write(written)
    return replace(new, length=end + len(written))


def _check_encoded(tail: Tail, like: Tail, types: Types) -> None:
    if not same_shape(tail.types.for_encoders, types.for_encoders):
        raise NotLossless(
            f"file {tail.name}: encoded as {schema_text(tail.types)}, expected {schema_text(types)}; nothing was kept"
        )
    encoded = (tail.file_version, tail.compression, tail.row_index_stride)
    expected = (like.file_version, like.compression, like.row_index_stride)
    if encoded != expected:
        raise NotLossless(
            f"file {tail.name}: encoded with file version, compression and row index stride {encoded}, "
            f"expected {expected}; nothing was kept"
        )
