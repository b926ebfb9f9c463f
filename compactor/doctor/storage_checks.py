"""The doctor's check of storage.

Locations that cannot be read or written, leftovers, and names that Hive cannot read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compactor.acid import txn_states
from compactor.acid.names import Quarantine, parse_directory, parse_hidden, parse_quarantine, parse_staging
from compactor.base.errors import BadName, CompactorError, failing_alone
from compactor.base.printable import count_text
from compactor.metastore.catalog.values import Partition, Table
from compactor.settings.precedence import Settings
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.mode import Mode, may
from compactor.site.quarantine import SETTING
from compactor.site.site import Site, path_of
from compactor.storage.capabilities import Capabilities


@dataclass(slots=True, kw_only=True)
class _PathWalk:
    """The results of one walk over the directories of all transactional tables."""

    tables: int
    directories: int = 0
    unreachable: list[str] = field(default_factory=list)
    unwritable: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    quarantines: list[str] = field(default_factory=list)
    cannot_keep: list[str] = field(default_factory=list)
    stores: Counter[Capabilities] = field(default_factory=Counter)

    def visit(self, site: Site, table: Table, partition: Partition | None, settings: Settings) -> None:
        self.directories += 1
        try:
            with failing_alone(partition or table):
                path = path_of(site.storage, table, partition)
                store = site.storage.capabilities(path)
                self.stores[store] += 1
                if settings.milliseconds(SETTING) and may(settings, Mode.CLEAN) and not store.renames:
                    self.cannot_keep.append(path)
                site.storage.listing(path)
                children = site.storage.children(path)
                if may(settings, Mode.COMPACT) and site.storage.may_write(path) is False:
                    self.unwritable.append(path)
        except CompactorError as error:
            self.unreachable.append(str(error))
            return
        self.quarantines += [f"{path}/{child}" for child in children if parse_quarantine(child)]
        self.orphans += [f"{path}/{child}" for child in children if _is_orphan(site, child)]
        self.malformed += [f"{path}/{child}" for child in children if _is_malformed(child)]


def check_storage(site: Site) -> Iterator[Finding]:
    """Walks over all transactional tables once; yields unusable locations, leftovers and malformed names."""
    tables = [t for t in site.metastore.catalog.tables() if t.is_transactional]
    walk = _PathWalk(tables=len(tables))
    for table in tables:
        partitions = site.metastore.catalog.partitions(table) if table.partition_keys else [None]
        settings = site.settings_for(table)
        for partition in partitions:
            walk.visit(site, table, partition, settings)
    yield from _findings(walk)
    yield from quarantine_findings(site, walk.quarantines, walk.cannot_keep)


def _findings(walk: _PathWalk) -> Iterator[Finding]:
    checked = (
        f"{count_text(walk.directories, 'directory', 'directories')} of "
        f"{count_text(walk.tables, 'transactional table')}"
    )
    if walk.unreachable:
        yield Finding(
            level=Level.FAIL,
            subject="storage",
            found=first_few(walk.unreachable),
            wanted=f"{checked} that can be listed",
            fix="mount the warehouse here, grant this user the right, correct the location, or drop what is gone",
        )
    else:
        yield ok("storage", f"{checked} can be listed")
    if walk.unwritable:
        yield Finding(
            level=Level.WARN,
            subject="writing",
            found=first_few([f"this user may not write to {path}" for path in walk.unwritable]),
            wanted="directories that the user who compacts may write to",
            fix="run workers and cleaners as the tables' owner (docs/production.md), or grant this user the right",
        )
    for guarantees, number in walk.stores.items():
        yield ok("guarantees", f"{count_text(number, 'directory', 'directories')} in {guarantees}")
    if walk.orphans:
        yield Finding(
            level=Level.WARN,
            subject="orphans",
            found=first_few(walk.orphans),
            wanted="no hidden directory of a compaction that has ended",
            fix="`compactor run cleaner --once` removes them once the mode is clean and no older reader is left",
        )
    if walk.malformed:
        yield Finding(
            level=Level.FAIL,
            subject="directory names",
            found=first_few(walk.malformed),
            wanted="names of bases and deltas that Hive can read; nothing in the same directory is compacted or cleaned",
            fix="find out who wrote them and move them out of the table",
        )


def _is_orphan(site: Site, child: str) -> bool:
    staging, hidden = parse_staging(child), parse_hidden(child)
    if staging is not None:
        return site.metastore.transactions.state(staging) != txn_states.OPEN
    return hidden is not None and hidden.until < site.lowest_open()


def _is_malformed(child: str) -> bool:
    try:
        parse_directory(child)
    except BadName:
        return True
    return False


_LATE_MS = 3_600_000  #: a housekeeper that runs looks far more often
_MB = 1_000_000


def quarantine_findings(site: Site, seen: Sequence[str], cannot_keep: Sequence[str]) -> Iterator[Finding]:
    """Yields findings on quarantine; nothing where it was never used.

    Args:
        seen: paths of the quarantines that a walk over all tables found.
        cannot_keep: locations where ``compactor.quarantine`` is set and the store has no directory rename.
    """
    if cannot_keep:
        yield Finding(
            level=Level.FAIL,
            subject="quarantine",
            found=f"{SETTING} is set and the store cannot keep directories: {first_few(list(cannot_keep))}",
            wanted="a store with directory rename; in this one nothing is cleaned",
            fix=f"set the table's property {SETTING} to 0s, and rely on the store's own versions",
        )
    quarantines = [] if site.state is None else site.state.quarantines.all(site.name)
    known = {
        f"{quarantine.location}/{Quarantine(entry_id=quarantine.entry_id, is_erased=erased).name}"
        for quarantine in quarantines
        for erased in (False, True)
    }
    if strays := sorted(set(seen) - known):
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"not listed in our state: {first_few(strays)}",
            wanted="quarantines that `compactor show quarantine` lists; nothing erases others",
            fix="they were copied here, or the state was created again: remove them by hand once nobody needs them",
        )
    if not quarantines:
        return
    now = site.metastore.now_ms()
    late = [quarantine for quarantine in quarantines if quarantine.names and quarantine.until < now - _LATE_MS]
    if late:
        yield Finding(
            level=Level.WARN,
            subject="quarantine",
            found=f"{len(late)} quarantines are overdue, the first of {late[0].entity}",
            wanted="a housekeeper that erases them",
            fix="`compactor run housekeeper --once` says why: no_cleanup, a mode below clean, or a missing mount",
        )
    total_mb = sum(quarantine.bytes for quarantine in quarantines) // _MB
    yield ok("quarantine", f"{len(quarantines)} quarantines, {total_mb} MB")
