"""Grouping entries into batches."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction.batching import Item, group_batches
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.routing import Route
from compactor.compaction.states import CompactionType, State


def _item(id: int, bytes_: int, queue: str | None = None) -> Item:
    entity = Entity(database="d", table="t", partition=f"p={id}")
    entry = Entry(id=id, entity=entity, state=State.INITIATED, type=CompactionType.MINOR)
    return Item(entry=entry, bytes=bytes_, route=Route(queue=queue))


def _ids(items: list[Item], max_bytes: int) -> list[list[int]]:
    return [[item.entry.id for item in batch.items] for batch in group_batches(items, max_bytes)]


def test_batches_are_filled_in_order_of_id() -> None:
    assert _ids([_item(3, 30), _item(1, 50), _item(2, 50), _item(4, 80)], 100) == [[1, 2], [3], [4]]


def test_entries_of_different_routes_never_share_a_batch() -> None:
    """DESIGN 7: entries with different queue, run-as or conf never share a batch."""
    items = [_item(1, 1, "a"), _item(2, 1, "b"), _item(3, 1, "a"), _item(4, 1)]
    assert _ids(items, 100) == [[1, 3], [2], [4]]


def test_an_item_too_large_for_any_batch_goes_alone() -> None:
    assert _ids([_item(1, 10), _item(2, 500), _item(3, 10)], 100) == [[1], [2], [3]]


def test_nothing() -> None:
    assert group_batches([], 100) == ()


items_of_any_kind = st.lists(
    st.builds(_item, st.integers(1, 500), st.integers(0, 150), st.sampled_from(["a", "b", None])),
    unique_by=lambda item: item.entry.id,
)


@given(items_of_any_kind)
def test_every_entry_is_batched_once_within_bounds_and_in_order(items: list[Item]) -> None:
    """DESIGN 8.8: no entry overtakes an earlier one of the same route."""
    made = group_batches(items, 100)
    assert sorted(i.entry.id for b in made for i in b.items) == sorted(i.entry.id for i in items)
    assert [b.items[0].entry.id for b in made] == sorted(b.items[0].entry.id for b in made)
    by_route: dict[Route, list[int]] = defaultdict(list)
    for batch in made:
        assert batch.bytes <= 100 or len(batch.items) == 1
        assert {item.route for item in batch.items} == {batch.route}
        by_route[batch.route] += [item.entry.id for item in batch.items]
    assert all(ids == sorted(ids) for ids in by_route.values())
