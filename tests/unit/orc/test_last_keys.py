"""The keys of stripes' last rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.orc as po

from compactor.acid.row_id import RowId
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import LocalSource
from compactor.orc.last_keys import last_key

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]
RawRows = Callable[[Path], str]


def test_last_keys(fixture_file: Path, opened: Opened) -> None:
    """DESIGN 4: the key index is computed; its entries are the keys of each stripe's last row."""
    source, tail = opened(fixture_file)
    if not tail.is_acid:
        return
    for number in range(len(tail.stripes)):
        batch = po.ORCFile(str(fixture_file)).read_stripe(number, columns=[0, 1, 2, 3, 4])
        last = [column.to_pylist()[-1] for column in batch.columns]
        assert last_key(source, tail, number) == RowId(WriteId(last[1]), last[2], last[3])
