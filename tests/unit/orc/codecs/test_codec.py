from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.codecs.codec import column_names, decoding_failed, encoder_block_size, relabel, relabel_batch
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import Types, acid_types

ROW = parse_hive_type("struct<A:int,b:string>")


def test_root_names_are_hives_for_acid_files_and_otherwise_the_files_own() -> None:
    acid = acid_types(ROW)
    lower = Types((replace(acid[0], field_names=tuple(name.lower() for name in acid[0].field_names)), *acid[1:]))
    assert column_names(lower) == column_names(acid)
    assert column_names(acid)[1] == "originalTransaction"
    assert column_names(ROW) == ("A", "b")


def test_relabelling_does_not_copy() -> None:
    array = pa.array([{"f0": 1, "f1": "x"}, None], pa.struct([("f0", pa.int64()), ("f1", pa.string())]))
    wanted = pa.struct([("id", pa.int64()), ("name", pa.string())])
    named = relabel(array, wanted)
    assert named.type == wanted
    assert named.to_pylist() == [{"id": 1, "name": "x"}, None]
    old, new = array.buffers()[2], named.buffers()[2]
    assert old is not None
    assert new is not None
    assert new.address == old.address
    assert relabel(array, array.type) is array


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed"), OSError("std::bad_alloc")]
)
def test_a_lack_of_memory_is_no_damage_of_the_file(error: Exception) -> None:
    with pytest.raises(MemoryError, match="file f: "):
        decoding_failed(empty_tail(ROW, name="f"), error)


def test_blocks_of_very_wide_files_are_short() -> None:
    """The library holds one for each stream."""
    wide = Types([replace(ROW[0], children=tuple(range(1, 20_001))), *[ROW[1]] * 20_000])
    assert encoder_block_size(empty_tail(ROW)) == 256 * 1024
    assert encoder_block_size(empty_tail(wide)) == 64 * 1024


def test_a_batch_is_relabelled_whole() -> None:
    batch = pa.record_batch({"f0": pa.array([1, 2]), "f1": pa.array(["x", None])})
    named = relabel_batch(batch, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    assert named.to_pylist() == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    ("like", "block"), [(0, 65_536), (1, 65_536), (65_536, 65_536), (65_537, 131_072), (262_144, 262_144)]
)
def test_compression_blocks_are_multiples_of_memory_blocks(like: int, block: int) -> None:
    assert encoder_block_size(empty_tail(ROW, compression_block_size=like)) == block


def test_a_block_has_an_upper_end() -> None:
    assert encoder_block_size(empty_tail(ROW, compression_block_size=2**30)) == 4 * 2**20


def test_a_decoding_error_depends_on_its_cause() -> None:
    tail = replace(empty_tail(ROW), name="/w/bucket_00000")
    text = decoding_failed(tail, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
    other = decoding_failed(tail, OSError("Corrupt snappy"))
    assert (type(text), type(other)) == (NotLossless, BadFile)
    assert str(text).startswith("file /w/bucket_00000: a text is not UTF-8")
    assert "Corrupt snappy" in str(other)
