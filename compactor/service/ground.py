"""The ground of every table: read once for a pass, and again after a minute in one that takes longer (PROTOCOL 11.13)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from compactor.compaction.locations import ALL_OTHERS, aliases_of, covers, normalised, spelling
from compactor.compaction.own_ground import Overlaps, Place, overlaps, pairs, touches
from compactor.errors import CompactorError
from compactor.metastore.catalog.grounds import Grounds, PartitionGround
from compactor.storage.places import whole_location
from compactor.storage.protocol import Storage

_FRESH_S = 60.0  #: for how long it is not read again, at least
_SHARE = 20  #: reading it takes at most one part of so many of a pass


class Ground:
    """The overlaps among tables and partitions of a metastore, by what the metastore says now."""

    def __init__(self, grounds: Grounds, storage: Storage) -> None:
        self._grounds = grounds
        self._storage = storage
        self._aliases = aliases_of(_clusters(storage))
        self._azure = storage.options.of_place("abfs", "")
        self._lock = threading.Lock()
        self._known: tuple[float, Overlaps] | None = None
        self._raw: Mapping[int, str] = {}  # locations of tables as they are stored

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns the reason why a table or partition, by its TBL_ID and PART_NAME, is left alone; None if there is none."""
        return self._current().refusal(table, partition)

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is left alone."""
        return self._current().is_clear(table)

    def _current(self) -> Overlaps:
        with self._lock:
            started = time.monotonic()
            if self._known is None or started > self._known[0]:
                found = self._usual()
                took = time.monotonic() - started
                self._known = started + max(_FRESH_S, took * _SHARE), found
            return self._known[1]

    def everything(self) -> Overlaps:
        """Returns what overlaps, with every partition of every table compared: for a person who waits for it."""
        tables = self._tables()
        return overlaps([*tables.values(), *self._places(tables, self._grounds.partitions())])

    def _usual(self) -> Overlaps:
        """Returns the same at a lower price: a partition that lies below its table under its own name, as nearly all do, is
        only compared where something else may lie beside it.
        """
        tables, grounds = self._tables(), self._grounds
        ours = [place for place in tables.values() if place.is_transactional]
        if not ours:
            return Overlaps()
        near = _near(ours)
        elsewhere = list(self._unusual(tables, grounds.partitions_elsewhere(near)))
        far = _near([*ours, *(place for place in elsewhere if place.is_transactional)])
        if far != near:  # partitions of ours lie far from their tables, and others' may lie beside them
            near = far
            elsewhere = list(self._unusual(tables, grounds.partitions_elsewhere(near)))
        places = [*tables.values(), *elsewhere]
        entangled = {one.table for one in elsewhere if one.is_transactional and touches(one, tables[one.table])}
        around = {
            outer.table
            for outer, inner in pairs(places)
            if outer.partition is None and inner.is_transactional and not outer.is_transactional
        }
        more = [*grounds.partitions_of(entangled), *grounds.partitions_of(around - entangled, near)]
        places += self._places(tables, iter(more))
        return overlaps({place.key: place for place in places}.values())

    def _unusual(self, tables: Mapping[int, Place], found: Iterator[PartitionGround]) -> Iterator[Place]:
        """Yields what is only spelt otherwise than its table no more than what is where it is expected."""
        for place in self._places(tables, found):
            if place.location != normalised(f"{tables[place.table].location}/{place.partition}"):
                yield place

    def _tables(self) -> dict[int, Place]:
        found = self._grounds.tables()
        self._raw = {table.id: table.location for table in found}
        return {
            table.id: Place(
                table=table.id,
                name=table.name,
                location=self._normalised(table.location),
                is_transactional=table.is_transactional,
            )
            for table in found
        }

    def _places(self, tables: Mapping[int, Place], found: Iterator[PartitionGround]) -> Iterator[Place]:
        for one in found:
            of_table = tables.get(one.table)
            if of_table is not None:
                yield Place(
                    table=one.table,
                    name=of_table.name,
                    partition=one.name,
                    location=self._normalised(one.location, self._raw[one.table]),
                    is_transactional=of_table.is_transactional,
                )

    def _normalised(self, location: str, within: str | None = None) -> str:
        """Returns the normalised location, with links on the way to it followed where the store can tell."""
        try:
            resolved = self._storage.resolve(location, within=within)
        except CompactorError:  # of a store that we do not know, or nothing that could be resolved
            resolved = location
        return normalised(whole_location(resolved, self._azure), aliases=self._aliases)


def _near(places: Iterable[Place]) -> list[str]:
    """Returns what the locations of everything near ``places`` have in them."""
    return [spelling(cover) for cover in covers(place.location for place in places)]


def _clusters(storage: Storage) -> Mapping[str, Sequence[str]]:
    """Returns the addresses of each HDFS cluster that the configuration names. With a URL for all of HDFS, requests go there
    whatever authority a location has."""
    found = {ALL_OTHERS: storage.options.of_place("hdfs", "")} | dict(storage.options.of_kind("hdfs"))
    addresses: dict[str, Sequence[str]] = {}
    for name, options in found.items():
        urls = options.get("url") or []
        if urls or name != ALL_OTHERS:
            addresses[name] = [urlsplit(url).netloc for url in ([urls] if isinstance(urls, str) else urls)]
    return {name: given or addresses.get(ALL_OTHERS, []) for name, given in addresses.items()}
