from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compactor.acid.names import DeltaKind
from compactor.orc.assembler import WrittenFile
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import acid_types
from compactor.rewrite.full_acid.output_format import new_tail, output_of, template_of_files
from compactor.settings.output_class import UNKNOWN_TO_ORC_1_5, OutputClass
from tests.support.acid_files import like

TYPES = acid_types(parse_hive_type("struct<a:int>"))


def test_the_largest_file_with_a_row_index_gives_the_class() -> None:
    """PROTOCOL 2.2: a file with stride 0 is never the target."""
    small = replace(like("small"), length=10, compression=Compression.ZSTD, row_index_stride=5000)
    large = replace(like("large"), length=99, row_index_stride=0)
    made = template_of_files([large, small], TYPES)
    assert (made.compression, made.row_index_stride) == (Compression.ZSTD, 5000)
    assert made.types == TYPES


def test_a_new_file_is_of_the_class_and_empty() -> None:
    made = new_tail(replace(like(), row_index_stride=7000), TYPES)
    assert (made.rows, made.stripes, made.row_index_stride, made.types) == (0, (), 7000, TYPES)


def test_a_codec_that_a_reader_does_not_know_is_never_written() -> None:
    avoiding = OutputClass(avoids=UNKNOWN_TO_ORC_1_5)
    made = {kind: new_tail(replace(like(), compression=kind), TYPES, avoiding).compression for kind in Compression}
    assert Compression.ZSTD not in made.values()
    assert made[Compression.ZSTD] is Compression.ZLIB
    assert made[Compression.SNAPPY] is Compression.SNAPPY


def test_the_output_of_a_written_file(tmp_path: Path) -> None:
    written = WrittenFile(length=5, rows=3, stripes=1, checksum=9)
    output = output_of(DeltaKind.DELETE, str(tmp_path / "f"), 7, written)
    assert (output.kind, output.number, output.rows, output.length, output.crc32) == (DeltaKind.DELETE, 7, 3, 5, 9)
