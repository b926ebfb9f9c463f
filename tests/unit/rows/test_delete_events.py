"""Delete events against a model of sets of tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.row_id import RowId
from compactor.base.ids import WriteId
from compactor.rows.delete_events import DeleteEvents
from tests.support.acid_files import Key, block

KEYS = st.tuples(st.integers(0, 4), st.sampled_from([1 << 29, 1 << 29 | 1, 1 << 29 | 1 << 16]), st.integers(0, 6))
EVENTS = st.lists(st.lists(KEYS, max_size=8), max_size=4)


def events(blocks: list[list[Key]]) -> DeleteEvents:
    return DeleteEvents.from_blocks((block(keys), np.arange(len(keys), dtype=np.int64)) for keys in blocks)


def flat(blocks: list[list[Key]]) -> list[Key]:
    return [key for keys in blocks for key in keys]


@given(EVENTS, st.lists(KEYS, max_size=20))
def test_hits_are_membership(blocks: list[list[Key]], rows: list[Key]) -> None:
    gone = set(flat(blocks))
    assert events(blocks).hits(block(rows)).tolist() == [row in gone for row in rows]


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99), min_size=1))
def test_hits_among_the_rows_of_one_statement(gone: set[int], rows: set[int]) -> None:
    found = events([[(3, 1 << 29, row) for row in gone], [(2, 1 << 29, 1), (3, 1 << 29 | 1, 1)]])
    assert found.hits(block([(3, 1 << 29, row) for row in sorted(rows)])).tolist() == [r in gone for r in sorted(rows)]


@given(EVENTS, KEYS, KEYS)
def test_any_between_is_inclusive(blocks: list[list[Key]], a: Key, b: Key) -> None:
    low, high = sorted((a, b))
    found = events(blocks).any_between(*(RowId(WriteId(w), bucket, row) for w, bucket, row in (low, high)))
    assert found == any(low <= key <= high for key in flat(blocks))


@given(EVENTS, KEYS, st.integers(0, 99))
def test_row_ids_are_those_of_one_statement(blocks: list[list[Key]], first: Key, more: int) -> None:
    low = RowId(WriteId(first[0]), *first[1:])
    high = low._replace(row_id=low.row_id + more)
    assert events(blocks).row_ids(low, high).tolist() == sorted(k[2] for k in flat(blocks) if low <= k <= high)


@given(EVENTS)
def test_all_events_are_kept_each_with_its_deleting_write_id(blocks: list[list[Key]]) -> None:
    found = events(blocks)
    wanted = [(key, number) for keys in blocks for number, key in enumerate(keys)]
    assert sorted((k.item(), int(c)) for k, c in zip(found.keys, found.current, strict=True)) == sorted(wanted)
    assert [k.item() for k in found.keys] == sorted(flat(blocks))


def test_no_events_hit_nothing() -> None:
    assert not DeleteEvents.from_blocks(()).hits(block([(1, 1 << 29, 0)])).any()
    assert events([[(1, 1 << 29, 0)]]).hits(block([])).tolist() == []
