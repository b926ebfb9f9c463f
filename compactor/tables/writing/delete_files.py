"""Writes the deleted rows of one file number as a file of delete events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from compactor.orc.assembler import WrittenFile
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.rows.delete_files import Events, write_events
from compactor.rows.keys import KeyBlock, key_block, to_numbers


def write_deleted(path: str, row_type: str, events: Events) -> WrittenFile:
    """Writes delete events to a local file.

    Args:
        row_type: the Hive type of the table's rows.
    """
    types = acid_types(parse_hive_type(row_type))
    return write_events(events, path, like=empty_tail(types, name=path), types=types)


def build_keys(row_ids: Sequence[pa.Array | pa.ChunkedArray]) -> KeyBlock:
    """Builds keys from write IDs, bucket properties and row IDs."""
    write_id, bucket_property, row_id = map(to_numbers, row_ids)
    return key_block(write_id, bucket_property.astype(np.int32), row_id)
