"""Decides which tables and partitions lie at, above or inside each other, and which of them are left alone for that
(PROTOCOL 11.13).

Two tables in one directory destroy each other: aborted transactions of the one remove committed deltas of the other, whose
write IDs have the same numbers, and a base of the one makes the other's deltas obsolete.
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
    """The directory of a table, or of one of its partitions, with its location in its normalised form. ``metastore`` names
    another metastore whose it is; None for this one's."""

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
    """``refused`` gives the reason for each table (of which no partition is touched either) and each partition, ``warned``
    what lies in a directory of a plain table, which only its owner can judge.
    """

    refused: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))
    warned: Mapping[Key, str] = field(default_factory=lambda: MappingProxyType({}))

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns the reason why a table or partition is left alone; None if it has its ground to itself."""
        return self.refused.get((table, None)) or self.refused.get((table, partition))

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is left alone."""
        return all(refused != table for refused, _ in self.refused)


def overlaps(places: Iterable[Place]) -> Overlaps:
    """Returns which of ``places`` overlap.

    Another transactional table at, above or below refuses both; anybody's place inside refuses the one around it; a plain
    table's at or above only warns. A table's partitions below its own directory are what is normal, but not one partition
    inside another, or around its table. Any place of another metastore, which has other transactions, refuses ours at,
    around or inside it.
    """
    refused: dict[Place, list[Place]] = defaultdict(list)
    warned: dict[Place, list[Place]] = defaultdict(list)
    for outer, inner in pairs(places):
        if outer.metastore != inner.metastore:
            for ours, other in ((outer, inner), (inner, outer)):
                if ours.metastore is None and ours.is_transactional:
                    refused[ours].append(other)
            continue
        if outer.metastore is not None:
            continue
        if outer.table == inner.table:
            mine = [one for one in (outer, inner) if one.is_transactional and one.partition is not None]
            for one in mine:
                refused[one].append(inner if one is outer else outer)
            continue
        is_same = outer.location == inner.location
        if outer.is_transactional and (inner.is_transactional or not is_same):
            refused[outer].append(inner)
        if inner.is_transactional:
            (refused if outer.is_transactional else warned)[inner].append(outer)
        elif is_same and outer.is_transactional:
            warned[outer].append(inner)
    return Overlaps(refused=_reasons(refused), warned=_reasons(warned))


def pairs(places: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
    """Yields each place with every other one that lies at or inside it, but for a table's own partitions below it."""
    around: list[Place] = []
    for place in sorted(places, key=lambda one: (f"{one.location}/", one.partition is not None, one.name)):
        while around and not _holds(around[-1], place):
            around.pop()
        for outer in around:
            if not _is_its_own(outer, place):
                yield outer, place
        around.append(place)


def touches(one: Place, other: Place) -> bool:
    """Returns true if the one lies at, around or inside the other."""
    return _holds(one, other) or _holds(other, one)


def _holds(outer: Place, inner: Place) -> bool:
    return outer.location == inner.location or is_inside(inner.location, outer.location)


def _is_its_own(outer: Place, inner: Place) -> bool:
    return outer.table == inner.table and outer.partition is None and outer.location != inner.location


def _reasons(found: Mapping[Place, Sequence[Place]]) -> Mapping[Key, str]:
    return MappingProxyType({place.key: _reason(place, others) for place, others in found.items()})


def _reason(place: Place, others: Sequence[Place]) -> str:
    listed = "; ".join(f"{other} {_relation(place, other)} ({other.location})" for other in others[:_FEW])
    more = f"; and {len(others) - _FEW} more" if len(others) > _FEW else ""
    return (
        f"{place}: does not have its directory {place.location} to itself: {listed}{more}; tables in one directory destroy "
        "each other, so nothing is compacted or removed there; move one of them, or drop what is not needed"
    )


def _relation(place: Place, other: Place) -> str:
    if place.location == other.location:
        return "lies there too"
    return "lies inside it" if is_inside(other.location, place.location) else "lies around it"
