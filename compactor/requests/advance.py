"""Raises the counters of a restored metastore above the numbers that its tables' files already have (PROTOCOL 11.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compactor.base.errors import CompactorError, Refused, failing_alone
from compactor.base.ids import TxnId
from compactor.base.steps import CommandStep, reach
from compactor.compaction.disagreement import DoubtKind
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.in_doubt import InDoubt, in_doubt
from compactor.requests.resolve import Resolution, Resolved, Ruling, must_be_ruled, quarantine, resolve
from compactor.site.mode import must_write
from compactor.site.restored_database import restore_claim_token
from compactor.site.site import Site

log = logging.getLogger(__name__)


class TableInDoubt(NamedTuple):
    """A table with directories in doubt."""

    table: Table
    directories: Sequence[InDoubt]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The directories of every transactional table that are in doubt, and how far the transaction counter is behind.

    ``newest`` is the newest transaction now, ``wanted`` what it must be at least. ``unlisted`` are tables that cannot be
    listed, each with the error.
    """

    found: tuple[TableInDoubt, ...]
    newest: TxnId
    wanted: TxnId
    unlisted: tuple[str, ...] = ()

    @property
    def directories(self) -> list[InDoubt]:
        return [one for table in self.found for one in table.directories]

    def to_json(self) -> dict[str, object]:
        return {
            "newest_transaction": self.newest,
            "wanted_transaction": self.wanted,
            "directories": [{**one.to_json(), "ruling": None} for one in self.directories],
            "unlisted": list(self.unlisted),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """The result: the newest transaction, and what became of each table's directories."""

    newest: TxnId
    tables: Mapping[str, Resolution]
    quarantined: tuple[Resolved, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "newest_transaction": self.newest,
            "quarantined": [one.to_json() for one in self.quarantined],
            "tables": {name: one.to_json() for name, one in self.tables.items()},
        }


def measure_gap(site: Site) -> Gap:
    """Returns what is in doubt in every transactional table; nothing is written."""
    found: list[TableInDoubt] = []
    unlisted: list[str] = []
    for table in site.metastore.catalog.tables():
        if not table.is_transactional:
            continue
        try:
            with failing_alone(table):
                here = in_doubt(site, table)
        except CompactorError as error:
            unlisted.append(f"{table}: {error}")
            continue
        if here:
            found.append(TableInDoubt(table, here))
    numbers = [
        doubt.number
        for _, here in found
        for one in here
        for doubt in one.doubts
        if doubt.kind is DoubtKind.NEVER_OPENED
    ]
    newest = site.metastore.transactions.newest()
    return Gap(found=tuple(found), newest=newest, wanted=TxnId(max(numbers, default=newest)), unlisted=tuple(unlisted))


def advance(site: Site, rulings: Mapping[tuple[str, str], Ruling]) -> Advanced:
    """Carries out ``rulings``, by table and ``InDoubt.path``, on everything in doubt, and raises every counter above it.

    What is to be quarantined is set aside before any counter is raised, since it may count as committed afterwards. If it
    fails half-way, a second call goes on from there.

    Raises:
        Refused: a directory has no ruling, or one that cannot be carried out; or a table cannot be listed. Nothing was
            changed.
        LockNotGranted: a partition is being read or written.
    """
    must_write(site.settings, f"metastore {site.name}")
    gap = measure_gap(site)
    if gap.unlisted:
        raise Refused(
            f"metastore {site.name}: {len(gap.unlisted)} tables cannot be listed, so what is in doubt there is unknown; "
            f"nothing was changed; {'; '.join(gap.unlisted[:3])}"
        )
    ruled = {str(table): _of_table(table, here, rulings) for table, here in gap.found}
    for table, here in gap.found:
        must_be_ruled(here, ruled[str(table)])
    restore_claim_token(site)
    aside: list[Resolved] = []
    for table, here in gap.found:
        aside += quarantine(site, [one for one in here if ruled[str(table)][one.path] is Ruling.QUARANTINE])
    opening = NewTransaction(user=site.user, host=site.host, type=TxnType.COMPACTION, agent=site.identity("advance"))
    if site.metastore.counters.raise_transactions(gap.wanted, opening):
        log.warning("metastore %s: newest transaction raised from %d to %d", site.name, gap.newest, gap.wanted)
        reach(CommandStep.TRANSACTIONS_RAISED)
    tables = {str(table): resolve(site, table, ruled[str(table)]) for table, _ in gap.found}
    return Advanced(newest=site.metastore.transactions.newest(), tables=tables, quarantined=tuple(aside))


def _of_table(table: Table, found: Sequence[InDoubt], rulings: Mapping[tuple[str, str], Ruling]) -> dict[str, Ruling]:
    return {one.path: rulings[str(table), one.path] for one in found if (str(table), one.path) in rulings}
