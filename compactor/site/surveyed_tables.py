"""Tables and partitions as one pass sees them: each is read once, and many with one statement."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeAlias

from compactor.acid.partition_names import (
    find_in_other_case,
    group_by_recorded_name,
    unescape_once,
    with_lower_keys,
)
from compactor.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from compactor.base.errors import CompactorError, DatabaseUnavailable, NotFound, failing_alone
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import PartitionPlace, Table
from compactor.settings.precedence import Settings
from compactor.site.site import Moment, Site

log = logging.getLogger(__name__)
TableName: TypeAlias = tuple[str, str]  #: of its database and itself
_AT_ONCE = 1000  #: tables that are read by one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedTable:
    """A table as one pass sees it: its write IDs, its settings, and the partitions that were read so far.

    A partition that does not exist is None in ``partitions``.
    """

    table: Table
    write_ids: CompactorWriteIdList
    next_write_id: WriteId  #: in the snapshot of the pass; writers may have allocated it since
    settings: Settings
    partitions: dict[str, PartitionPlace | None] = field(default_factory=dict)


class SurveyedTables:
    """Reads tables, their write IDs in the snapshot ``txns``, and their partitions, each once."""

    def __init__(self, site: Site, txns: ValidTxnList, moment: Moment) -> None:
        self._site, self._txns, self._moment = site, txns, moment
        self._tables: dict[TableName, SurveyedTable | CompactorError | None] = {}
        self._recorded_names: dict[int, Mapping[str, Sequence[str]]] = {}

    def resolve_recorded(self, recorded: Sequence[Entity]) -> list[Entity]:
        """Returns the stored entities that writers record under these names, each once."""
        by_table: defaultdict[TableName, list[str | None]] = defaultdict(list)
        for entity in recorded:
            by_table[entity.database, entity.table].append(entity.partition)
        stored = self.read_recorded(by_table)
        entities = (
            replace(entity, partition=name)
            for entity in recorded
            for name in stored[entity.database, entity.table].get(entity.partition, (entity.partition,))
        )
        return list(dict.fromkeys(entities))

    def read_recorded(
        self, recorded: Mapping[TableName, Collection[str | None]]
    ) -> dict[TableName, Mapping[str | None, Sequence[str | None]]]:
        """Reads tables with their recorded partitions, and maps recorded names to different stored names.

        Writers may record a partition in lower case, or with characters escaped twice.
        """
        if self._site.metastore.dialect.lowers_partitions:
            self.read(dict.fromkeys(recorded, ()))
            self._read_names(
                surveyed.table for table in recorded if (surveyed := self._partitioned_table(table)) is not None
            )
            stored = {table: self._match_lowered(table, names) for table, names in recorded.items()}
            self.read({table: [*recorded[table], *chain(*stored[table].values())] for table in recorded})
            return stored
        twice = {table: dict(filter(None, map(_unescape_once, names))) for table, names in recorded.items()}
        self.read({table: {*names, *twice[table].values()} for table, names in recorded.items()})
        matches = {table: self._match_escaped_once(table, names) for table, names in twice.items()}
        missing = {
            table: self._list_missing(table, set(names) - matches[table].keys()) for table, names in recorded.items()
        }
        return {table: {**matches[table], **self._match_in_other_case(table, missing[table])} for table in recorded}

    def _list_missing(self, name: TableName, recorded: Iterable[str | None]) -> list[str]:
        """Returns the recorded names without a partition of the table.

        The partition was dropped, or Hive 3 recorded the name.
        """
        surveyed = self._partitioned_table(name)
        if surveyed is None:
            return []
        return [partition for partition in recorded if partition and surveyed.partitions.get(partition) is None]

    def _match_in_other_case(self, name: TableName, missing: Sequence[str]) -> dict[str | None, Sequence[str | None]]:
        """Maps names of Hive 3, or with keys in upper case, to the stored names that they may mean."""
        surveyed = self._partitioned_table(name)
        if surveyed is None or not missing:
            return {}
        (stored,) = self._site.metastore.catalog.partition_names([surveyed.table]).values()
        matches = {recorded: find_in_other_case(recorded, stored) for recorded in missing}
        self.read({name: {partition for names in matches.values() for partition in names}})
        return {recorded: names for recorded, names in matches.items() if names}

    def _match_escaped_once(
        self, name: TableName, twice: Mapping[str, str]
    ) -> Mapping[str | None, Sequence[str | None]]:
        """Maps doubly escaped names that do not exist to the stored name."""
        surveyed = self._partitioned_table(name)
        there = {} if surveyed is None else surveyed.partitions
        return {
            recorded: (less,)
            for recorded, less in twice.items()
            if there.get(recorded) is None and there.get(less) is not None
        }

    def _match_lowered(
        self, table_name: TableName, recorded: Iterable[str | None]
    ) -> Mapping[str | None, Sequence[str | None]]:
        surveyed = self._partitioned_table(table_name)
        if surveyed is None:
            return {}
        names = self._recorded_names[surveyed.table.id]
        matches: dict[str | None, Sequence[str | None]] = {}
        for name in filter(None, recorded):
            if name in names:
                matches[name] = names[name]
            elif (keyed := with_lower_keys(name)) in names:
                matches[name] = names[keyed]
        return matches

    def expect(self, entities: Iterable[Entity]) -> None:
        """Reads the tables and partitions of ``entities`` that were not read yet, many with one statement."""
        names: defaultdict[TableName, set[str | None]] = defaultdict(set)
        for entity in entities:
            names[entity.database, entity.table].add(entity.partition)
        self.read(names)

    def read(self, names: Mapping[TableName, Collection[str | None]]) -> None:
        """Reads the named tables and partitions that were not read yet, many with one statement."""
        waiting = iter(names)
        while page := list(islice(waiting, _AT_ONCE)):
            try:
                with failing_alone(f"{len(page)} tables and their partitions"):
                    self._read_tables(page)
                    self._read_partitions({name: names[name] for name in page})
            except DatabaseUnavailable:
                raise
            except CompactorError as error:  # one table is broken; each is read alone later
                log.info("%s", error)

    def _read_tables(self, page: Sequence[TableName]) -> None:
        metastore = self._site.metastore
        new = {name: (name[0].lower(), name[1].lower()) for name in page if name not in self._tables}
        tables = metastore.catalog.existing(set(new.values()))
        write_ids = metastore.write_ids.valid_by_table(list(tables), self._txns)
        for name, lower in new.items():
            self._keep(name, tables.get(lower), write_ids.get(lower))

    def _read_partitions(self, names: Mapping[TableName, Collection[str | None]]) -> None:
        new: list[tuple[SurveyedTable, set[str]]] = []
        unknown_names: defaultdict[int, set[str]] = defaultdict(set)  # two names may mean one table
        for table_name, partitions in names.items():
            if (surveyed := self._partitioned_table(table_name)) is not None:
                unknown = {partition for partition in partitions if partition and partition not in surveyed.partitions}
                unknown_names[surveyed.table.id] |= unknown
                new.append((surveyed, unknown))
        places = self._site.metastore.locations.for_partitions(
            {table: names for table, names in unknown_names.items() if names}
        )
        for surveyed, unknown in new:
            of_table = places.get(surveyed.table.id, {})
            surveyed.partitions.update((table_name, of_table.get(table_name)) for table_name in unknown)

    def _partitioned_table(self, name: TableName) -> SurveyedTable | None:
        surveyed = self._tables.get(name)
        return surveyed if isinstance(surveyed, SurveyedTable) and surveyed.table.partition_keys else None

    def _keep(self, name: TableName, table: Table | None, write_ids: ValidWriteIdList | None) -> None:
        """Keeps the table ``name``, or the reason why its entry in the catalog cannot be understood."""
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
        """Returns the partition that ``entity`` names; None if it does not exist, or if ``entity`` is a table.

        Raises:
            CompactorError: the table's entry in the catalog cannot be understood.
        """
        surveyed = self.load_table(entity)
        if surveyed is None or entity.partition is None or not surveyed.table.partition_keys:
            return None
        if entity.partition not in surveyed.partitions:
            self._read_partitions({(entity.database, entity.table): (entity.partition,)})
        return surveyed.partitions[entity.partition]

    def partitions(self, table: Table) -> list[PartitionPlace]:
        """Returns every partition of a table."""
        surveyed = self.load_table(Entity(database=table.database, table=table.name))
        if surveyed is None:
            return []
        partitions = self._site.metastore.catalog.partitions(surveyed.table)
        surveyed.partitions.update({partition.name: partition for partition in partitions})
        return list(partitions)

    def _read_names(self, tables: Iterable[Table]) -> None:
        """Reads all partition names of tables, to find the ones that a lower-case record may mean."""
        new = [table for table in tables if table.id not in self._recorded_names]
        for table_id, names in self._site.metastore.catalog.partition_names(new).items():
            self._recorded_names[table_id] = group_by_recorded_name(names, lowered=True)

    def exists(self, entity: Entity) -> bool:
        """Returns true if the table exists, and the partition if one is named."""
        try:
            return self.load_table(entity) is not None and (
                entity.partition is None or self.partition(entity) is not None
            )
        except CompactorError:  # ``consider`` says so
            return True

    def load_table(self, entity: Entity) -> SurveyedTable | None:
        """Returns the table of ``entity``; None if it is gone.

        Raises:
            CompactorError: its entry in the catalog cannot be understood.
        """
        key = (entity.database, entity.table)
        if key not in self._tables:
            self._load_alone(key)
        surveyed = self._tables[key]
        if isinstance(surveyed, CompactorError):
            raise surveyed
        return surveyed

    def _load_alone(self, name: TableName) -> None:
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


def _unescape_once(name: str | None) -> tuple[str, str] | None:
    """Returns a doubly escaped name with its simpler form, such as ``p=a%253Ab`` and ``p=a%3Ab``."""
    if name is None or "%25" not in name or (less := unescape_once(name)) == name:
        return None
    return name, less
