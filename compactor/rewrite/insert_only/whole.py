"""Copies files of an insert-only table whole, side by side into one directory.

For formats that cannot share a file without decoding rows: Avro, SequenceFile, RCFile, text with header lines or a codec.
This still makes one directory of many, whatever is in the files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from compactor.base.errors import VerificationFailed
from compactor.orc.io.source import LocalSource, Source, chunks, crc32
from compactor.rewrite.insert_only.output_file import CountingSink, FinishedFile


def write(sources: Sequence[Source], path: str) -> list[FinishedFile]:
    """Copies each source that holds bytes to ``path`` with a number appended; rows are not counted.

    Raises:
        VerificationFailed: a copy does not hold the bytes of its source.
    """
    return [_copied(source, f"{path}.{number}") for number, source in enumerate(s for s in sources if s.length)]


def _copied(source: Source, path: str) -> FinishedFile:
    with CountingSink(path) as out:
        for data in chunks(source, 0, source.length):
            out.write(data)
    with LocalSource(path) as written:
        if written.length != source.length or crc32(written, 0, written.length) != out.crc32:
            raise VerificationFailed(f"{path}: holds other bytes than {source.name}; nothing was changed, ask again")
    ending = os.path.splitext(source.name.rpartition("/")[2])[1]
    return FinishedFile(path=path, rows=0, length=out.length, crc32=out.crc32, bytes_copied=out.length, ending=ending)
