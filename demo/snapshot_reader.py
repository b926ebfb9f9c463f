"""Reads the rows of one directory under a snapshot, each with its ROW__ID.

Visibility is that of Hive 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from compactor.acid.directory import AcidDirectory
from compactor.acid.write_ids import ValidWriteIdList
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.java_zones import UTC_NAME
from compactor.orc.format.types import Types, acid_types
from compactor.orc.format.widening import widens
from compactor.orc.pieces import Piece, SyntheticKeys, piece_batches
from compactor.rows.acid_file import AcidFile, check_only_rows, open_files, stripe_keys
from compactor.rows.delete_files import DeleteEvents, load_events
from compactor.rows.inputs import inputs_by_number
from compactor.rows.keys import BUCKET, ROW, ROW_ID, WRITE_ID, Mask, valid_mask
from compactor.rows.remote_source import LOCAL
from compactor.storage.protocol import Storage

ROW_ID_COLUMNS = ("writeid", "bucketid", "rowid")  #: the fields of Hive's ROW__ID, in its words


def read_snapshot(
    location: str, directory: AcidDirectory, write_ids: ValidWriteIdList, row_type: str, storage: Storage = LOCAL
) -> Iterator[pa.RecordBatch]:
    """Yields every row that the snapshot sees, in file order within each file number.

    Args:
        location: the path of ``directory``.
        row_type: Hive's type of the table's rows. Columns that older files lack are null.

    Yields:
        batches of ``writeid`` (int64), ``bucketid`` (int32), ``rowid`` (int64), then the table's columns in order. A
        timestamp is ``timestamp[ns]``. From the first batch of a stripe with a value that does not fit, it is
        ``struct<seconds,nanos>``.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: a file holds something that this release does not read (ACID v1, encryption).
    """
    row = parse_hive_type(row_type)
    inserts, deletes = inputs_by_number(directory)
    for number in sorted(inserts):
        events = load_events(location, deletes.get(number, []), number, write_ids, storage).events
        with open_files(location, inserts[number], number, storage) as files:
            for file in files:
                yield from _rows(file, events, write_ids, row)


def _rows(file: AcidFile, events: DeleteEvents, write_ids: ValidWriteIdList, row: Types) -> Iterator[pa.RecordBatch]:
    have = file.tail.types.row
    types = acid_types(row if widens(have, row) else have)
    for stripe in range(len(file.tail.stripes)):
        mask = _visible_mask(file, stripe, events, write_ids)
        if not mask.any():
            continue
        original = None
        if file.is_raw:
            first = file.first_row_id + file.first_row_of(stripe)
            original = SyntheticKeys(write_id=file.write_id, bucket=file.bucket, first_row_id=first)
        piece = Piece(
            source=file.source, tail=file.tail, stripe_index=stripe, keep=mask, original=original, to_zone=UTC_NAME
        )
        yield from _decode(piece, types)


def _decode(piece: Piece, types: Types) -> Iterator[pa.RecordBatch]:
    """Yields a stripe's rows in batches from Arrow; from the first batch that it cannot hold, from pyorc."""
    shown = 0
    try:
        for batch in _flatten(piece, ARROW, types):
            yield batch
            shown += batch.num_rows
        return
    except Unfit:
        pass  # the other codec starts again at the stripe's first row
    for batch in _flatten(piece, PYORC, types):
        known = min(shown, batch.num_rows)
        shown -= known
        if known < batch.num_rows:
            yield batch.slice(known)


def _flatten(piece: Piece, codec: Codec, types: Types) -> Iterator[pa.RecordBatch]:
    for batch in piece_batches(piece, codec, types):
        row = batch.column(ROW)
        yield pa.RecordBatch.from_arrays(
            [batch.column(WRITE_ID), batch.column(BUCKET), batch.column(ROW_ID), *row.flatten()],
            names=[*ROW_ID_COLUMNS, *(field.name for field in row.type)],
        )


def _visible_mask(file: AcidFile, stripe: int, events: DeleteEvents, write_ids: ValidWriteIdList) -> Mask:
    masks = []
    for keys in stripe_keys(file, stripe):
        check_only_rows(file, keys)
        masks.append(valid_mask(write_ids, keys.current) & ~events.hits(keys.block))
    return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)
