"""Partitions that a transaction writes into and that do not exist yet: they come into the catalog with its commit.

Until then the provisional component of the table stands for them, so that an aborted write is looked for in every directory
below the table (PROTOCOL 11.11). Hive adds them in transactions of their own, and a query may see them empty.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from compactor.acid.directory import acid_directory
from compactor.acid.partition_names import part_values
from compactor.base.errors import Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.new_partitions import NewPartition
from compactor.metastore.catalog.values import Partition, Table
from compactor.metastore.transactions.commit_rows import InTransaction
from compactor.metastore.transactions.write_id_rows import recording
from compactor.site.site import Site, path_of

if TYPE_CHECKING:
    from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList

_LONGEST_NAME, _LONGEST_VALUE = 767, 256  #: characters of PART_NAME and PART_KEY_VAL
_LONGEST_DIRECTORY = 255  #: bytes of a directory's name, in the usual file systems
_ALLOWED = "hive.metastore.partition.name.whitelist.pattern"


class AddedPartitions:
    """The partitions that one transaction adds."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._new: dict[Entity, NewPartition] = {}
        self._components: dict[tuple[Entity, str, WriteId], set[str]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._new)

    def of(self, table: Table) -> list[Partition]:
        """Returns those of ``table``."""
        return [_as_partition(new) for new in self._new.values() if new.table.id == table.id]

    @property
    def partitions(self) -> Mapping[Entity, NewPartition]:
        """All of them."""
        return dict(self._new)

    def take_back(self, before: Mapping[Entity, NewPartition]) -> None:
        """Forgets those that were added since ``partitions`` was ``before``; their empty directories stay."""
        self._new = dict(before)
        for of_statement, names in list(self._components.items()):
            names.intersection_update(one.partition or "" for one in before if one.table == of_statement[0].table)
            if not names:
                del self._components[of_statement]

    def add(self, table: Table, name: str, write_id: WriteId, seen: tuple[ValidTxnList, ValidWriteIdList]) -> Partition:
        """Makes the directory of a partition that does not exist, and returns the partition: that of somebody else, who has
        added it meanwhile.

        Args:
            seen: the snapshot of the transaction.

        Raises:
            Refused: its name is too long, or is none of those that the site allows.
            StorageError: its directory holds rows already, which nobody added to the table.
        """
        must_be_a_partition_name(self._site, table, name)
        must_fit_in_a_directory(table, name)
        new = NewPartition(table=table, name=name, location=f"{table.location.rstrip('/')}/{name}", write_id=write_id)
        root = path_of(self._site.storage, table, None)
        self._site.storage.make_directories(f"{root}/{name}", like=root)
        partition = _as_partition(new)
        if self._holds_rows(path_of(self._site.storage, table, partition), seen):
            if found := self._site.metastore.catalog.partitions(table, [name]):
                return found[0]
            raise StorageError(
                f"{table}: {new.location} holds rows, and is no partition of the table; move it away (or, in Hive, add it: "
                "ALTER TABLE … ADD PARTITION); nothing was written"
            )
        self._new[Entity(database=table.database, table=table.name, partition=name)] = new
        return partition

    def _holds_rows(self, location: str, seen: tuple[ValidTxnList, ValidWriteIdList]) -> bool:
        txns, write_ids = seen
        found = acid_directory(self._site.storage.listing(location), write_ids, txns)
        return bool(found.base or found.deltas or found.originals)

    def record(self, table: Entity, operation: str, write_id: WriteId, names: Iterable[str]) -> list[str]:
        """Takes those of ``names`` that are added here, whose components are written with the commit; returns the others."""
        entity = Entity(database=table.database, table=table.table)
        others = []
        for name in names:
            if Entity(database=table.database, table=table.table, partition=name) in self._new:
                self._components[entity, operation, write_id].add(name)
            else:
                others.append(name)
        return others

    def stand_for(self, table: Entity, operation: str) -> bool:
        """Returns true if a provisional component of the table has to stay until the commit."""
        return any(
            (one.database, one.table, op) == (table.database, table.table, operation) for one, op, _ in self._components
        )

    def make_durable(self) -> None:
        """Makes the names of the partitions' directories durable.

        Raises:
            StorageError: one could not be made durable; the transaction must not commit.
        """
        storage = self._site.storage
        names = set()
        for new in self._new.values():
            path = path_of(storage, new.table, None)
            for part in new.name.split("/"):
                path = f"{path}/{part}"
                names.add(path)
        for error in storage.sync_names(sorted(names)).values():
            raise error

    def at_commit(self, txn: TxnId) -> Sequence[InTransaction]:
        """Returns what adds the partitions and their components within the committing database transaction."""
        if not self._new:
            return ()
        adding = self._site.metastore.new_partitions.adding(list(self._new.values()))
        return [
            adding,
            *(
                recording(txn, entity, names, operation, write_id)
                for (entity, operation, write_id), names in self._components.items()
            ),
        ]


def must_be_a_partition_name(site: Site, table: Table, name: str) -> None:
    """Refuses a partition that a metastore of Hive would not take.

    Raises:
        Refused: it is one.
    """
    longest = max(part_values(name), key=len)
    if len(longest) > _LONGEST_VALUE or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{table}: partition {name[:80]!r}… has {len(name)} characters, its longest value {len(longest)}; the metastore "
            f"stores {_LONGEST_NAME} and {_LONGEST_VALUE} at most"
        )
    if "\0" in name:
        raise Refused(f"{table}: partition {name!r} has a character that no file's name has; wanted a value without it")
    allowed = site.settings.text(_ALLOWED)
    if allowed and any(re.fullmatch(allowed, value) is None for value in part_values(name)):
        raise Refused(f"{table}: partition {name!r} has a value that {_ALLOWED} = {allowed!r} does not allow")


def must_fit_in_a_directory(table: Table, name: str) -> None:
    """Refuses a partition whose usual directory could not be made.

    Raises:
        Refused: it is one.
    """
    directory = max(name.split("/"), key=lambda part: len(part.encode()))
    if (size := len(directory.encode())) > _LONGEST_DIRECTORY:
        raise Refused(
            f"{table}: partition {name[:80]!r}… needs a directory with a name of {size} bytes; file systems have "
            f"{_LONGEST_DIRECTORY} at most"
        )


def _as_partition(new: NewPartition) -> Partition:
    return Partition(id=-1, name=new.name, location=new.location, values=new.values)
