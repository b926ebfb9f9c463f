"""Raises the counters of a restored metastore above the numbers in its tables' files (PROTOCOL 11.4)."""

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
    """The directories in doubt of all transactional tables, and the lag of the transaction counter.

    ``newest`` is the newest transaction now, and ``wanted`` the smallest value that it must have. ``unlisted`` are the
    tables that cannot be listed, each with the error.
    """

    tables_in_doubt: tuple[TableInDoubt, ...]
    newest: TxnId
    wanted: TxnId
    unlisted: tuple[str, ...] = ()

    @property
    def directories(self) -> list[InDoubt]:
        return [entry for table in self.tables_in_doubt for entry in table.directories]

    def to_json(self) -> dict[str, object]:
        return {
            "newest_transaction": self.newest,
            "wanted_transaction": self.wanted,
            "directories": [{**entry.to_json(), "ruling": None} for entry in self.directories],
            "unlisted": list(self.unlisted),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """The result: the newest transaction, and the resolution of each table's directories."""

    newest: TxnId
    tables: Mapping[str, Resolution]
    quarantined: tuple[Resolved, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "newest_transaction": self.newest,
            "quarantined": [entry.to_json() for entry in self.quarantined],
            "tables": {name: entry.to_json() for name, entry in self.tables.items()},
        }


def measure_gap(site: Site) -> Gap:
    """Returns the directories in doubt of every transactional table; nothing is written."""
    tables_in_doubt: list[TableInDoubt] = []
    unlisted: list[str] = []
    for table in site.metastore.catalog.tables():
        if not table.is_transactional:
            continue
        try:
            with failing_alone(table):
                directories = in_doubt(site, table)
        except CompactorError as error:
            unlisted.append(f"{table}: {error}")
            continue
        if directories:
            tables_in_doubt.append(TableInDoubt(table, directories))
    numbers = [
        doubt.number
        for _, directories in tables_in_doubt
        for entry in directories
        for doubt in entry.doubts
        if doubt.kind is DoubtKind.NEVER_OPENED
    ]
    newest = site.metastore.transactions.newest()
    return Gap(
        tables_in_doubt=tuple(tables_in_doubt),
        newest=newest,
        wanted=TxnId(max(numbers, default=newest)),
        unlisted=tuple(unlisted),
    )


def advance(site: Site, rulings: Mapping[tuple[str, str], Ruling]) -> Advanced:
    """Carries out ``rulings``, by table and ``InDoubt.path``, and raises every counter.

    Directories to quarantine are set aside before any counter is raised, since they could count as committed afterwards.
    After a failure half-way, a second call continues.

    Raises:
        Refused: a ruling is missing or cannot be carried out, or a table cannot be listed. Nothing was changed.
        LockNotGranted: a partition is being read or written.
    """
    must_write(site.settings, f"metastore {site.name}")
    gap = measure_gap(site)
    if gap.unlisted:
        raise Refused(
            f"metastore {site.name}: {len(gap.unlisted)} tables cannot be listed, so what is in doubt there is unknown; "
            f"nothing was changed; {'; '.join(gap.unlisted[:3])}"
        )
    ruled = {str(table): _of_table(table, directories, rulings) for table, directories in gap.tables_in_doubt}
    for table, directories in gap.tables_in_doubt:
        must_be_ruled(directories, ruled[str(table)])
    restore_claim_token(site)
    aside: list[Resolved] = []
    for table, directories in gap.tables_in_doubt:
        aside += quarantine(
            site, [entry for entry in directories if ruled[str(table)][entry.path] is Ruling.QUARANTINE]
        )
    opening = NewTransaction(user=site.user, host=site.host, type=TxnType.COMPACTION, agent=site.identity("advance"))
    if site.metastore.marks.raise_transactions(gap.wanted, opening):
        log.warning("metastore %s: newest transaction raised from %d to %d", site.name, gap.newest, gap.wanted)
        reach(CommandStep.TRANSACTIONS_RAISED)
    tables = {str(table): resolve(site, table, ruled[str(table)]) for table, _ in gap.tables_in_doubt}
    return Advanced(newest=site.metastore.transactions.newest(), tables=tables, quarantined=tuple(aside))


def _of_table(
    table: Table, tables_in_doubt: Sequence[InDoubt], rulings: Mapping[tuple[str, str], Ruling]
) -> dict[str, Ruling]:
    return {
        entry.path: rulings[str(table), entry.path] for entry in tables_in_doubt if (str(table), entry.path) in rulings
    }
