"""The partitions that a program's statements add, and the tables that it creates with its transaction."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from compactor.acid.directory import acid_directory
from compactor.acid.partition_names import part_values
from compactor.base.errors import Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.new_partitions import NewPartition
from compactor.metastore.catalog.values import Partition, Table
from compactor.metastore.transactions.commit_rows import InTransaction
from compactor.metastore.transactions.write_id_rows import insert_component, record_partitions
from compactor.site.site import Site, claims_of, path_of

if TYPE_CHECKING:
    from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList

_LONGEST_NAME, _LONGEST_VALUE = 767, 256  #: characters of PART_NAME and PART_KEY_VAL
_LONGEST_DIRECTORY = 255  #: bytes of a directory's name, in the usual file systems
_INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint"))
_SEVERAL_SPELLINGS = _INTEGERS | {"boolean", "char"}  #: types whose values may be spelled in several ways
_ALLOWED = "hive.metastore.partition.name.whitelist.pattern"


class AddedPartitions:
    """The partitions that a transaction adds."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._new: dict[Entity, NewPartition] = {}
        self._components: dict[tuple[Entity, str, WriteId], set[str]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._new)

    def partitions_of(self, table: Table) -> list[Partition]:
        """Returns the added partitions of ``table``."""
        return [_as_partition(new) for new in self._new.values() if new.table.id == table.id]

    @property
    def partitions(self) -> Mapping[Entity, NewPartition]:
        """All added partitions."""
        return dict(self._new)

    def take_back(self, before: Mapping[Entity, NewPartition]) -> None:
        """Forgets the partitions that were added after ``partitions`` returned ``before``.

        Their empty directories stay.
        """
        self._new = dict(before)
        for component, names in list(self._components.items()):
            names.intersection_update(entity.partition or "" for entity in before if entity.table == component[0].table)
            if not names:
                del self._components[component]

    def add(self, table: Table, name: str, write_id: WriteId, seen: tuple[ValidTxnList, ValidWriteIdList]) -> Partition:
        """Creates the directory of a partition that does not exist, and returns the partition.

        If somebody else has added the partition meanwhile, returns theirs.

        Args:
            seen: the snapshot of the transaction.

        Raises:
            Refused: its name is too long, the site does not allow it, or another partition has the same values.
            Disagreement: another table claims its directory or one around it.
            StorageError: its directory holds rows, but is no partition of the table.
        """
        must_be_a_partition_name(self._site, table, name)
        must_fit_in_a_directory(table, name)
        must_be_the_only_spelling(self._site, table, [name])
        new = NewPartition(table=table, name=name, location=f"{table.location.rstrip('/')}/{name}", write_id=write_id)
        root = path_of(self._site.storage, table, None)
        claims_of(self._site).must_be_free_in_and_around(table, f"{root}/{name}")
        self._site.storage.make_directories(f"{root}/{name}", like=root)
        partition = _as_partition(new)
        if self._holds_rows(path_of(self._site.storage, table, partition), seen):
            if existing := self._site.metastore.catalog.partitions(table, [name]):
                return existing[0]
            raise StorageError(
                f"{table}: {new.location} holds rows, but is not a partition of the table; move it away (or, in Hive, add "
                "it: ALTER TABLE … ADD PARTITION); nothing was written"
            )
        self._new[Entity(database=table.database, table=table.name, partition=name)] = new
        return partition

    def _holds_rows(self, location: str, seen: tuple[ValidTxnList, ValidWriteIdList]) -> bool:
        txns, write_ids = seen
        directory = acid_directory(self._site.storage.listing(location), write_ids, txns)
        return bool(directory.base or directory.deltas or directory.originals)

    def record(self, table: Entity, operation: str, write_id: WriteId, names: Iterable[str]) -> list[str]:
        """Records components of the ``names`` that are added here, for the commit; returns the other names."""
        entity = Entity(database=table.database, table=table.table)
        others = []
        for name in names:
            if Entity(database=table.database, table=table.table, partition=name) in self._new:
                self._components[entity, operation, write_id].add(name)
            else:
                others.append(name)
        return others

    def stand_for(self, table: Entity, operation: str) -> bool:
        """Tells whether a provisional component of the table must stay until the commit."""
        return any(
            (entity.database, entity.table, recorded) == (table.database, table.table, operation)
            for entity, recorded, _ in self._components
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
        """Returns the actions that add the partitions and their components as ``txn`` commits.

        They run within the committing database transaction.
        """
        if not self._new:
            return ()
        adding = self._site.metastore.new_partitions.adding(list(self._new.values()))
        return [
            adding,
            *(
                record_partitions(txn, entity, names, operation, write_id)
                for (entity, operation, write_id), names in self._components.items()
            ),
        ]


def must_be_a_partition_name(site: Site, table: Table, name: str) -> None:
    """Refuses a partition name that Hive's metastore would not accept.

    Raises:
        Refused: the name is not acceptable.
    """
    longest = max(part_values(name), key=len)
    if len(longest) > _LONGEST_VALUE or len(name) > _LONGEST_NAME:
        raise Refused(
            f"{table}: partition {name[:80]!r}… has {len(name)} characters, its longest value {len(longest)}; the metastore "
            f"stores {_LONGEST_NAME} and {_LONGEST_VALUE} at most"
        )
    if "\0" in name:
        raise Refused(
            f"{table}: partition {name!r} has a NUL character, which file names cannot have; use another value"
        )
    allowed = site.settings.text(_ALLOWED)
    if allowed and any(re.fullmatch(allowed, value) is None for value in part_values(name)):
        raise Refused(f"{table}: partition {name!r} has a value that {_ALLOWED} = {allowed!r} does not allow")


def must_be_the_only_spelling(site: Site, table: Table, names: Collection[str]) -> None:
    """Refuses partitions of which the table has another spelling, such as ``day=07`` for ``day=7``.

    Rows of one value would be in both, and an overwrite would leave those of the other.

    Raises:
        Refused: there is another one.
    """
    kinds = [key.type.partition("(")[0].strip().lower() for key in table.partition_keys]
    if not _SEVERAL_SPELLINGS.intersection(kinds):
        return
    chosen = {_plain_values(kinds, name): name for name in names}
    for other in site.metastore.catalog.partition_names([table])[table.id]:
        name = chosen.get(_plain_values(kinds, other), other)
        if name != other:
            raise Refused(
                f"{table}: the rows belong to partition {name!r}, but partition {other!r} has the same values, spelled "
                "otherwise; its rows would stay beside the new ones. Rename it (in Hive: ALTER TABLE … PARTITION … RENAME "
                "TO PARTITION …), or delete its rows and drop it"
            )


def _plain_values(kinds: Sequence[str], name: str) -> tuple[str, ...]:
    return tuple(_spell_plainly(kind, text) for kind, text in zip(kinds, part_values(name), strict=True))


def _spell_plainly(kind: str, text: str) -> str:
    if kind in _INTEGERS and re.fullmatch(r"-?[0-9]+", text):
        return str(int(text))
    if kind == "boolean":
        return {"1": "true", "0": "false"}.get(text, text.lower())
    return text.rstrip(" ") if kind == "char" else text


def must_fit_in_a_directory(table: Table, name: str) -> None:
    """Refuses a partition whose default directory could not be created.

    Raises:
        Refused: the name of the directory is too long.
    """
    directory = max(name.split("/"), key=lambda part: len(part.encode()))
    if (size := len(directory.encode())) > _LONGEST_DIRECTORY:
        raise Refused(
            f"{table}: partition {name[:80]!r}… needs a directory with a name of {size} bytes; file systems have "
            f"{_LONGEST_DIRECTORY} at most"
        )


def _as_partition(new: NewPartition) -> Partition:
    return Partition(id=-1, name=new.name, location=new.location, values=new.values)


class CreatedTables:
    """The tables that a transaction creates."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._new: list[Table] = []
        self._inserting: list[InTransaction] = []
        self._directories: list[str] = []
        self._components: dict[tuple[Entity, str], WriteId] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, new: NewTable, directories: Collection[str], is_alone: InTransaction) -> Table:
        """Returns a new table as it will be once the transaction has committed.

        Args:
            directories: the directories that were created for it.
            is_alone: checks at the commit that nobody else has started to use its directory.

        Raises:
            NotFound: the database does not exist.
        """
        table, inserting = self._site.metastore.embedded_catalog.prepare_table(new)
        self._new.append(table)
        self._inserting += [inserting, is_alone]
        self._directories += directories
        return table

    def find(self, database: str, name: str) -> Table | None:
        """Returns the table of this name if the transaction creates it, otherwise None."""
        return next((table for table in self._new if (table.database, table.name) == (database, name)), None)

    def record(self, entity: Entity, operation: str, write_id: WriteId) -> None:
        """Records a component of a table without partitions; the commit writes it."""
        self._components[entity, operation] = write_id

    def make_durable(self) -> None:
        """Makes the names of the tables' directories durable.

        Raises:
            StorageError: a name could not be made durable; the transaction must not commit.
        """
        for error in self._site.storage.sync_names(self._directories).values():
            raise error

    def at_commit(self, txn: TxnId) -> Sequence[InTransaction]:
        """Returns the actions that create the tables and their components.

        They run within the committing database transaction.

        They raise Refused if somebody has created a table of the same name meanwhile.
        """
        return [
            *self._inserting,
            *(
                partial(_record, txn=txn, entity=entity, operation=operation, write_id=write_id)
                for (entity, operation), write_id in self._components.items()
            ),
        ]


def _record(conn: Connection, *, txn: TxnId, entity: Entity, operation: str, write_id: WriteId) -> None:
    insert_component(conn, txn, entity, operation, write_id)
