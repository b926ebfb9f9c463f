"""Reads one data file like Hive's readers: ACID events, or raw rows that get synthetic ROW__IDs.

It accepts ACID field names in any case, raw files in any directory, and streaming files up to their logical length.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from compactor.acid import bucket as bucket_codec
from compactor.acid.names import ACID_VERSION, BASE_PREFIX, FLUSH_LENGTH_SUFFIX
from compactor.base.errors import BadFile, NotLossless, StorageError, UnsafeDirectory
from compactor.base.ids import WriteId
from compactor.orc import assembler
from compactor.orc.codecs import arrow_codec
from compactor.orc.format.acid_metadata import user_metadata
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import KeyStatistics, Tail, key_statistics, read_tail
from compactor.orc.format.types import ACID_FIELDS, acid_types
from compactor.orc.io.file_pool import FilePool
from compactor.orc.io.look_ahead import look_ahead
from compactor.orc.io.source import LocalSink, Source
from compactor.rows.inputs import Input
from compactor.rows.keys import (
    BUCKET,
    CURRENT,
    INSERT,
    OPERATION,
    ROW_ID,
    UPDATE,
    WRITE_ID,
    KeyBlock,
    Numbers,
    key_block,
    to_numbers,
)
from compactor.rows.remote_source import LOCAL, open_source
from compactor.storage.protocol import Storage

_KEYS = (OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT)
SYNTHETIC_ROWS = 1 << 20  #: rows of a raw file whose keys are made at once


class AcidFile(NamedTuple):
    """An open file.

    For a raw file ``write_id``, ``bucket`` and ``first_row_id`` determine its rows' ROW__IDs.
    """

    path: str
    source: Source
    tail: Tail
    write_id: WriteId
    bucket: int
    first_row_id: int
    in_base: bool = False

    @property
    def is_raw(self) -> bool:
        return not self.tail.is_acid

    def first_row_of(self, stripe: int) -> int:
        """Returns the number of rows before this stripe."""
        return sum(s.rows for s in self.tail.stripes[:stripe])


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of consecutive rows, with the currentTransaction and operation of each."""

    block: KeyBlock
    current: Numbers
    operation: Numbers


@contextmanager
def open_files(
    location: str,
    sources: Sequence[Input],
    number: int,
    storage: Storage = LOCAL,
    *,
    plain_buckets: bool = False,
    zone: str | None = None,
) -> Iterator[list[AcidFile]]:
    """Yields the files of one file number in reading order, open until the block ends.

    Row numbers of raw files continue from file to file within a group, in path order (Hive's ``OrcRawRecordMerger``).
    ``sources`` must be in that order.

    Args:
        plain_buckets: rows of raw files get ``number`` itself as their bucket, as in Hive 2.
        zone: the zone of times in stripes that name no writer's zone.

    Raises:
        BadFile: a file is not ORC, truncated, or gone.
        NotLossless: a file is encrypted, or raw with a number that no ROW__ID can hold.
    """
    counters: dict[str, int] = {}
    with FilePool() as pool:
        files: list[AcidFile] = []
        for input_file, opened, tail in look_ahead(
            partial(_open_file, pool, os.path.join(location, ""), storage), sources
        ):
            if tail is None:
                continue
            if tail.encrypted:
                raise NotLossless(
                    f"{opened.name}: has encrypted columns, which a rewrite would lose; exclude the table"
                )
            if zone is not None:
                tail = replace(tail, default_zone=zone)
            first = counters.get(input_file.group, 0)
            if not tail.is_acid:
                counters[input_file.group] = first + tail.rows
            files.append(
                AcidFile(
                    path=opened.name,
                    source=opened,
                    tail=tail,
                    write_id=input_file.write_id,
                    bucket=number
                    if plain_buckets or tail.is_acid
                    else _bucket(opened.name, number, input_file.statement_id),
                    first_row_id=first,
                    in_base=input_file.group.startswith(BASE_PREFIX),
                )
            )
        yield files


def _open_file(pool: FilePool, place: str, storage: Storage, source: Input) -> tuple[Input, Source, Tail | None]:
    """Opens a file and reads its tail.

    The tail is None if a streaming writer has not flushed anything yet.
    """
    path = place + source.path
    opened = pool.open(partial(open_source, storage, path))
    length = flush_length(storage, path) if source.has_flush_length else None
    return source, opened, None if length == 0 else read_tail(opened, length)


def _bucket(path: str, number: int, statement_id: int | None) -> int:
    """Returns the bucket property that readers give to the rows of a raw file."""
    try:
        return bucket_codec.encode(number, statement_id)
    except ValueError as error:
        raise NotLossless(
            f"{path}: its rows have no ROW__IDs, not even in Hive ({error}); rewrite the partition with INSERT OVERWRITE"
        ) from error


def flush_length(storage: Storage, path: str) -> int:
    """Returns the logical length of a streaming file in bytes: the last big-endian long of its side file."""
    side = path + FLUSH_LENGTH_SUFFIX
    try:
        whole = storage.length(side) // 8 * 8
        content = storage.read_range(side, whole - 8, 8) if whole else b""
    except UnsafeDirectory:
        raise
    except StorageError as error:
        raise BadFile(f"{side}: cannot be read: {error}") from error
    if len(content) < 8:
        return 0
    (length,) = struct.unpack(">q", content)
    return int(length)


def stripe_keys(file: AcidFile, stripe: int) -> Iterator[Keys]:
    """Yields the keys of one stripe's rows in batches, in file order. Keys of raw rows need no decoding.

    Raises:
        BadFile: as ``keys_of_batch`` does, or because keys contradict the stripe's statistics. A damaged write ID could make
            all rows of a stripe look invisible, so that they would be dropped.
        NotLossless: as ``keys_of_batch`` does.
    """
    rows = file.tail.stripes[stripe].rows
    if file.is_raw:
        first = file.first_row_id + file.first_row_of(stripe)
        for start in range(0, rows, SYNTHETIC_ROWS):
            yield synthetic_keys(file, first + start, min(SYNTHETIC_ROWS, rows - start))
        return
    known = key_statistics(file.tail, stripe)
    total = 0
    for batch in arrow_codec.read_batches(file.source, file.tail, columns=_KEYS, stripes=[stripe]):
        keys = keys_of_batch(file, batch)
        if known is not None:
            _check_against_statistics(file, stripe, keys, known)
            total += int(keys.block["row_id"].sum())
        yield keys
    if known is not None and known.row_id.total not in (None, total):
        raise BadFile(
            f"{file.path}, stripe {stripe}: {ACID_FIELDS[3]} adds up to {total}, its statistics say {known.row_id.total}; "
            "the file is damaged, restore it or move it away"
        )


def _check_against_statistics(file: AcidFile, stripe: int, keys: Keys, known: KeyStatistics) -> None:
    columns = (
        (keys.operation, known.operation),
        (keys.block["write_id"], known.original_transaction),
        (keys.block["bucket"], known.bucket),
        (keys.block["row_id"], known.row_id),
        (keys.current, known.current_transaction),
    )
    for (numbers_of, expected), name in zip(columns, ACID_FIELDS[:5], strict=True):
        if int(numbers_of.min()) < expected.minimum or int(numbers_of.max()) > expected.maximum:
            raise BadFile(
                f"{file.path}, stripe {stripe}: {name} ranges from {numbers_of.min()} to {numbers_of.max()}, its statistics "
                f"say {expected.minimum} to {expected.maximum}; the file is damaged, restore it or move it away"
            )


def synthetic_keys(file: AcidFile, first_row_id: int, rows: int) -> Keys:
    """Returns the keys of ``rows`` raw rows from ``first_row_id`` on, with the directory's write ID."""
    write_id = np.full(rows, file.write_id, dtype=np.int64)
    return Keys(
        block=key_block(
            write_id,
            np.full(rows, file.bucket, dtype=np.int32),
            np.arange(first_row_id, first_row_id + rows, dtype=np.int64),
        ),
        current=write_id,
        operation=np.zeros(rows, dtype=np.int64),
    )


def keys_of_batch(file: AcidFile, batch: pa.RecordBatch) -> Keys:
    """Returns the keys of a batch of ACID events.

    Raises:
        BadFile: a key is null.
        NotLossless: a bucket property is of an unknown version.
    """
    if any(batch.column(i).null_count for i in range(5)):
        raise BadFile(f"{file.path}: an ACID column has a null; expected a number in every row; restore the file")
    bucket = to_numbers(batch.column(2)).astype(np.int32)
    if len(bucket) and int((bucket.view(np.uint32) >> 29).max()) > 1:
        raise NotLossless(
            f"{file.path}: bucket property {int(bucket.view(np.uint32).max())} is of an unknown version; the known ones "
            "are 0 (Hive 2) and 1; look for a later release"
        )
    return Keys(
        block=key_block(to_numbers(batch.column(1)), bucket, to_numbers(batch.column(3))),
        current=to_numbers(batch.column(4)).astype(np.int64),
        operation=to_numbers(batch.column(0)).astype(np.int64),
    )


def check_only_rows(file: AcidFile, keys: Keys) -> Keys:
    """Returns ``keys`` if all are rows: insert events, or update events that Hive 2 left in a base.

    Raises:
        NotLossless: some are update or delete events (ACID v1), which apply to other rows of the same key.
    """
    if np.any((keys.operation != INSERT) & ~((keys.operation == UPDATE) & file.in_base)):
        raise NotLossless(
            f"{file.path}: has update or delete events among its rows, as ACID version 1 (Hive 2 and earlier) wrote them, "
            "and later versions of Hive misread those; see `compactor doctor --before-hive-3`"
        )
    return keys


def empty_acid_file(row_type: str, *, version: bytes | None = ACID_VERSION) -> bytes:
    """Returns an ACID file without rows.

    Args:
        row_type: Hive's type of the table's rows.
    """
    types = acid_types(parse_hive_type(row_type))
    with tempfile.TemporaryDirectory(prefix="compactor-") as scratch:
        path = Path(scratch) / "empty"
        with LocalSink(path) as sink:
            assembler.write_empty(sink, types, user_metadata=user_metadata([], version=version))
        return path.read_bytes()
