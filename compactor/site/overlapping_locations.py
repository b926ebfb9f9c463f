"""The locations of all tables and partitions, and which of them overlap (PROTOCOL 11.13).

They are read once for a pass, and again after a minute in a longer pass.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from compactor.base.errors import CompactorError, failing_alone
from compactor.compaction.location_overlaps import (
    ALL_OTHERS,
    MOST_COVERS,
    Overlaps,
    Place,
    common_spelling,
    find_covers,
    find_overlaps,
    is_overlapping,
    map_aliases,
    normalise_location,
    overlapping_pairs,
)
from compactor.site.other_metastores import OtherMetastores
from compactor.storage.places import whole_location

if TYPE_CHECKING:
    from compactor.metastore.catalog.locations import Locations, PartitionGround, TableGround
    from compactor.metastore.catalog.values import PartitionPlace, Table
    from compactor.storage.protocol import Storage

_FRESH_S = 60.0  #: the shortest time after which locations are read again
_NEW = -1  #: stands for the id of a table that has none yet
_MIRROR = 0  #: stands for a mirror; no table has this id
_OF_OTHERS = -2  #: ids of other metastores' tables count down from here
_SHARE = 20  #: reading locations takes at most 1/20 of a pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The overlaps as they were read, valid until ``until``.

    ``elsewhere`` has the hashes of partitions that do not lie at their default location.
    """

    until: float
    overlaps: Overlaps
    tables: Mapping[int, TableGround]
    elsewhere: Collection[int]

    def has(self, table: Table, partition: PartitionPlace | None) -> bool:
        """Returns true if table and partition had the same location and kind when this was read."""
        known = self.tables.get(table.id)
        if known is None or (known.location, known.is_transactional) != (table.location, table.is_transactional):
            return False
        if partition is None or partition.location == f"{table.location}/{partition.name}":
            return True
        return hash((table.id, partition.name, partition.location)) in self.elsewhere


class Ground:
    """The overlaps among tables and partitions of a metastore, and with those of ``others``."""

    def __init__(self, locations: Locations, storage: Storage, others: OtherMetastores | None = None) -> None:
        self._locations = locations
        self._others = others or OtherMetastores()
        self._storage = storage
        self._aliases = map_aliases(_clusters(storage))
        self._azure = storage.options.of_place("abfs", "")
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._raw: Mapping[int, TableGround] = {}  # tables as they are stored
        self._elsewhere: set[int] = set()

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns why a table or partition, by TBL_ID and PART_NAME, must be left alone.

        Returns None without a reason.
        """
        return self._current().overlaps.refusal(table, partition)

    def refusal_of(self, table: Table, partition: PartitionPlace | None) -> str | None:
        """Returns the same for a table or partition that is about to be compacted or cleaned.

        Reads the locations again if it was created, moved or made transactional since. Otherwise somebody could wait for a
        long pass to begin, and then give a table the directory of another one.
        """
        known = self._current()
        if not known.has(table, partition):
            known = self._current(instead_of=known)
        name = None if partition is None else partition.name
        if not known.has(table, partition):
            return f"{table}{f'/{name}' if name else ''}: was created or moved just now; the next pass looks again"
        return known.overlaps.refusal(table.id, name)

    def refusal_of_new(self, name: str, location: str) -> str | None:
        """Returns the same for an ACID table about to be created, compared with all tables and partitions."""
        tables = self._tables()
        place = Place(table=_NEW, name=name, location=self._normalise(location), is_transactional=True)
        every = [*tables.values(), *self._places(tables, self._locations.partitions()), place]
        return find_overlaps([*every, *self._of_others()]).refusal(_NEW, None)

    def refusal_of_mirror(self, location: str, identifier: str, others: Mapping[str, str]) -> str | None:
        """Returns which table, partition or other mirror overlaps a mirror's directory; None if none does.

        See PROTOCOL 15.1.

        Args:
            identifier: the mirror's table; a Hive catalog lists it among the tables of its metastore.
            others: the locations of other mirrors, by what they are.
        """
        mirror = Place(table=_MIRROR, name=identifier, location=self._normalise(location))
        tables = self._tables()
        elsewhere = self._places_elsewhere(tables, self._locations.partitions_elsewhere(_near([mirror])))
        mirrors = [
            Place(table=_NEW, name=name, location=self._normalise(place), is_transactional=True)
            for name, place in others.items()
        ]
        for outer, inner in overlapping_pairs([*tables.values(), *elsewhere, *self._of_others(), *mirrors, mirror]):
            if mirror in (outer, inner):
                other = inner if outer == mirror else outer
                if other.is_transactional or (other.name, other.location) != (identifier, mirror.location):
                    return f"{identifier}: {location} overlaps {other.location}, the directory of {other}"
        return None

    def refusal_of_abandoned(self, name: str, location: str) -> str | None:
        """Returns the same for a directory that a table of ours has left, compared with other metastores only."""
        place = Place(table=_NEW, name=name, location=self._normalise(location), is_transactional=True)
        return find_overlaps([place, *self._of_others()]).refusal(_NEW, None)

    def refusal_anywhere(self, table: int) -> str | None:
        """Returns why a table or one of its partitions must be left alone; None without a reason."""
        return self._current().overlaps.refusal_anywhere(table)

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is left alone."""
        return self._current().overlaps.is_clear(table)

    def _current(self, instead_of: _Known | None = None) -> _Known:
        """Returns the known overlaps; reads them again if they are old, or if they are still ``instead_of``."""
        with self._lock:
            started = time.monotonic()
            if self._known is None or started > self._known.until or self._known is instead_of:
                self._elsewhere = set()
                usual = self._compare_usual()
                until = started + max(_FRESH_S, (time.monotonic() - started) * _SHARE)
                self._known = _Known(until=until, overlaps=usual, tables=self._raw, elsewhere=self._elsewhere)
            return self._known

    def everything(self) -> Overlaps:
        """Returns the overlaps after comparing every partition of every table: for a person who waits for it."""
        tables = self._tables()
        return find_overlaps(
            [*tables.values(), *self._places(tables, self._locations.partitions()), *self._of_others()]
        )

    def _compare_usual(self) -> Overlaps:
        """Returns the same at a lower cost.

        Nearly all partitions lie at their default location, below their table under their own name. They are compared only
        where another location may be near.
        """
        tables, locations = self._tables(), self._locations
        ours = [place for place in tables.values() if place.is_transactional]
        if not ours:
            return Overlaps()
        near = _near(ours)
        elsewhere = list(self._places_elsewhere(tables, locations.partitions_elsewhere(near)))
        far = _near([*ours, *(place for place in elsewhere if place.is_transactional)])
        if far != near:  # partitions of ours lie far from their tables; others may be near them
            near = far
            elsewhere = list(self._places_elsewhere(tables, locations.partitions_elsewhere(near)))
        places = [*tables.values(), *elsewhere]
        entangled = {
            place.table for place in elsewhere if place.is_transactional and is_overlapping(place, tables[place.table])
        }
        around = {
            outer.table
            for outer, inner in overlapping_pairs(places)
            if outer.partition is None and inner.is_transactional and not outer.is_transactional
        }
        more = [*locations.partitions_of(entangled), *locations.partitions_of(around - entangled, near)]
        places += self._places(tables, iter(more))
        return find_overlaps([*{place.key: place for place in places}.values(), *self._of_others()])

    def _of_others(self) -> Iterator[Place]:
        """Yields the tables of other metastores, and all their partitions outside of the default location.

        A link or an escape may hide that a location is near ours, so each is normalised and compared.

        Raises:
            DatabaseUnavailable: one of these metastores cannot be asked.
        """
        number = _OF_OTHERS
        for metastore, locations in self._others.locations():
            tables = {table.id: table for table in locations.tables()}
            places: dict[int, Place] = {}
            for table in tables.values():
                places[table.id] = Place(
                    table=number,
                    name=table.name,
                    location=self._normalise(table.location),
                    is_transactional=table.is_transactional,
                    metastore=metastore,
                )
                number -= 1
            yield from places.values()
            for ground in locations.partitions_elsewhere([""]):
                if (of_table := places.get(ground.table)) is not None:
                    location = self._normalise(ground.location, tables[ground.table].location)
                    yield replace(of_table, partition=ground.name, location=location)

    def _places_elsewhere(self, tables: Mapping[int, Place], partitions: Iterator[PartitionGround]) -> Iterator[Place]:
        """Yields the partitions that do not lie at their default location, however it is spelled."""
        for place in self._places(tables, self._remember_unusual(partitions)):
            if place.location != normalise_location(f"{tables[place.table].location}/{place.partition}"):
                yield place

    def _remember_unusual(self, partitions: Iterator[PartitionGround]) -> Iterator[PartitionGround]:
        for partition in partitions:
            self._elsewhere.add(hash((partition.table, partition.name, partition.location)))
            yield partition

    def _tables(self) -> dict[int, Place]:
        tables = self._locations.tables()
        self._raw = {table.id: table for table in tables}
        return {
            table.id: Place(
                table=table.id,
                name=table.name,
                location=self._normalise(table.location),
                is_transactional=table.is_transactional,
            )
            for table in tables
        }

    def _places(self, tables: Mapping[int, Place], partitions: Iterator[PartitionGround]) -> Iterator[Place]:
        for partition in partitions:
            of_table = tables.get(partition.table)
            if of_table is not None:
                yield Place(
                    table=partition.table,
                    name=of_table.name,
                    partition=partition.name,
                    location=self._normalise(partition.location, self._raw[partition.table].location),
                    is_transactional=of_table.is_transactional,
                )

    def _normalise(self, location: str, within: str | None = None) -> str:
        """Returns the normalised location, with links on the way to it followed where the store can tell."""
        resolved = location
        # An unknown store, or a location that cannot be resolved: compare it as it is written.
        with suppress(CompactorError), failing_alone(location):
            resolved = self._storage.resolve(location, within=within)
        return normalise_location(whole_location(resolved, self._azure), aliases=self._aliases)


def _near(places: Iterable[Place]) -> list[str]:
    """Returns texts of which every location near ``places`` contains one.

    Returns only the empty text, which every location contains, if there would be too many for one SQL statement.
    """
    prefixes = find_covers(place.location for place in places)
    return [""] if len(prefixes) > MOST_COVERS else [common_spelling(cover) for cover in prefixes]


def _clusters(storage: Storage) -> Mapping[str, Sequence[str]]:
    """Returns the addresses of each HDFS cluster that the configuration names.

    With a URL for all of HDFS, requests go there whatever authority a location has.
    """
    clusters = {ALL_OTHERS: storage.options.of_place("hdfs", "")} | dict(storage.options.of_kind("hdfs"))
    addresses: dict[str, Sequence[str]] = {}
    for name, options in clusters.items():
        urls = options.get("url") or []
        if urls or name != ALL_OTHERS:
            addresses[name] = [urlsplit(url).netloc for url in ([urls] if isinstance(urls, str) else urls)]
    return {name: hosts or addresses.get(ALL_OTHERS, []) for name, hosts in addresses.items()}
