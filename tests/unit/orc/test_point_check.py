"""The check must accept correct files and find the broken ones that a count of rows accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.bucket import RowId
from compactor.base.errors import VerificationFailed
from compactor.orc.assembler import Assembler
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.io.source import BytesSource, LocalSink, LocalSource, Source
from compactor.orc.last_keys import last_key
from compactor.orc.point_check import check_filters, check_points

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]


def _last_keys(source: Source, tail: Tail) -> list[RowId]:
    return [last_key(source, tail, number) for number in range(len(tail.stripes))]


def test_real_files_answer_correctly(real_files: list[Path], opened: Opened) -> None:
    for source, tail in map(opened, real_files):
        if tail.is_acid and tail.row_index_stride:
            check_points(source, tail, _last_keys(source, tail))


def test_copied_files_answer_correctly(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    """PROTOCOL 4: one point predicate per stripe."""
    inputs = [opened(write_acid(write_id, 30_000, row_index_stride=1000)) for write_id in (1, 2)]
    assembler = Assembler(LocalSink(tmp_path / "out"), like=inputs[0][1])
    for source, tail in inputs:
        assembler.append_file(source, tail)
    assembler.close({})
    source, tail = opened(tmp_path / "out")
    assert len(tail.stripes) > 2
    keys = _last_keys(source, tail)
    check_points(source, tail, keys)
    for stripe, key in enumerate(keys):  # none is skipped
        wrong = [*keys[:stripe], key._replace(row_id=key.row_id + 1_000_000), *keys[stripe + 1 :]]
        with pytest.raises(VerificationFailed, match=f"of stripe {stripe} is not found by its key"):
            check_points(source, tail, wrong)


def test_stripes_with_other_bloom_filters_are_caught(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    """PROTOCOL 4: such a file answers all point predicates on keys."""
    (first, tail), (second, other) = [opened(write_acid(n, 10, bloom_filter_columns=[7] * n)) for n in (0, 1)]
    end, length = tail.stripes[-1].end, other.stripes[0].length
    moved = other.stripes[0]._replace(offset=end)
    assert tail.stripe_statistics is not None
    assert other.stripe_statistics is not None
    mixed = replace(
        tail,
        stripes=(*tail.stripes, moved),
        stripe_statistics=(*tail.stripe_statistics, *other.stripe_statistics),
        rows=20,
        content_length=end + length,
    )
    data = first.read(0, end) + second.read(other.stripes[0].offset, length) + tail_bytes(mixed)
    source = BytesSource(data, "mixed")
    check_points(source, read_tail(source), [*_last_keys(first, tail), *_last_keys(second, other)])
    with pytest.raises(VerificationFailed, match=r"file mixed: the bloom filters of columns \[7\] in stripe 1 are not"):
        check_filters(source, read_tail(source))


@pytest.mark.parametrize("damage", ["statistics", "stride"])
def test_files_that_lose_rows_are_found(write_acid: WriteAcid, opened: Opened, damage: str) -> None:
    """PROTOCOL 4: a count alone accepts broken files; these have all their rows."""
    source, tail = opened(write_acid(1, 40_000, row_index_stride=1000))
    assert len(tail.stripes) > 1
    assert tail.stripe_statistics is not None
    if damage == "statistics":
        wrong = replace(tail, stripe_statistics=tail.stripe_statistics[::-1])
    else:
        wrong = replace(tail, row_index_stride=10_000)
    data = source.read(0, tail.stripes[-1].end) + tail_bytes(wrong)
    broken = BytesSource(data, "broken")
    found = read_tail(broken)
    assert found.rows == 40_000
    keys = _last_keys(source, tail)
    check_points(source, tail, keys)
    with pytest.raises(VerificationFailed, match="not found by its key"):
        check_points(broken, found, keys)
    with pytest.raises(VerificationFailed, match="expected one for each"):
        check_points(source, tail, keys[1:])
