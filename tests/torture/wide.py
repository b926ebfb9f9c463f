"""A small file that is huge: one stripe of 3 M rows in some 30 kB. ``python -m tests.torture.wide <table> <shape>``
compacts a table with it and says the most memory that this took, in bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.orc.codecs import arrow_codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import stage
from compactor.rows.new_file import OutputMetadata
from compactor.storage.local import LocalStorage
from tests.support.units import run_units
from tests.torture.child import forget_peak, peak

ROWS = 3_000_000
WIDTH = 400  #: bytes of the text in every row, so that all of them at once are 1.2 GB
ROW_TYPE = "struct<a:bigint,b:string>"
BUCKET = 1 << 29
_BATCH = 65_536
WRITE_IDS = ValidWriteIdList(table="default.t", high_watermark=WriteId(10))
TXNS = ValidTxnList(high_watermark=TxnId(10))


def write(path: Path) -> None:
    """Writes the file: every row the same but for its number, which the encoder stores in next to nothing."""
    types = acid_types(parse_hive_type(ROW_TYPE))
    like = empty_tail(types, name=str(path), row_index_stride=ROWS)
    schema = arrow_codec.schema(types)
    row = schema.field(5).type
    ones = pa.array(np.ones(_BATCH, dtype=np.int64))
    text = pa.array(["x" * WIDTH] * _BATCH)
    rows = pa.StructArray.from_arrays([ones, text], fields=list(row))
    with arrow_codec.ArrowWriter(path, like=like, types=types, stripe_size=1 << 31) as writer:
        for start in range(0, ROWS, _BATCH):
            count = min(_BATCH, ROWS - start)
            columns = [
                pa.array(np.zeros(count, dtype=np.int32)),
                ones[:count],
                pa.array(np.full(count, BUCKET, dtype=np.int32)),
                pa.array(np.arange(start, start + count, dtype=np.int64)),
                ones[:count],
                rows[:count],
            ]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    from compactor.orc.format.tail_writer import replace_tail

    replace_tail(path, like, types, OutputMetadata().compute)


def compact(table: Path, shape: Shape) -> int:
    """Rows of the output of a compaction."""
    storage = LocalStorage()
    planned = plan(
        acid_directory(storage.listing(str(table)), WRITE_IDS, TXNS),
        shape,
        PlanContext(location=str(table), txn=TxnId(11), write_ids=WRITE_IDS.for_compactor(), row_type=ROW_TYPE),
    )
    stage.prepare(storage, planned)
    staged = stage.accept(storage, planned, run_units(planned.units))
    stage.check_staged(storage, planned, staged)
    return staged.figures.rows_out


def main() -> None:
    forget_peak()
    rows = compact(Path(sys.argv[1]), Shape[sys.argv[2]])
    print(rows, peak())


if __name__ == "__main__":
    main()
