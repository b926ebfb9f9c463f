"""Deleted rows of one file number as a file of delete events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from compactor.ids import WriteId
from compactor.orc.assembler import WrittenFile
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.rows.delete_events import DeleteEvents
from compactor.rows.delete_files import write_events
from compactor.rows.keys import key_block, to_numbers


def write_deleted(path: str, row_type: str, row_ids: Sequence[pa.ChunkedArray], write_id: WriteId) -> WrittenFile:
    """Writes the events by which ``write_id`` deletes rows, in any order, to a local file.

    Args:
        row_type: Hive's type of the table's rows.
        row_ids: write IDs, bucket properties and row IDs.
    """
    types = acid_types(parse_hive_type(row_type))
    write, bucket_property, row_id = map(to_numbers, row_ids)
    keys = key_block(write, bucket_property.astype(np.int32), row_id)
    events = DeleteEvents.of([(keys, np.full(len(keys), write_id, dtype=np.int64))])
    return write_events(events, path, like=empty_tail(types, name=path), types=types)
