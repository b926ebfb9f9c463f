"""Surveys tables: their content, and what the initiator would do to them now.

A survey lists each directory once and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import Listing
from compactor.answers.show_compactions import CompactionFilter, CompactionWords, find_filter
from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.compaction.decision import Facts
from compactor.compaction.pool_policy import DEFAULT, POOL
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.initiator.candidate_scan import DISAGREEMENT, CandidateScan, Considered
from compactor.metastore.catalog.values import PartitionPlace, Table
from compactor.site.named_tables import find_where
from compactor.site.site import Site, path_of
from compactor.storage.protocol import Storage

#: Outcomes that require work, the most work first; all others require none.
DUE = ("major", "minor", "rebalance", "cleanonly", "abortcleanup")
_READING = frozenset(
    {
        "capabilities",
        "children",
        "descriptor",
        "exists",
        "free_bytes",
        "length",
        "local_path",
        "may_write",
        "options",
        "read",
        "read_range",
        "resolve",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryContent:
    """The base, deltas and files of rows that a reader reads of a directory, with their bytes.

    ``obsolete`` counts the directories that no new reader reads.
    """

    directories: int = 0
    deltas: int = 0
    files: int = 0
    bytes: int = 0
    obsolete: int = 0

    @classmethod
    def from_directory(cls, directory: AcidDirectory) -> DirectoryContent:
        facts = Facts.from_directory(directory)
        return cls(
            directories=facts.deltas + facts.has_base,
            deltas=facts.deltas,
            files=facts.files,
            bytes=facts.base_bytes + facts.delta_bytes,
            obsolete=facts.obsolete,
        )

    def __add__(self, other: DirectoryContent) -> DirectoryContent:
        return DirectoryContent(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """One partition, or a table without partitions: its content and what would happen to it now."""

    entity: Entity
    location: str
    content: DirectoryContent
    considered: Considered

    @property
    def health(self) -> int | None:
        """Its health from 0 to 100; None if it is never compacted or cannot be read."""
        return None if self.considered.condition is None else self.considered.condition.health


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A table as ``show tables`` prints it.

    ``health`` is that of its least healthy partition, ``most_deltas`` the largest number of deltas in one,
    ``last_compacted`` the newest commit of a compaction in any (epoch ms of the metastore's clock).
    """

    table: str
    partitions: int
    content: DirectoryContent
    most_deltas: int
    health: int | None
    outcomes: tuple[tuple[str, int], ...]
    because: str
    last_compacted: int | None = None

    @property
    def decision(self) -> str:
        """The outcomes with their counts, due ones first: ``major 3, notneeded 9``."""
        if len(self.outcomes) == 1:
            return self.outcomes[0][0]
        return ", ".join(f"{outcome} {count}" for outcome, count in self.outcomes)

    def is_due(self, type: CompactionType | None) -> bool:
        """Returns true if a compaction of this type is due in it; None stands for whatever it is."""
        return type is None or type.label.lower().replace("_", "") in dict(self.outcomes)

    def to_json(self) -> dict[str, object]:
        return {
            "table": self.table,
            "partitions": self.partitions,
            **self.content.to_json(),
            "most_deltas": self.most_deltas,
            "health": self.health,
            "decisions": dict(self.outcomes),
            "because": self.because,
            "last_compacted": self.last_compacted,
        }


class _CachedReadOnly:
    """A storage that lists each directory once and can only be read."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, Listing | CompactorError] = {}

    def listing(self, path: str) -> Listing:
        if path not in self._known:
            try:
                self._known[path] = self._storage.listing(path)
            except CompactorError as error:
                self._known[path] = error
        known = self._known[path]
        if isinstance(known, CompactorError):
            raise known
        return known

    def __getattr__(self, name: str) -> Any:
        if name not in _READING:
            raise AttributeError(f"{name}: a survey only reads")
        return getattr(self._storage, name)


class Survey:
    """One look at a site. All its answers come from one snapshot of the queue, the history and storage."""

    def __init__(self, site: Site) -> None:
        self._site = replace(site, storage=cast(Storage, _CachedReadOnly(site.storage)))
        self._scan = CandidateScan(self._site, write=False)

    def partitions(self, table: Table, only: str | None = None) -> list[Surveyed]:
        """Returns every partition of ``table``, or the partition ``only``, or the table if unpartitioned."""
        if not table.partition_keys:
            return [self._survey(table, None)]
        return [
            self._survey(table, partition)
            for partition in self._scan.tables.partitions(table)
            if only in (None, partition.name)
        ]

    def unnamed(self, table: Table) -> Considered | None:
        """Returns the outcome for aborted dynamic-partition writes, which only name the table.

        Returns None without any.
        """
        entity = Entity(database=table.database, table=table.name)
        if not table.partition_keys or entity not in self._scan.aborts:
            return None
        return self._scan.consider(entity)

    def consider(self, entity: Entity) -> Considered:
        """Returns what the initiator would do to one entity now."""
        return self._scan.consider(entity)

    def table(self, table: Table, only: str | None = None) -> TableRow:
        """Returns the whole table, or only the partition named ``only``, as one row."""
        rows = self.partitions(table, only)
        content = sum((row.content for row in rows), DirectoryContent())
        considered = [row.considered for row in rows]
        unnamed = self.unnamed(table) if only is None else None
        considered += [unnamed] if unnamed is not None else []
        worst = min(considered, key=lambda c: _rank(c.outcome), default=None)
        return TableRow(
            table=str(table),
            partitions=len(rows) if table.partition_keys else 0,
            content=content,
            most_deltas=max((row.content.deltas for row in rows), default=0),
            health=min((row.health for row in rows if row.health is not None), default=None),
            outcomes=_count_outcomes(c.outcome for c in considered),
            because=worst.because if worst is not None else "it has no partitions",
            last_compacted=self._last_compacted(rows),
        )

    def _last_compacted(self, rows: Iterable[Surveyed]) -> int | None:
        times = (self._scan.last_compacted(row.entity) for row in rows)
        return max((at for at in times if at is not None), default=None)

    def _survey(self, table: Table, partition: PartitionPlace | None) -> Surveyed:
        name, location = (partition.name, partition.location) if partition else (None, table.location)
        entity = Entity(database=table.database, table=table.name, partition=name)
        try:
            with failing_alone(entity):
                content = self._read_content(table, path_of(self._site.storage, table, partition))
        except CompactorError as error:
            broken = Considered(entity=entity, outcome="error", because=str(error))
            return Surveyed(entity=entity, location=location, content=DirectoryContent(), considered=broken)
        considered = self._scan.consider(entity)
        if considered.decision is None and considered.outcome == "skipped":
            considered = self._scan.measure(considered)
        return Surveyed(entity=entity, location=location, content=content, considered=considered)

    def _read_content(self, table: Table, location: str) -> DirectoryContent:
        listing = self._site.storage.listing(location)
        surveyed = self._scan.tables.load_table(Entity(database=table.database, table=table.name))
        if surveyed is None:  # dropped meanwhile
            return DirectoryContent()
        return DirectoryContent.from_directory(acid_directory(listing, surveyed.write_ids, self._scan.txns))


def find_tables(site: Site, words: CompactionWords) -> CompactionFilter:
    """Returns the filter that ``words`` mean, as ``find_filter``, but the table has to exist.

    Raises:
        NotFound: there is no such table, partition or pool.
        BadSetting: the type is unknown, or the name could be a table or a database.
    """
    where = find_where(site.metastore.catalog, words.name, words.partition)
    return replace(find_filter(site, replace(words, name=None, partition=None)), where=where)


def survey_tables(
    site: Site, worst: int | None = None, filter: CompactionFilter = CompactionFilter()
) -> list[TableRow]:
    """Returns the ``worst`` matching transactional tables, ranked as on the page: least healthy first.

    Args:
        filter: by name, partition, the pool that the table belongs to, and the type of compaction that is due.
    """
    survey, where = Survey(site), filter.where
    whole = replace(where, partition=None)
    tables = [
        table
        for table in site.metastore.catalog.tables()
        if table.is_transactional
        and whole.holds(Entity(database=table.database, table=table.name))
        and _is_in_pool(site, table, filter.pool)
    ]
    rows = [row for table in tables if (row := survey.table(table, where.partition)).is_due(filter.type)]
    rows.sort(key=lambda row: (row.health is None, row.health, -row.content.deltas, row.table))
    return rows[:worst]


def _is_in_pool(site: Site, table: Table, pool: str | None) -> bool:
    """Returns true if the table's requests go to ``pool``, or if that is unknown.

    Its row then has the reason.
    """
    if pool is None:
        return True
    try:
        with failing_alone(str(table)):
            return (site.settings_for(table).text(POOL) or DEFAULT) == pool
    except DatabaseUnavailable:
        raise
    except CompactorError:
        return True


def _rank(outcome: str) -> int:
    """Returns the sort rank: errors first, since they prevent compaction, then outcomes that require work."""
    return -1 if outcome in ("error", DISAGREEMENT) else DUE.index(outcome) if outcome in DUE else len(DUE)


def _count_outcomes(outcomes: Iterable[str]) -> tuple[tuple[str, int], ...]:
    counts = Counter(outcomes)
    return tuple((outcome, counts[outcome]) for outcome in sorted(counts, key=lambda o: (_rank(o), o)))
