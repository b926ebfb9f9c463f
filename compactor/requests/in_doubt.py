"""Finds directories in doubt: files and metastore contradict each other about them (PROTOCOL 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.acid.listing import Listing, SortedListing
from compactor.acid.names import parse_directory
from compactor.base.errors import BadName, CompactorError, Disagreement
from compactor.base.ids import TxnId
from compactor.compaction.disagreement import DirectoryDoubt, DoubtKind
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.rewrite.insert_only.parquet_footer import read_footer
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rows.acid_file import open_files
from compactor.rows.inputs import inputs_of_directory
from compactor.rows.remote_source import open_source
from compactor.site.files_and_metastore import AllocatedIds, visibility_transactions
from compactor.site.hidden_outputs import must_lose_nothing
from compactor.site.site import Site, Target
from compactor.worker.file_formats import file_format_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """One directory in doubt, all doubts about it, and its size.

    ``unreadable`` says why it cannot be kept.
    """

    entity: Entity
    location: str
    name: str
    doubts: tuple[DirectoryDoubt, ...]
    files: int
    bytes: int
    unreadable: str | None = None

    @property
    def path(self) -> str:
        """The name in a person's ruling, relative to the table, such as ``ds=1/base_0000002_v0000007``."""
        return self.name if self.entity.partition is None else f"{self.entity.partition}/{self.name}"

    @property
    def kinds(self) -> frozenset[DoubtKind]:
        return frozenset(doubt.kind for doubt in self.doubts)

    @property
    def because(self) -> str:
        return "; ".join(doubt.because for doubt in self.doubts)

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "directory": self.name,
            "path": self.path,
            "because": self.because,
            "files": self.files,
            "bytes": self.bytes,
            "unreadable": self.unreadable,
        }


def in_doubt(site: Site, table: Table) -> list[InDoubt]:
    """Returns every directory of ``table`` that is in doubt, by partition and name; nothing is written.

    Raises:
        CompactorError: a partition cannot be listed.
    """
    return [directory for entity in entities_of(site, table) for directory in in_doubt_at(site, site.target(entity))]


def entities_of(site: Site, table: Table) -> list[Entity]:
    """Returns the partitions of ``table``, or the table itself."""
    names = [p.name for p in site.metastore.catalog.partitions(table)] if table.partition_keys else [None]
    return [Entity(database=table.database, table=table.name, partition=name) for name in names]


def in_doubt_at(site: Site, target: Target) -> list[InDoubt]:
    """Returns the directories in doubt of one partition."""
    listing = site.storage.listing(target.location)
    allocated = AllocatedIds(site, [target.table], listing.directories)
    by_name: dict[str, list[DirectoryDoubt]] = defaultdict(list)
    for doubt in (*allocated.find_doubts(target, listing.directories), *_only_copies(site, target, listing, allocated)):
        by_name[doubt.name].append(doubt)
    return [
        _describe(site, target, listing, name, directory_doubts) for name, directory_doubts in sorted(by_name.items())
    ]


def _only_copies(site: Site, target: Target, listing: Listing, allocated: AllocatedIds) -> Iterable[DirectoryDoubt]:
    """Yields the outputs of uncommitted compactions that may be the only copy of some rows."""
    silent = _silent_transactions(site)
    for name, txn in visibility_transactions(listing.directories).items():
        row = allocated.rows.get(txn)
        if row is None or not row.type.compacts or not (row.state == txn_states.ABORTED or txn in silent):
            continue
        try:
            must_lose_nothing(site, target, [name])
        except Disagreement:
            because = f"compaction transaction {txn} did not commit, and no other file is proved to hold the rows"
            yield DirectoryDoubt(name=name, kind=DoubtKind.ONLY_COPY, number=txn, because=because)


def _silent_transactions(site: Site) -> frozenset[TxnId]:
    """Returns the open transactions without a heartbeat for hive.txn.timeout."""
    deadline = site.metastore.silent_before_ms(site.settings.milliseconds("hive.txn.timeout"))
    opened = site.metastore.transactions.open_transactions()
    return frozenset(txn.id for txn in opened if txn.last_heartbeat < deadline)


def _describe(site: Site, target: Target, listing: Listing, name: str, doubts: Iterable[DirectoryDoubt]) -> InDoubt:
    inside = [file for file in listing.files if file.path.startswith(f"{name}/")]
    return InDoubt(
        entity=target.entity,
        location=target.location,
        name=name,
        doubts=tuple(doubts),
        files=len(inside),
        bytes=sum(file.length for file in inside),
        unreadable=_unreadable(site, target, listing, name),
    )


def _unreadable(site: Site, target: Target, listing: Listing, name: str) -> str | None:
    """Returns the error of the first file in ``name`` that a reader cannot open.

    Returns None if all can be opened.
    """
    try:
        acid = parse_directory(name)
        assert acid is not None  # doubts are about bases and deltas
        directory = SortedListing.from_listing(listing, frozenset()).acid_dir(name, acid)
        file_format = file_format_of(site, target)
        for number, source in inputs_of_directory(directory):
            if file_format in (None, FileFormat.ORC):
                with open_files(target.location, [source], number, site.storage):
                    pass
            elif file_format is FileFormat.PARQUET:
                with open_source(site.storage, f"{target.location}/{source.path}") as opened:
                    read_footer(opened)
    except (CompactorError, BadName) as error:
        return str(error)
    return None


def by_entity(directories: Iterable[InDoubt]) -> Mapping[Entity, list[InDoubt]]:
    """Returns the directories of each partition."""
    grouped: dict[Entity, list[InDoubt]] = defaultdict(list)
    for directory in directories:
        grouped[directory.entity].append(directory)
    return grouped
