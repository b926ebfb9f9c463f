"""The keys of stripes' last rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.orc as po

from compactor.acid.bucket import RowId
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import LocalSource
from compactor.orc.last_keys import last_key

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]
RawRows = Callable[[Path], str]


def test_last_keys(real_files: list[Path], opened: Opened) -> None:
    """DESIGN 4: the key index is computed; its entries are the keys of each stripe's last row."""
    for path in real_files:
        source, tail = opened(path)
        for number in range(len(tail.stripes) if tail.is_acid else 0):
            batch = po.ORCFile(str(path)).read_stripe(number, columns=[0, 1, 2, 3, 4])
            last = [column.to_pylist()[-1] for column in batch.columns]
            assert last_key(source, tail, number) == RowId(WriteId(last[1]), last[2], last[3]), path
