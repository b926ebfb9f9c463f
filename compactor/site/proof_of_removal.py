"""Looks for the writes of aborted transactions wherever they may be, and doubts a location that is empty (PROTOCOL 11.11).

Once forgotten, an aborted write counts as committed. So it is forgotten only if it is seen to be nowhere: an empty directory
may be a mount point whose file system is away.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import CompactorError, Disagreement, StorageError, failing_alone
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.compaction.forgetting_aborts import write_ids_below
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target
from compactor.state.seen_locations import KnownPlace

log = logging.getLogger(__name__)
_WITNESSES = 20  #: places that are tried, nearest first, before a volume counts as away
_REFRESH_MS = 86_400_000  #: a place that is still the same is stored again after this time
_LOCATION = "location"  #: the property of a soft-deleted table's or partition's request


class Absence:
    """The places that one pass has looked through. ``remember`` keeps them for the next one."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._seen: dict[str, str | None] = {}  # identities by location, of those that held data
        self._known: Mapping[str, KnownPlace] | None = None
        self._present: set[str] = set()  # volumes that a remembered place was seen on

    def look(self, path: str) -> None:
        """Sees what a location holds before something is removed there: it may be empty afterwards."""
        self._looked_through(path)

    def of_table(self, table: Table, write_ids: Collection[WriteId]) -> dict[WriteId, str]:
        """Returns those of ``write_ids`` that must not be forgotten, each with the reason.

        The table's directory is searched as deep as it goes, and every location of its partitions elsewhere. Whatever
        cannot be looked through keeps all of them.
        """
        return self._searched(write_ids, self._trees_of_table(table))

    def of_target(self, target: Target, write_ids: Collection[WriteId]) -> dict[WriteId, str]:
        """Returns the same for writes that can only be in one partition, or in a table without partitions."""
        return self._searched(write_ids, self._trees_of_target(target))

    def remember(self) -> None:
        """Stores the places that held data, if they are new, other directories, or were not stored for a day."""
        if self._site.state is None or not self._seen:
            return
        known, now = self._places(), self._site.metastore.now_ms()
        changed = {
            path: KnownPlace(identity=identity, at=now)
            for path, identity in self._seen.items()
            if (before := known.get(path)) is None or before.identity != identity or now - before.at > _REFRESH_MS
        }
        self._site.state.places.remember(self._site.name, changed)

    def _searched(self, write_ids: Collection[WriteId], trees: Iterator[tuple[str, Tree]]) -> dict[WriteId, str]:
        kept: dict[WriteId, str] = {}
        if not write_ids:
            return kept
        try:
            with failing_alone("a table whose aborted writes are looked for"):
                for path, tree in trees:
                    kept.update((w, f"{path}/{found}") for w, found in write_ids_below(tree, write_ids).items())
        except CompactorError as error:
            log.warning("aborted transactions are not forgotten: %s", error)
            return dict.fromkeys(write_ids, str(error))
        return kept

    def _trees_of_target(self, target: Target) -> Iterator[tuple[str, Tree]]:
        tree = self._looked_through(target.location)
        _must_have_no_links(target.location, tree)
        self._must_not_be_put_aside(target.entity, [target.location])
        yield target.location, tree

    def _trees_of_table(self, table: Table) -> Iterator[tuple[str, Tree]]:
        storage = self._site.storage
        root = storage.resolve(table.location)
        tree = self._looked_through(root)
        locations = self._site.metastore.catalog.locations(table) if table.partition_keys else {}
        partitions = {storage.resolve(location, within=table.location) for location in locations.values()}
        inside = {path[len(root) + 1 :] for path in partitions if path.startswith(f"{root}/")}
        _must_have_no_links(root, tree)
        self._must_all_be_there(root, tree, inside)
        elsewhere = sorted(partitions - {f"{root}/{path}" for path in inside} - {root})
        self._must_not_be_put_aside(Entity(database=table.database, table=table.name), [root, *elsewhere])
        yield root, tree
        for path in elsewhere:
            yield path, self._looked_through(path)

    def _must_all_be_there(self, root: str, tree: Tree, inside: Collection[str]) -> None:
        """Checks that the directory of each partition below ``root`` is there, and is the one that held data before.

        Raises:
            Disagreement: one is missing, or is empty and another one than before.
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
        """Checks that no soft-deleted data of ``entity`` waits elsewhere than below ``places``, which are looked through.

        What is in quarantine lies below them, hidden. A request's property is anybody's, so no other place is entered.

        Raises:
            Disagreement: some does.
        """
        storage, queue = self._site.storage, self._site.metastore.entries.queue
        for entry in queue(database=entity.database, table=entity.table, partition=entity.partition):
            location = entry.properties.get(_LOCATION)
            if location and not any(f"{storage.resolve(location)}/".startswith(f"{path}/") for path in places):
                raise Disagreement(
                    f"{entry.entity}: compaction {entry.id} is to remove soft-deleted data at {location}, where aborted "
                    "writes may be; they are forgotten once it is done; let Hive's cleaner do it"
                )

    def _looked_through(self, path: str) -> Tree:
        """Returns everything below ``path``, which is a location in the catalog.

        Raises:
            Disagreement: it is empty, and may be something else than what was there.
            BadFile: it is missing.
            StorageError: it cannot be looked through.
        """
        tree = self._site.storage.tree(path)
        if tree.is_bare:
            self._must_be_empty(path, tree.anchor)
        else:
            self._seen[path] = tree.anchor.identity
        return tree

    def _must_be_empty(self, path: str, found: Anchor | None) -> None:
        """Checks that an empty location is the one that once held data, or that its mount or bucket is there at all."""
        if found is None:
            raise StorageError(f"{path}: was listed and has gone; the next pass looks again")
        known = self._places().get(path)
        before = self._seen.get(path) or (known.identity if known is not None else None)
        if before is not None:
            if before == found.identity:
                return
            raise Disagreement(
                f"{path}: is empty, and is another directory than the one that held data there before; its file system may "
                "be away, and aborted rows on it would count as committed once their transaction is forgotten; mount it, "
                "or let somebody write there or drop what is gone"
            )
        if not self._is_present(found.volume, path):
            raise Disagreement(
                f"{path}: is empty, and nothing that was seen before is seen on {found.volume}; its file system may be "
                "away, and aborted rows on it would count as committed once their transaction is forgotten; mount it; if "
                "all is well, this ends when any table there holds data"
            )

    def _is_present(self, volume: str, path: str) -> bool:
        """Returns true if a place remembered from an earlier pass is seen on ``volume``, as it was."""
        if volume not in self._present:
            others = [(other, place) for other, place in self._places().items() if other != path]
            others.sort(key=lambda one: -_common(one[0], path))
            if any(self._is_seen(other, place, volume) for other, place in others[:_WITNESSES]):
                self._present.add(volume)
        return volume in self._present

    def _is_seen(self, path: str, place: KnownPlace, volume: str) -> bool:
        try:
            found = self._site.storage.anchor(path)
        except CompactorError:
            return False
        return found == Anchor(volume=volume, identity=place.identity)

    def _places(self) -> Mapping[str, KnownPlace]:
        if self._known is None:
            state = self._site.state
            self._known = {} if state is None else state.places.known(self._site.name)
        return self._known


def _common(one: str, other: str) -> int:
    """Returns the number of names in which two paths agree from the beginning."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.split("/"), other.split("/"), strict=False))
    )


def _must_have_no_links(root: str, tree: Tree) -> None:
    """Checks that there is no link in ``tree``: none is followed (PROTOCOL 11.13).

    Raises:
        Disagreement: there is one; what it leads to may hold aborted writes.
    """
    for link in tree.links:
        raise Disagreement(
            f"{root}/{link}: is a link; what it leads to is not looked through, and may hold aborted writes; move it out of "
            "the table"
        )
