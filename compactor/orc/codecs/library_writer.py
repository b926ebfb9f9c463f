"""Configures Arrow's writer of ORC files."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import pyarrow.orc as po

from compactor.orc.codecs.bloom_filters import false_positives
from compactor.orc.codecs.codec import encoder_block_size
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import Tail

COMPRESSIONS: dict[Compression, Any] = {
    Compression.NONE: "uncompressed",
    Compression.ZLIB: "zlib",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}


def library_writer(
    file: io.RawIOBase,
    like: Tail,
    compression: Compression,
    *,
    stripe_size: int,
    batch_size: int = 1024,
    filtered: Collection[int] = (),
) -> Any:
    """Returns Arrow's writer for a file of the class of ``like``, but with its own ``compression``.

    Args:
        batch_size: the writer checks after so many rows whether the stripe has ``stripe_size`` bytes.
        filtered: the columns with bloom filters.
    """
    return po.ORCWriter(
        file,
        file_version=".".join(str(part) for part in like.file_version),
        batch_size=batch_size,
        compression=COMPRESSIONS[compression],
        compression_block_size=encoder_block_size(like),
        row_index_stride=like.row_index_stride,
        stripe_size=stripe_size,
        dictionary_key_size_threshold=0.8,
        bloom_filter_columns=sorted(filtered),
        bloom_filter_fpp=false_positives(like),
    )
