"""The ground of every table: read once for a pass, and again after a minute in one that takes longer (PROTOCOL 11.13)."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from compactor.base.errors import CompactorError, failing_alone
from compactor.compaction.location_overlaps import Overlaps, Place, overlaps, pairs, touches
from compactor.compaction.location_text import ALL_OTHERS, MOST_COVERS, aliases_of, covers, normalised, spelling
from compactor.metastore.catalog.all_locations import Grounds, PartitionGround, TableGround
from compactor.metastore.catalog.values import PartitionPlace, Table
from compactor.site.other_metastores import OtherMetastores
from compactor.storage.places import whole_location
from compactor.storage.protocol import Storage

_FRESH_S = 60.0  #: for how long it is not read again, at least
_NEW = -1  #: stands for the id of a table that has none yet
_OF_OTHERS = -2  #: ids of other metastores' tables go down from here
_SHARE = 20  #: reading it takes at most one part of so many of a pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The overlaps as they were read, good ``until`` then. ``elsewhere`` has the hashes of partitions that do not lie where
    their table and their name say."""

    until: float
    overlaps: Overlaps
    tables: Mapping[int, TableGround]
    elsewhere: Collection[int]

    def has(self, table: Table, partition: PartitionPlace | None) -> bool:
        """Returns true if table and partition lay where they lie, and as what they are, when this was read."""
        known = self.tables.get(table.id)
        if known is None or (known.location, known.is_transactional) != (table.location, table.is_transactional):
            return False
        if partition is None or partition.location == f"{table.location}/{partition.name}":
            return True
        return hash((table.id, partition.name, partition.location)) in self.elsewhere


class Ground:
    """The overlaps among tables and partitions of a metastore, by what the metastore says now, and with those of
    ``others``."""

    def __init__(self, grounds: Grounds, storage: Storage, others: OtherMetastores | None = None) -> None:
        self._grounds = grounds
        self._others = others or OtherMetastores()
        self._storage = storage
        self._aliases = aliases_of(_clusters(storage))
        self._azure = storage.options.of_place("abfs", "")
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._raw: Mapping[int, TableGround] = {}  # tables as they are stored
        self._elsewhere: set[int] = set()

    def refusal(self, table: int, partition: str | None) -> str | None:
        """Returns the reason why a table or partition, by its TBL_ID and PART_NAME, is left alone; None if there is none."""
        return self._current().overlaps.refusal(table, partition)

    def refusal_of(self, table: Table, partition: PartitionPlace | None) -> str | None:
        """Returns the same for what is about to be worked on. If it was made, moved or made transactional since the ground
        was read, that is read again: whoever waits for a long pass to begin must not slip another's directory under it."""
        found = self._current()
        if not found.has(table, partition):
            found = self._current(instead_of=found)
        name = None if partition is None else partition.name
        if not found.has(table, partition):
            return f"{table}{f'/{name}' if name else ''}: was made or moved just now; the next pass looks again"
        return found.overlaps.refusal(table.id, name)

    def refusal_of_new(self, name: str, location: str) -> str | None:
        """Returns the same for an ACID table that is not in the metastore yet, compared with every table and partition."""
        tables = self._tables()
        place = Place(table=_NEW, name=name, location=self._normalised(location), is_transactional=True)
        every = [*tables.values(), *self._places(tables, self._grounds.partitions()), place]
        return overlaps([*every, *self._of_others(_near([place]))]).refusal(_NEW, None)

    def is_clear(self, table: int) -> bool:
        """Returns true if neither the table nor any of its partitions is left alone."""
        return self._current().overlaps.is_clear(table)

    def _current(self, instead_of: _Known | None = None) -> _Known:
        """Returns what is known, read again if it is old, or if it is still ``instead_of``."""
        with self._lock:
            started = time.monotonic()
            if self._known is None or started > self._known.until or self._known is instead_of:
                self._elsewhere = set()
                found = self._usual()
                until = started + max(_FRESH_S, (time.monotonic() - started) * _SHARE)
                self._known = _Known(until=until, overlaps=found, tables=self._raw, elsewhere=self._elsewhere)
            return self._known

    def everything(self) -> Overlaps:
        """Returns what overlaps, with every partition of every table compared: for a person who waits for it."""
        tables = self._tables()
        return overlaps([*tables.values(), *self._places(tables, self._grounds.partitions()), *self._of_others(None)])

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
        return overlaps([*{place.key: place for place in places}.values(), *self._of_others(near)])

    def _of_others(self, near: Collection[str] | None) -> Iterator[Place]:
        """Yields the tables of other metastores, and those partitions that do not lie below their tables: of plain tables
        only those with one of ``near`` in their location, or all of them for None.

        Raises:
            DatabaseUnavailable: one of these metastores cannot be asked.
        """
        number = _OF_OTHERS
        for metastore, grounds in self._others.grounds():
            tables = {table.id: table for table in grounds.tables()}
            places: dict[int, Place] = {}
            for table in tables.values():
                places[table.id] = Place(
                    table=number,
                    name=table.name,
                    location=self._normalised(table.location),
                    is_transactional=table.is_transactional,
                    metastore=metastore,
                )
                number -= 1
            yield from places.values()
            for one in grounds.partitions() if near is None else grounds.partitions_elsewhere(near):
                if (of_table := places.get(one.table)) is not None:
                    location = self._normalised(one.location, tables[one.table].location)
                    yield replace(of_table, partition=one.name, location=location)

    def _unusual(self, tables: Mapping[int, Place], found: Iterator[PartitionGround]) -> Iterator[Place]:
        """Yields what is only spelt otherwise than its table no more than what is where it is expected."""
        for place in self._places(tables, self._remembered(found)):
            if place.location != normalised(f"{tables[place.table].location}/{place.partition}"):
                yield place

    def _remembered(self, found: Iterator[PartitionGround]) -> Iterator[PartitionGround]:
        for one in found:
            self._elsewhere.add(hash((one.table, one.name, one.location)))
            yield one

    def _tables(self) -> dict[int, Place]:
        found = self._grounds.tables()
        self._raw = {table.id: table for table in found}
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
                    location=self._normalised(one.location, self._raw[one.table].location),
                    is_transactional=of_table.is_transactional,
                )

    def _normalised(self, location: str, within: str | None = None) -> str:
        """Returns the normalised location, with links on the way to it followed where the store can tell."""
        resolved = location
        # of a store that we do not know, or nothing that could be resolved: whatever it is, the ground is everybody's
        with suppress(CompactorError), failing_alone(location):
            resolved = self._storage.resolve(location, within=within)
        return normalised(whole_location(resolved, self._azure), aliases=self._aliases)


def _near(places: Iterable[Place]) -> list[str]:
    """Returns what the locations of everything near ``places`` have in them: nothing in particular if they are everywhere,
    since no database takes a question with thousands of parts."""
    found = covers(place.location for place in places)
    return [""] if len(found) > MOST_COVERS else [spelling(cover) for cover in found]


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
