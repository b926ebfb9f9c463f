"""The kept rows of one stripe."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyorc
import pytest

from compactor.base.errors import UnforeseenKeys
from compactor.base.ids import WriteId
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.tail import Tail, empty_tail, key_statistics, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import BytesSource, LocalSource
from compactor.orc.pieces import Piece, SyntheticKeys, piece_batches
from compactor.orc.reencode import encode_acid, reencode

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]
RawRows = Callable[[Path], str]


def test_both_codecs_keep_the_same_rows(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, raw_rows: RawRows
) -> None:
    source, tail = opened(write_acid(1, 3000))
    piece = Piece(source=source, tail=tail, stripe_index=0, keep=pa.array([i % 7 == 1 for i in range(3000)]))
    for codec in (ARROW, PYORC):
        batches = piece_batches(piece, codec, tail.types)
        encode_acid(batches, tmp_path / codec.name, like=tail, types=tail.types, codec=codec)
    assert raw_rows(tmp_path / "arrow") == raw_rows(tmp_path / "pyorc")


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=lambda codec: codec.name)
@pytest.mark.parametrize("column", range(5))
def test_keys_other_than_the_statistics_say_are_refused(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, codec: Codec, column: int
) -> None:
    """PROTOCOL 2.1: every key is checked, at the latest when its row is decoded."""
    source, tail = opened(write_acid(1, 3000))
    said = key_statistics(tail, 0)
    assert said is not None
    keep = np.arange(3000) != 7
    piece = Piece(source=source, tail=tail, stripe_index=0, keep=keep, dense=said)
    assert sum(batch.num_rows for batch in piece_batches(piece, codec)) == 2999
    name = ("operation", "original_transaction", "bucket", "row_id", "current_transaction")[column]
    found = getattr(said, name)
    other = said._replace(**{name: found._replace(minimum=found.minimum + 1)})
    with pytest.raises(UnforeseenKeys, match=r"stripe 0: its .* must be read first"):
        list(piece_batches(piece._replace(dense=other), codec))


def test_original_rows_become_acid_rows(tmp_path: Path) -> None:
    file = io.BytesIO()
    with pyorc.Writer(file, "struct<a:int,b:varchar(5)>", stripe_size=1024) as writer:
        writer.writerows((i, f"v{i}" if i % 3 else None) for i in range(3000))
    source = BytesSource(file.getvalue())
    tail = read_tail(source)
    types = acid_types(tail.types.row)
    keep = np.arange(3000) % 5 != 0
    pieces, row = [], 0
    for number, stripe in enumerate(tail.stripes):
        keys = SyntheticKeys(write_id=WriteId(7), bucket=536870912, first_row_id=100 + row)
        kept = keep[row : row + stripe.rows]
        pieces.append(Piece(source=source, tail=tail, stripe_index=number, keep=kept, original=keys))
        row += stripe.rows
    like = replace(empty_tail(types), row_index_stride=1000)
    out = reencode(pieces, tmp_path / "re", like=like, types=types)
    assert (out.is_acid, out.rows) == (True, 2400)
    with open(tmp_path / "re", "rb") as stream:
        rows = list(pyorc.Reader(stream))
    wanted = [(0, 7, 536870912, 100 + i, 7, (i, f"v{i}" if i % 3 else None)) for i in range(3000) if i % 5]
    assert rows == wanted
