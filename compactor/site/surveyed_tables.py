"""Tables and partitions as one pass sees them: read once, many with one statement."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeAlias

from compactor.acid.partition_names import by_recorded_name, escaped_once_less
from compactor.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from compactor.base.errors import CompactorError, DatabaseUnavailable, NotFound, failing_alone
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.values import PartitionPlace, Table
from compactor.settings.precedence import Settings
from compactor.site.site import Moment, Site

log = logging.getLogger(__name__)
TableName: TypeAlias = tuple[str, str]  #: of its database and itself
_AT_ONCE = 1000  #: tables that are read by one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedTable:
    """A table as one pass sees it: its write IDs, its settings, and its partitions as far as somebody asked for them, None
    for one that does not exist."""

    table: Table
    write_ids: CompactorWriteIdList
    next_write_id: WriteId  #: at the latest; writers may have drawn it since
    settings: Settings
    partitions: dict[str, PartitionPlace | None] = field(default_factory=dict)


class SurveyedTables:
    """Reads tables, their write IDs in the snapshot ``txns``, and their partitions, each once."""

    def __init__(self, site: Site, txns: ValidTxnList, moment: Moment) -> None:
        self._site, self._txns, self._moment = site, txns, moment
        self._tables: dict[TableName, SurveyedTable | CompactorError | None] = {}
        self._recorded: dict[int, Mapping[str, Sequence[str]]] = {}

    def meant(self, recorded: Sequence[Entity]) -> list[Entity]:
        """Returns the entities that writers record under these names, once each, and each under the name by which its
        partition is stored."""
        by_table: defaultdict[TableName, list[str | None]] = defaultdict(list)
        for one in recorded:
            by_table[one.database, one.table].append(one.partition)
        stored = self.stored(by_table)
        meant = (
            replace(one, partition=name)
            for one in recorded
            for name in stored[one.database, one.table].get(one.partition, (one.partition,))
        )
        return list(dict.fromkeys(meant))

    def stored(
        self, recorded: Mapping[TableName, Collection[str | None]]
    ) -> dict[TableName, Mapping[str | None, Sequence[str | None]]]:
        """Reads tables with the partitions that writers record under these names, and returns the names by which they are
        stored, where those are others."""
        if self._site.metastore.dialect.lowers_partitions:
            self.read(dict.fromkeys(recorded, ()))
            self._read_names(found.table for table in recorded if (found := self._partitioned(table)) is not None)
            stored = {table: self._lowered(table, names) for table, names in recorded.items()}
            self.read({table: [*recorded[table], *chain(*stored[table].values())] for table in recorded})
            return stored
        twice = {table: dict(filter(None, map(_escaped_twice, names))) for table, names in recorded.items()}
        self.read({table: {*names, *twice[table].values()} for table, names in recorded.items()})
        return {table: self._once(table, names) for table, names in twice.items()}

    def _once(self, name: TableName, twice: Mapping[str, str]) -> Mapping[str | None, Sequence[str | None]]:
        """Returns those of names that were escaped twice under which nothing is stored, with what is stored instead."""
        found = self._partitioned(name)
        there = {} if found is None else found.partitions
        return {
            recorded: (less,)
            for recorded, less in twice.items()
            if there.get(recorded) is None and there.get(less) is not None
        }

    def _lowered(self, name: TableName, recorded: Iterable[str | None]) -> Mapping[str | None, Sequence[str | None]]:
        found = self._partitioned(name)
        if found is None:
            return {}
        names = self._recorded[found.table.id]
        return {one: names[one] for one in recorded if one is not None and one in names}

    def expect(self, entities: Iterable[Entity]) -> None:
        """Reads the tables and partitions that are not known yet, many with one statement."""
        names: defaultdict[TableName, set[str | None]] = defaultdict(set)
        for one in entities:
            names[one.database, one.table].add(one.partition)
        self.read(names)

    def read(self, names: Mapping[TableName, Collection[str | None]]) -> None:
        """Reads tables, and those of their partitions, that are not known yet, many with one statement."""
        waiting = iter(names)
        while page := list(islice(waiting, _AT_ONCE)):
            try:
                with failing_alone(f"{len(page)} tables and their partitions"):
                    self._read_tables(page)
                    self._read_partitions({name: names[name] for name in page})
            except DatabaseUnavailable:
                raise
            except CompactorError as error:  # of one of them; each is then read by itself
                log.info("%s", error)

    def _read_tables(self, page: Sequence[TableName]) -> None:
        metastore = self._site.metastore
        new = {name: (name[0].lower(), name[1].lower()) for name in page if name not in self._tables}
        tables = metastore.catalog.named(set(new.values()))
        write_ids = metastore.write_ids.valid_of(list(tables), self._txns)
        for name, lower in new.items():
            self._keep(name, tables.get(lower), write_ids.get(lower))

    def _read_partitions(self, names: Mapping[TableName, Collection[str | None]]) -> None:
        new: list[tuple[SurveyedTable, set[str]]] = []
        wanted: defaultdict[int, set[str]] = defaultdict(set)  # two names may mean one table
        for name, partitions in names.items():
            if (found := self._partitioned(name)) is not None:
                unknown = {one for one in partitions if one and one not in found.partitions}
                wanted[found.table.id] |= unknown
                new.append((found, unknown))
        places = self._site.metastore.partition_places.of({table: names for table, names in wanted.items() if names})
        for found, unknown in new:
            of_table = places.get(found.table.id, {})
            found.partitions.update((name, of_table.get(name)) for name in unknown)

    def _partitioned(self, name: TableName) -> SurveyedTable | None:
        found = self._tables.get(name)
        return found if isinstance(found, SurveyedTable) and found.table.partition_keys else None

    def _keep(self, name: TableName, table: Table | None, write_ids: ValidWriteIdList | None) -> None:
        """Keeps what was read of the table ``name``, or the reason why it cannot be understood."""
        self._tables[name] = None
        try:
            with failing_alone(".".join(name)):
                if table is not None and write_ids is not None:
                    self._tables[name] = SurveyedTable(
                        table=table,
                        write_ids=write_ids.for_compactor(),
                        next_write_id=WriteId(write_ids.high_watermark + 1),
                        settings=self._site.settings_for(table, self._moment),
                    )
        except DatabaseUnavailable:
            raise
        except CompactorError as error:
            self._tables[name] = error

    def partition(self, entity: Entity) -> PartitionPlace | None:
        """Returns the partition that ``entity`` names; None if it is not there, or none is named.

        Raises:
            CompactorError: the table's entry in the catalog cannot be understood.
        """
        found = self.found(entity)
        if found is None or entity.partition is None or not found.table.partition_keys:
            return None
        if entity.partition not in found.partitions:
            self._read_partitions({(entity.database, entity.table): (entity.partition,)})
        return found.partitions[entity.partition]

    def partitions(self, table: Table) -> list[PartitionPlace]:
        """Returns every partition of a table."""
        found = self.found(Entity(database=table.database, table=table.name))
        if found is None:
            return []
        every = self._site.metastore.catalog.partitions(found.table)
        found.partitions.update({one.name: one for one in every})
        return list(every)

    def _read_names(self, tables: Iterable[Table]) -> None:
        """Reads the names of all partitions, for writers that record them in a form that several may have."""
        new = [table for table in tables if table.id not in self._recorded]
        for table_id, names in self._site.metastore.catalog.partition_names(new).items():
            self._recorded[table_id] = by_recorded_name(names, lowered=True)

    def exists(self, entity: Entity) -> bool:
        """Returns true if the table exists, and the partition if one is named."""
        try:
            return self.found(entity) is not None and (entity.partition is None or self.partition(entity) is not None)
        except CompactorError:  # ``consider`` says so
            return True

    def found(self, entity: Entity) -> SurveyedTable | None:
        """Returns the table of ``entity``; None if it is gone.

        Raises:
            CompactorError: its entry in the catalog cannot be understood.
        """
        key = (entity.database, entity.table)
        if key not in self._tables:
            self._find(key)
        found = self._tables[key]
        if isinstance(found, CompactorError):
            raise found
        return found

    def _find(self, name: TableName) -> None:
        """Reads one table alone."""
        try:
            with failing_alone(".".join(name)):
                table = self._site.metastore.catalog.table(*name)
                self._keep(name, table, self._site.write_ids(table, self._txns))
        except DatabaseUnavailable:
            raise
        except NotFound:
            self._tables[name] = None
        except CompactorError as error:
            self._tables[name] = error


def _escaped_twice(name: str | None) -> tuple[str, str] | None:
    """Returns a name that Hive 4 may have escaped twice, with the one behind it; None for any other."""
    if name is None or "%25" not in name or (less := escaped_once_less(name)) == name:
        return None
    return name, less
