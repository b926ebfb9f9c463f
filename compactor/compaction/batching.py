"""Groups queue entries into batches, each for one Spark application."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.compaction.routing import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An entry, the bytes it reads and where it runs."""

    entry: Entry
    bytes: int
    route: Route


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteBatch:
    """Entries of one route, ordered by id."""

    route: Route
    items: tuple[Item, ...]

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)


def group_batches(items: Iterable[Item], max_bytes: int) -> tuple[RouteBatch, ...]:
    """Returns all items in batches, filled in order of id; a batch exceeds ``max_bytes`` only if one item alone does."""
    open_batches: dict[Route, list[Item]] = {}
    filled: dict[Route, int] = {}
    done: list[list[Item]] = []
    for item in sorted(items, key=lambda item: item.entry.id):
        current = open_batches.get(item.route)
        if current is None or filled[item.route] + item.bytes > max_bytes:
            current = open_batches[item.route] = []
            filled[item.route] = 0
            done.append(current)
        current.append(item)
        filled[item.route] += item.bytes
    return tuple(RouteBatch(route=batch[0].route, items=tuple(batch)) for batch in done)
