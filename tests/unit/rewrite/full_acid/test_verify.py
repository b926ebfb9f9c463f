"""Verification of outputs (PROTOCOL 4): each case is a file that a broken compaction could have made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compactor.acid.row_id import RowId
from compactor.base.errors import BadFile, CompactorError, VerificationFailed
from compactor.base.ids import WriteId
from compactor.orc.format.tail import read_tail
from compactor.orc.format.tail_writer import replace_tail, tail_bytes
from compactor.orc.io.source import LocalSource
from compactor.rewrite.full_acid.verify import verify_file
from compactor.rows.delete_events import DeleteEvents
from tests.support.acid_files import FIRST_FILE, TYPES, Key, block, dense, like, write_file

NONE = DeleteEvents.from_blocks(())
LAST = [RowId(WriteId(3), FIRST_FILE, 99)]


def deleting(*keys: Key) -> DeleteEvents:
    return DeleteEvents.from_blocks([(block(keys), np.full(len(keys), 9, dtype=np.int64))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_file(tmp_path / "bucket_00000", dense(3, 100))


@pytest.mark.parametrize("full", [False, True])
def test_a_right_file_passes(path: Path, full: bool) -> None:
    verify_file(str(path), LAST, rows=100, full=full, deletes=deleting((3, FIRST_FILE, 100)))


def test_a_dropped_row(path: Path) -> None:
    with pytest.raises(VerificationFailed, match=r"bucket_00000: 100 rows in 1 stripes, expected 101"):
        verify_file(str(path), LAST, rows=101, full=False, deletes=NONE)


def test_a_stripe_too_few(path: Path) -> None:
    with pytest.raises(VerificationFailed, match="in 1 stripes, expected 100 in 2"):
        verify_file(str(path), [*LAST, RowId(WriteId(4), FIRST_FILE, 0)], rows=100, full=False, deletes=NONE)


@pytest.mark.parametrize("index", [b"3,536870912,98;", b"", b"3,536870912,99", b"3,536870912,99;3,536870912,99;"])
def test_a_wrong_key_index(path: Path, index: bytes) -> None:
    """With a wrong entry a row-by-row reader of Hive loses rows."""
    with LocalSource(path) as source:
        metadata = dict(read_tail(source).user_metadata)
    replace_tail(str(path), like(), TYPES, lambda *_: {**metadata, "hive.acid.key.index": index})
    with pytest.raises(VerificationFailed, match="key index"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_last_keys_that_are_not_those_of_the_rows(tmp_path: Path) -> None:
    """PROTOCOL 4: a count alone passes broken files; a point predicate per stripe does not."""
    path = write_file(tmp_path / "bucket_00000", dense(3, 100, first=1))
    with LocalSource(path) as source:
        metadata = dict(read_tail(source).user_metadata)
    replace_tail(str(path), like(), TYPES, lambda *_: {**metadata, "hive.acid.key.index": b"3,536870912,500;"})
    with pytest.raises(VerificationFailed):
        verify_file(str(path), [RowId(WriteId(3), FIRST_FILE, 500)], rows=100, full=False, deletes=NONE)


def test_stripes_without_statistics(path: Path) -> None:
    """PROTOCOL 2.2: readers would use the file's statistics for all stripes."""
    with LocalSource(path) as source:
        tail = read_tail(source)
    data = path.read_bytes()[: tail.stripes[-1].end]
    path.write_bytes(data + tail_bytes(replace(tail, stripe_statistics=None)))
    with pytest.raises(VerificationFailed, match="not every stripe has statistics"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_a_row_index_that_contradicts_the_statistics(path: Path, tmp_path: Path) -> None:
    other = write_file(tmp_path / "other" / "bucket_00000", dense(3, 100, first=7))
    with LocalSource(path) as source, LocalSource(other) as lying:
        tail = replace(read_tail(source), stripe_statistics=read_tail(lying).stripe_statistics)
    path.write_bytes(path.read_bytes()[: tail.stripes[-1].end] + tail_bytes(tail))
    with pytest.raises(BadFile, match="contradicts the stripe's statistics"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_rows_that_cannot_be_decoded(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with LocalSource(path) as source:
        stripe = read_tail(source).stripes[0]
    content[stripe.offset : stripe.offset + stripe.length] = b"\x55" * stripe.length
    path.write_bytes(content)
    with pytest.raises(CompactorError):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_a_deleted_row_that_was_kept(path: Path) -> None:
    with pytest.raises(VerificationFailed, match="a deleted row is among them"):
        verify_file(str(path), LAST, rows=100, full=True, deletes=deleting((3, FIRST_FILE, 50)))


@pytest.mark.parametrize("swapped", [dense(3, 98), [*dense(3, 50), (3, FIRST_FILE, 49), *dense(3, 47, first=50)]])
def test_keys_out_of_order_or_twice(tmp_path: Path, swapped: list[Key]) -> None:
    keys = [swapped[1], swapped[0], *swapped[2:], (3, FIRST_FILE, 99)] if len(swapped) == 98 else [*swapped, LAST[0]]
    path = write_file(tmp_path / "bucket_00000", [tuple(key) for key in keys])  # type: ignore[misc]
    with pytest.raises(VerificationFailed, match="do not rise strictly"):
        verify_file(str(path), LAST, rows=99, full=True, deletes=NONE)
