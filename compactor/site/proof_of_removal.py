"""Proves that no directory holds the writes of an aborted transaction any longer (PROTOCOL 11.11).

Once forgotten, an aborted write counts as committed. So it is forgotten only after a search of every place where it may be.
An empty location proves nothing by default: it may be a mount point whose file system is away.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import CompactorError, Disagreement, StorageError, failing_alone
from compactor.base.ids import WriteId
from compactor.compaction.forgetting_aborts import write_ids_below
from compactor.compaction.queue_entry import LOCATION, Entity
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target
from compactor.state.sightings import KnownPlace

log = logging.getLogger(__name__)
_WITNESSES = 20  #: remembered places that are tried, nearest first, before a volume counts as away
_REFRESH_MS = 86_400_000  #: an unchanged place is stored again after this time


class RemovalProof:
    """The places that one pass has searched. ``remember`` stores them for the next pass."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._seen: dict[str, str | None] = {}  # identities by location, of those that held data
        self._known: Mapping[str, KnownPlace] | None = None
        self._present: set[str] = set()  # volumes that a remembered place was seen on

    def look(self, path: str) -> None:
        """Notes that a location holds data, before a removal may empty it."""
        self._look_through(path)

    def of_table(self, table: Table, write_ids: Collection[WriteId]) -> dict[WriteId, str]:
        """Returns the write IDs that must not be forgotten, each with the reason.

        Searches the whole tree below the table's directory, and every location of its partitions elsewhere. If a place
        cannot be searched, all write IDs are kept.
        """
        return self._search(write_ids, self._trees_of_table(table))

    def of_target(self, target: Target, write_ids: Collection[WriteId]) -> dict[WriteId, str]:
        """Returns the same for writes that can only be in one partition, or in a table without partitions."""
        return self._search(write_ids, self._trees_of_target(target))

    def remember(self) -> None:
        """Stores the places that held data, if they are new, were replaced, or were not stored for a day."""
        if self._site.state is None or not self._seen:
            return
        known, now = self._places(), self._site.metastore.now_ms()
        changed = {
            path: KnownPlace(identity=identity, at=now)
            for path, identity in self._seen.items()
            if (before := known.get(path)) is None or before.identity != identity or now - before.at > _REFRESH_MS
        }
        self._site.state.sightings.record_locations(self._site.name, changed)

    def _search(self, write_ids: Collection[WriteId], trees: Iterator[tuple[str, Tree]]) -> dict[WriteId, str]:
        kept: dict[WriteId, str] = {}
        if not write_ids:
            return kept
        try:
            with failing_alone("a table whose aborted writes are looked for"):
                for path, tree in trees:
                    kept.update((w, f"{path}/{name}") for w, name in write_ids_below(tree, write_ids).items())
        except CompactorError as error:
            log.warning("aborted transactions are not forgotten: %s", error)
            return dict.fromkeys(write_ids, str(error))
        return kept

    def _trees_of_target(self, target: Target) -> Iterator[tuple[str, Tree]]:
        tree = self._look_through(target.location)
        _must_have_no_links(target.location, tree)
        self._must_not_be_put_aside(target.entity, [target.location])
        yield target.location, tree

    def _trees_of_table(self, table: Table) -> Iterator[tuple[str, Tree]]:
        storage = self._site.storage
        root = storage.resolve(table.location)
        tree = self._look_through(root)
        locations = self._site.metastore.catalog.locations(table) if table.partition_keys else {}
        partitions = {storage.resolve(location, within=table.location) for location in locations.values()}
        inside = {path[len(root) + 1 :] for path in partitions if path.startswith(f"{root}/")}
        _must_have_no_links(root, tree)
        self._must_all_be_there(root, tree, inside)
        elsewhere = sorted(partitions - {f"{root}/{path}" for path in inside} - {root})
        self._must_not_be_put_aside(Entity(database=table.database, table=table.name), [root, *elsewhere])
        yield root, tree
        for path in elsewhere:
            yield path, self._look_through(path)

    def _must_all_be_there(self, root: str, tree: Tree, inside: Collection[str]) -> None:
        """Checks that the directory of each partition below ``root`` exists, and is the known one.

        Raises:
            Disagreement: one is missing, or is empty and was replaced.
        """
        there = set(tree.directories)
        has_directories = self._site.storage.capabilities(root).renames  # elsewhere no directory is empty
        for path in sorted(inside):
            if has_directories and path not in there:
                raise Disagreement(
                    f"{root}/{path}: the metastore names it and it does not exist; restore it, or drop the partition"
                )
            if f"{root}/{path}" in self._places() and tree.is_bare_at(path):
                self._must_be_empty(f"{root}/{path}", self._site.storage.anchor(f"{root}/{path}"))

    def _must_not_be_put_aside(self, entity: Entity, places: Collection[str]) -> None:
        """Checks that soft-deleted data of ``entity`` lies below ``places``, which are searched.

        Quarantined directories are hidden below them. Anybody can set a request's property, so no other place is searched.

        Raises:
            Disagreement: soft-deleted data lies elsewhere.
        """
        storage, queue = self._site.storage, self._site.metastore.entries.queue
        for entry in queue(database=entity.database, table=entity.table, partition=entity.partition):
            location = entry.properties.get(LOCATION)
            if location and not any(f"{storage.resolve(location)}/".startswith(f"{path}/") for path in places):
                raise Disagreement(
                    f"{entry.entity}: compaction {entry.id} is to remove soft-deleted data at {location}, where aborted "
                    "writes may be; they are forgotten once it is done; let Hive's cleaner do it"
                )

    def _look_through(self, path: str) -> Tree:
        """Returns everything below ``path``, which is a location in the catalog.

        Raises:
            Disagreement: it is empty, and may not be the directory that was there before.
            BadFile: it is missing.
            StorageError: it cannot be searched.
        """
        tree = self._site.storage.tree(path)
        if tree.is_bare:
            self._must_be_empty(path, tree.anchor)
        else:
            self._seen[path] = tree.anchor.identity
        return tree

    def _must_be_empty(self, path: str, anchor: Anchor | None) -> None:
        """Checks that an empty location once held data, or that its mount or bucket is present."""
        if anchor is None:
            raise StorageError(f"{path}: was listed and has gone; the next pass looks again")
        known = self._places().get(path)
        before = self._seen.get(path) or (known.identity if known is not None else None)
        if before is not None:
            if before == anchor.identity:
                return
            raise Disagreement(
                f"{path}: is empty, and is another directory than the one that held data there before; its file system may "
                "be away, and aborted rows on it would count as committed once their transaction is forgotten; mount it, "
                "or let somebody write there or drop what is gone"
            )
        if not self._is_present(anchor.volume, path):
            raise Disagreement(
                f"{path}: is empty, and nothing that was seen before is seen on {anchor.volume}; its file system may be "
                "away, and aborted rows on it would count as committed once their transaction is forgotten; mount it; if "
                "all is well, this ends when any table there holds data"
            )

    def _is_present(self, volume: str, path: str) -> bool:
        """Returns true if an unchanged place of an earlier pass is on ``volume``."""
        if volume not in self._present:
            others = [(other, place) for other, place in self._places().items() if other != path]
            others.sort(key=lambda pair: -_common(pair[0], path))
            if any(self._is_seen(other, place, volume) for other, place in others[:_WITNESSES]):
                self._present.add(volume)
        return volume in self._present

    def _is_seen(self, path: str, place: KnownPlace, volume: str) -> bool:
        try:
            anchor = self._site.storage.anchor(path)
        except CompactorError:
            return False
        return anchor == Anchor(volume=volume, identity=place.identity)

    def _places(self) -> Mapping[str, KnownPlace]:
        if self._known is None:
            state = self._site.state
            self._known = {} if state is None else state.sightings.locations(self._site.name)
        return self._known


def _common(path: str, other: str) -> int:
    """Returns the number of leading names that two paths share."""
    return sum(
        1 for _ in takewhile(lambda path: path[0] == path[1], zip(path.split("/"), other.split("/"), strict=False))
    )


def _must_have_no_links(root: str, tree: Tree) -> None:
    """Checks that ``tree`` contains no link, since links are not followed (PROTOCOL 11.13).

    Raises:
        Disagreement: there is a link; its target may hold aborted writes.
    """
    for link in tree.links:
        raise Disagreement(
            f"{root}/{link}: is a link; what it leads to is not looked through, and may hold aborted writes; move it out of "
            "the table"
        )
