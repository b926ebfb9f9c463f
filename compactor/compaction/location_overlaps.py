"""Finds tables and partitions whose directories overlap, and decides which are not compacted for that (PROTOCOL 11.13).

Two tables in one directory destroy each other. Their write IDs have the same numbers: cleaning after an aborted transaction
of one table removes committed deltas of the other, and a base of one makes the other's deltas obsolete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from compactor.compaction.location_text import is_inside

_FEW = 3  #: others that a message names
Key = tuple[int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory of a table or partition, with its normalised location.

    ``metastore`` names the other metastore that it belongs to; None for this one.
    """

    table: int
    name: str
    location: str
    partition: str | None = None
    is_transactional: bool = False
    metastore: str | None = None

    @property
    def key(self) -> Key:
        return self.table, self.partition

    def __str__(self) -> str:
        name = self.name if self.partition is None else f"{self.name}/{self.partition}"
        return name if self.metastore is None else f"{name} of metastore {self.metastore}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaps:
    """The overlaps of a metastore's locations, with a sentence for each.

    ``refused`` are tables (with all their partitions) and partitions that are not touched. ``warned`` are those in the
    directory of a plain table, which only its owner can judge.
    """

    refused: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))
    warned: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns why a table or partition is not touched; None if its directory belongs to it alone."""
        return self.refused.get((table, None)) or self.refused.get((table, partition))

    def refusal_anywhere(self, table: int) -> str | None:
        """Returns why a table or any of its partitions is not touched; None if all their directories are its own."""
        return next((why for (refused, _), why in self.refused.items() if refused == table), None)

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is refused."""
        return self.refusal_anywhere(table) is None


def find_overlaps(places: Iterable[Place]) -> Overlaps:
    """Returns the overlaps among ``places``.

    Two transactional tables at, above or below each other are both refused. Any place inside a transactional one refuses the
    outer one. A plain table's place at or above a transactional one only warns. A partition below its own table is normal;
    one inside another partition, or around its table, is not. A place of another metastore, which has other transactions,
    refuses any of ours at, around or inside it.
    """
    refused: dict[Place, list[Place]] = defaultdict(list)
    warned: dict[Place, list[Place]] = defaultdict(list)
    for outer, inner in overlapping_pairs(places):
        if outer.metastore != inner.metastore:
            for ours, other in ((outer, inner), (inner, outer)):
                if ours.metastore is None and ours.is_transactional:
                    refused[ours].append(other)
            continue
        if outer.metastore is not None:
            continue
        if outer.table == inner.table:
            for place, other in ((outer, inner), (inner, outer)):
                if place.is_transactional and place.partition is not None:
                    refused[place].append(other)
            continue
        is_same = outer.location == inner.location
        if outer.is_transactional and (inner.is_transactional or not is_same):
            refused[outer].append(inner)
        if inner.is_transactional:
            (refused if outer.is_transactional else warned)[inner].append(outer)
        elif is_same and outer.is_transactional:
            warned[outer].append(inner)
    return Overlaps(refused=_describe_all(refused), warned=_describe_all(warned))


def overlapping_pairs(places: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
    """Yields each place with every other one at or inside it, except a table's own partitions below it."""
    around: list[Place] = []
    for place in sorted(places, key=lambda place: (f"{place.location}/", place.partition is not None, place.name)):
        while around and not _holds(around[-1], place):
            around.pop()
        for outer in around:
            if not _is_its_own(outer, place):
                yield outer, place
        around.append(place)


def is_overlapping(place: Place, other: Place) -> bool:
    """Returns true if ``place`` lies at, around or inside ``other``."""
    return _holds(place, other) or _holds(other, place)


def _holds(outer: Place, inner: Place) -> bool:
    return outer.location == inner.location or is_inside(inner.location, outer.location)


def _is_its_own(outer: Place, inner: Place) -> bool:
    return outer.table == inner.table and outer.partition is None and outer.location != inner.location


def _describe_all(overlaps: Mapping[Place, Sequence[Place]]) -> Mapping[Key, str]:
    return MappingProxyType({place.key: _describe_overlap(place, others) for place, others in overlaps.items()})


def _describe_overlap(place: Place, others: Sequence[Place]) -> str:
    listed = "; ".join(f"{other} {_describe_relation(place, other)} ({other.location})" for other in others[:_FEW])
    more = f"; and {len(others) - _FEW} more" if len(others) > _FEW else ""
    return (
        f"{place}: does not have its directory {place.location} to itself: {listed}{more}; tables in one directory destroy "
        "each other, so nothing is compacted or removed there; move one of them, or drop what is not needed"
    )


def _describe_relation(place: Place, other: Place) -> str:
    if place.location == other.location:
        return "lies there too"
    return "lies inside it" if is_inside(other.location, place.location) else "lies around it"
