"""Two other decoders read the encoded integers, whatever they are, from every row group on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.orc.codecs.arrow_encoder import library_writer
from compactor.orc.codecs.recompress import Recompressor
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.run_length_encoding import MAX_RUN, EncodedColumn, IntegerColumn
from compactor.orc.format.tail import empty_tail, read_tail
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSource

STRIDE = 1000
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
TYPES = parse_hive_type("struct<a:bigint>")


def _dice() -> np.random.Generator:
    return np.random.default_rng(7)


def _wide(bits: int, count: int) -> Any:
    """Draws integers of up to this many bits, of both signs."""
    return _dice().integers(0, 1 << 64, count, dtype=np.uint64).view(np.int64) >> (64 - bits)


COLUMNS: dict[str, Any] = {
    "one value": np.full(4321, 536870912),
    "a single row": np.array([-5]),
    "two rows": np.array([3, 1]),
    "one by one": np.arange(4000),
    "falling": np.arange(4000, 0, -3),
    "with gaps": np.flatnonzero(_dice().random(9000) > 0.01),
    "with many gaps": np.flatnonzero(_dice().random(9000) > 0.6),
    "long runs": np.repeat(np.arange(90), 90),
    "short runs": np.repeat(_dice().integers(0, 9, 900), _dice().integers(1, 12, 900)),
    "a run of each kind": np.concatenate([np.full(900, 7), np.arange(900), _wide(20, 900), [4], np.full(3, 9)]),
    "extremes": np.array([SMALLEST, LARGEST, 0, -1, 1, SMALLEST, SMALLEST, LARGEST] * 200),
    "differences of 64 bits": np.repeat([SMALLEST, LARGEST, SMALLEST + 1], 600),
    "rising by much": np.array([-(1 << 62) + 1, 0, (1 << 62) - 1]).repeat(400),
    **{f"{bits} bits": _wide(bits, 2600) for bits in (1, 2, 3, 4, 7, 8, 9, 15, 17, 24, 25, 33, 41, 49, 57, 63, 64)},
    **{f"rising by {bits} bits": np.cumsum(np.abs(_wide(bits, 2600))) for bits in (2, 3, 5, 9, 17, 25, 33, 41, 49)},
}


def _encoded(values: Any, *, batch: int) -> EncodedColumn:
    column = IntegerColumn("a", TypeKind.LONG, STRIDE)
    for start in range(0, len(values), batch):
        column.append(values[start : start + batch].astype(np.int64))
    return column.finish()


def _file(path: Path, column: EncodedColumn) -> Path:
    """Writes a file of that column and one with the row numbers, in small chunks."""
    like = empty_tail(TYPES, row_index_stride=STRIDE)
    with path.with_suffix(".plain").open("wb", buffering=0) as plain:
        writer = library_writer(plain, like, Compression.NONE, stripe_size=1 << 30)
        writer.write(pa.table({"n": np.arange(column.rows)}))
        writer.close()
    made = Recompressor(path, block_size=1024)
    with LocalSource(path.with_suffix(".plain")) as source:
        made.append(source, [column])
    made.close()
    return path


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("batch", [700, 1 << 20])
def test_every_value_comes_out_right(tmp_path: Path, name: str, batch: int) -> None:
    values = COLUMNS[name]
    path = _file(tmp_path / "f", _encoded(values, batch=batch))
    found = po.ORCFile(path).read()
    assert np.array_equal(found.column("a").to_numpy(), values)
    assert np.array_equal(found.column("n").to_numpy(), np.arange(len(values)))
    with path.open("rb") as file:
        reader = pyorc.Reader(file)
        for row in {*range(0, len(values), STRIDE), *range(STRIDE - 1, len(values), STRIDE), len(values) - 1}:
            reader.seek(row)
            assert next(reader) == (values[row], row)


@pytest.mark.parametrize("batch", [700, 1 << 20])
def test_a_predicate_finds_its_row_in_every_row_group(tmp_path: Path, batch: int) -> None:
    """Readers use the statistics of row groups and the positions in the index."""
    values = COLUMNS["with gaps"]
    with _file(tmp_path / "f", _encoded(values, batch=batch)).open("rb") as file:
        for row in range(STRIDE // 2, len(values), STRIDE):
            predicate = PredicateColumn(pyorc.TypeKind.LONG, name="a") == int(values[row])
            found = list(pyorc.Reader(file, predicate=predicate))
            assert (values[row], row) in found
            assert len(found) <= STRIDE


@pytest.mark.parametrize("name", COLUMNS)
def test_statistics_are_those_of_the_values(tmp_path: Path, name: str) -> None:
    values = COLUMNS[name]
    column = _encoded(values, batch=700)
    groups = [values[start : start + STRIDE].tolist() for start in range(0, len(values), STRIDE)]
    assert len(column.index.entry) == len(groups)
    with LocalSource(_file(tmp_path / "f", column)) as source:
        tail = read_tail(source)
    assert tail.stripe_statistics is not None
    parts = [(entry.statistics, group) for entry, group in zip(column.index.entry, groups, strict=True)]
    for known, group in [
        *parts,
        (tail.stripe_statistics[0][1], values.tolist()),
        (tail.statistics[1], values.tolist()),
    ]:
        assert (known.number_of_values, known.has_null) == (len(group), False)
        numbers = known.int_statistics
        assert (numbers.minimum, numbers.maximum) == (min(group), max(group))
        assert not numbers.HasField("sum") or numbers.sum == sum(group)
        assert numbers.HasField("sum") or max(map(abs, group)) * len(group) >= 1 << 63


def test_constant_or_rising_values_take_hardly_any_room() -> None:
    count = 100 * MAX_RUN
    assert len(_encoded(np.full(count, 1), batch=count).data) == 100 * 4
    assert len(_encoded(np.arange(count), batch=count).data) < 100 * 8
    assert len(_encoded(np.flatnonzero(_dice().random(count) > 0.01), batch=count).data) < count / 3
