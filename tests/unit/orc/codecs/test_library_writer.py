"""Files of Arrow's writer have the properties that were configured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.orc.codecs.arrow_encoder import COMPRESSIONS, library_writer
from compactor.orc.codecs.bloom_filters import stripe_filters
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.io.source import LocalSource

TYPES = parse_hive_type("struct<a:bigint,b:bigint>")
LIKE = replace(empty_tail(TYPES), row_index_stride=1000)
ROWS = pa.table({"a": range(5000), "b": range(5000)})


def _written(path: Path, compression: Compression, **how: Any) -> tuple[LocalSource, Tail]:
    with path.open("wb", buffering=0) as file:
        writer = library_writer(file, LIKE, compression, **how)
        writer.write(ROWS)
        writer.close()
    source = LocalSource(path)
    return source, read_tail(source)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda kind: kind.name)
def test_a_file_has_the_class_of_its_example_except_for_the_codec(tmp_path: Path, compression: Compression) -> None:
    source, tail = _written(tmp_path / "f", compression, stripe_size=1 << 20, filtered=[2])
    assert (tail.compression, tail.row_index_stride, tail.file_version) == (compression, 1000, LIKE.file_version)
    assert tail.rows == 5000
    assert {stream.column for stream in stripe_filters(source, tail, 0)[1]} == {2}


def test_a_stripe_ends_when_it_is_full(tmp_path: Path) -> None:
    """The writer checks the size after each batch."""
    for batch_size, stripes in ((1000, [1000] * 5), (5000, [5000])):
        _, tail = _written(tmp_path / str(batch_size), Compression.NONE, stripe_size=1, batch_size=batch_size)
        assert [stripe.rows for stripe in tail.stripes] == stripes
