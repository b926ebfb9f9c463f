"""Finds write IDs and transactions in a table's directories that its metastore has never allocated.

See PROTOCOL 11.3.

Reads and writes check the names in the directory they use. But after a metastore was restored from an older copy, other
directories of the table, and of partitions that the copy does not know, may also hold numbers that it has forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from compactor.acid.partition_names import part_values
from compactor.base.errors import Disagreement, StorageError
from compactor.base.ids import WriteId
from compactor.compaction.disagreement import Numbers, find_doubts, must_agree
from compactor.compaction.forgetting_aborts import find_reaching_directory
from compactor.metastore.catalog.values import Partition, Table
from compactor.site.files_and_metastore import visibility_transactions
from compactor.site.site import Site, claims_of, path_of
from compactor.site.threads import SideBySide
from compactor.tables.transactions.loaded_tables import LoadedTable, find_loaded

if TYPE_CHECKING:
    from compactor.metastore.metastore import Metastore

log = logging.getLogger(__name__)
_MOST_LISTED = 64  #: directories on each level; the last ones by name, which are the newest if partitions are days
_MOST_NAMES = 1000  #: partitions on disk that are looked up in the catalog
_FRESH_S = 10.0  #: a table whose directories agreed is not checked again for this long
_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Agreed:
    at: float
    next_write_id: WriteId


#: By table id, and whether only partitions that the metastore does not know were checked.
_AGREED: WeakKeyDictionary[Metastore, dict[tuple[int, bool], _Agreed]] = WeakKeyDictionary()


def must_know_all_numbers(site: Site, table: Table) -> None:
    """Checks all of ``table`` before a number is allocated to write into it.

    A number that is allocated twice would bring lost rows back, or hide rows.

    Raises:
        NotFound: the table was renamed or dropped since it was loaded, so the numbers are those of another table.
        Disagreement: a directory has a number that the metastore has never allocated.
    """
    try:
        _check(site, table, only_unknown=False, concerns=lambda _: True)
    except Disagreement:
        find_loaded(site.metastore.catalog, LoadedTable.from_table(table))
        raise


def must_miss_no_partition(site: Site, table: Table, concerns: Callable[[Partition], bool]) -> None:
    """Checks the partitions that are on disk but unknown to the metastore.

    A scan that ``concerns`` such a partition would miss its rows. Others only get a warning in the log.

    Raises:
        Disagreement: such a partition holds numbers that the metastore has never allocated.
    """
    if table.is_partitioned:
        _check(site, table, only_unknown=True, concerns=concerns)


def note_write_id(site: Site, table: Table, write_id: WriteId) -> None:
    """Notes an allocated write ID, so that a database which would allocate it again is checked again."""
    agreed = _AGREED.get(site.metastore, {})
    for only_unknown in (False, True):
        last = agreed.get((table.id, only_unknown))
        if last is not None and last.next_write_id <= write_id:
            agreed[table.id, only_unknown] = replace(last, next_write_id=WriteId(write_id + 1))


def _check(site: Site, table: Table, *, only_unknown: bool, concerns: Callable[[Partition], bool]) -> None:
    metastore, started = site.metastore, time.monotonic()
    agreed, key = _AGREED.setdefault(metastore, {}), (table.id, only_unknown)
    last = agreed.get(key)
    if last is not None and started - last.at < _FRESH_S and _next(site, table) >= last.next_write_id:
        return
    directories = _directories(site, table, only_unknown=only_unknown)
    outputs = {txn for directory in directories for txn in visibility_transactions(directory.names).values()}
    numbers = Numbers(  # read after the listings (PROTOCOL 11.3.1)
        compactions={txn: row.type.compacts for txn, row in metastore.transactions.rows(outputs).items()},
        newest=metastore.transactions.newest(),
        next_write_id=_next(site, table),
        has_visibility=metastore.dialect.layout.has_visibility,
    )
    is_clean = True
    for directory in directories:
        in_doubt = tuple(find_doubts(directory.names, numbers))
        if in_doubt:  # they may be the numbers of another metastore, whose claim says more
            claims_of(site).must_be_free_in_and_around(table, directory.path, directory.names)
        if directory.unknown is None or concerns(directory.unknown):
            must_agree(directory.path, directory.names, numbers)
        for doubt in in_doubt:
            is_clean = False
            log.warning("%s: %s/%s: %s; its rows are not read", table, directory.path, doubt.name, doubt.because)
    if is_clean:
        agreed[key] = _Agreed(at=started, next_write_id=numbers.next_write_id)


def _next(site: Site, table: Table) -> WriteId:
    return site.metastore.write_ids.next(table.database, table.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    """A directory of deltas. ``unknown`` is the partition that it would be if the metastore knew it."""

    path: str
    names: tuple[str, ...]
    unknown: Partition | None = None


def _directories(site: Site, table: Table, *, only_unknown: bool) -> list[_Directory]:
    """Lists the directories of a table up to a limit, unknown partitions first."""
    root = path_of(site.storage, table, None)
    with SideBySide(_THREADS, "numbers-on-disk") as threads:
        if not table.is_partitioned:
            return [_Directory(path=root, names=_children(site, root))]
        names = _partitions_on_disk(site, table, root, threads)
        known = {part.name: part for part in site.metastore.catalog.partitions(table, names)} if names else {}
        chosen = sorted(names, key=known.__contains__)
        chosen = [name for name in chosen if not only_unknown or name not in known][:_MOST_LISTED]

        def list_partition(name: str) -> _Directory:
            partition = known.get(name)
            path = f"{root}/{name}" if partition is None else path_of(site.storage, table, partition)
            location = f"{table.location.rstrip('/')}/{name}"
            new = Partition(id=-1, name=name, location=location, values=part_values(name))
            return _Directory(path=path, names=_children(site, path), unknown=new if partition is None else None)

        return threads.map(list_partition, chosen)


def _partitions_on_disk(site: Site, table: Table, root: str, threads: SideBySide) -> list[str]:
    """Returns the names of partitions below ``root`` in descending order.

    For example ``day=2026-11-02/hour=3``.
    """
    names = [""]
    for key in table.partition_keys:
        begins = f"{key.name.lower()}="
        parents = names[:_MOST_LISTED]
        of_parents = threads.map(lambda parent: _children(site, f"{root}/{parent}" if parent else root), parents)
        names = [
            f"{parent}/{name}" if parent else name
            for parent, children in zip(parents, of_parents, strict=True)
            for name in reversed(children)
            if name.lower().startswith(begins)
        ][:_MOST_NAMES]
    return names


def _children(site: Site, path: str) -> tuple[str, ...]:
    """Returns the names in a directory; none if it cannot be listed, which its reader will report."""
    with suppress(StorageError):
        return site.storage.children(path)
    return ()


class UnusedWriteIds:
    """Locations that were checked for the write IDs of one or more transactions.

    Several transactions were opened together.
    """

    def __init__(self, site: Site) -> None:
        self._storage = site.storage
        self._claims = claims_of(site)
        self._names: dict[str, Collection[str]] = {}

    def look(self, table: Table, location: str) -> None:
        """Lists ``location``, a directory of ``table``, once, before a write ID is allocated.

        Also checks that no other table claims it (PROTOCOL 11.13). Subdirectories are not listed.

        Raises:
            BadFile: the location does not exist.
            Disagreement: another table claims it.
        """
        if location not in self._names:
            # if there are no children, only a listing shows whether the location exists
            names = self._storage.children(location) or self._storage.listing(location).directories
            self._claims.must_be_free_in_and_around(table, location, names)
            self._names[location] = names

    def check(self, what: str, table: Table, location: str, write_id: WriteId, last: WriteId | None = None) -> None:
        """Checks that nothing at ``location`` had this write ID when it was first listed.

        With ``last``, checks all write IDs up to it.

        Raises:
            StorageError: a directory there holds one of them, or hides it.
            BadFile, Disagreement: as for ``look``.
        """
        self.look(table, location)
        name = find_reaching_directory(self._names[location], write_id, last)
        if name is not None:
            raise StorageError(
                f"{what}: the metastore allocated write ID {write_id}, but {name} reaches it already; its database is older "
                "than the table's files (restored from a backup?); nothing was written, compare both before anybody writes "
                "again"
            )
