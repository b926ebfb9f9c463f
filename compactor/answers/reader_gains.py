"""The gains of readers: reads of each table, and like queries before and after a compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from compactor.insight.read_returns import ComparedQueries, ReadOnce, RunOnce, compare
from compactor.site.site import Site
from compactor.state.read_counts import ReadsOfTable
from compactor.state.runs import DAY_MS, Run
from compactor.state.state_database import OwnState

DAYS = 30
_MOST_READS, _MOST_RUNS = 20_000, 50  #: of a table that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReads:
    """The reads of a table in some days, and its compactions that have like queries before and after.

    In JSON, ``before`` and ``after`` are the mean seconds of these queries, ``files_before`` and ``files_after`` their mean
    number of files; None if there is nothing to compare.
    """

    table: str
    queries: int = 0
    seconds: float = 0.0
    last_at: int | None = None
    runs: int = 0
    compared: tuple[ComparedQueries, ...] = field(default=())

    @property
    def is_read(self) -> bool:
        return self.queries > 0

    def to_json(self) -> dict[str, object]:
        files = [run for run in self.compared if run.files_before is not None]
        return {
            "table": self.table,
            "queries": self.queries,
            "seconds": round(self.seconds, 3),
            "last_at": self.last_at,
            "runs": self.runs,
            "compared": len(self.compared),
            "like_queries": sum(run.queries for run in self.compared),
            "before": _mean([run.before for run in self.compared], self.compared),
            "after": _mean([run.after for run in self.compared], self.compared),
            "files_before": _mean([run.files_before or 0.0 for run in files], files),
            "files_after": _mean([run.files_after or 0.0 for run in files], files),
        }


def table_reads(site: Site, *, days: int = DAYS, limit: int = 10) -> list[TableReads]:
    """Returns the tables with the longest reads, then those that are compacted although nobody reads them.

    At most ``limit`` of each. Returns nothing if no read was reported.
    """
    state = site.state
    if state is None:
        return []
    since = site.metastore.now_ms() - days * DAY_MS
    sums = state.reads.sums(site.name, since)
    if not sums:
        return []
    runs = state.runs.tables_since(site.name, since)
    most_read = [
        _table(site, state, sums_of_table, since, runs.get((sums_of_table.database, sums_of_table.table), 0))
        for sums_of_table in sums[:limit]
    ]
    unread = sorted(
        runs.keys() - {(sums_of_table.database, sums_of_table.table) for sums_of_table in sums},
        key=lambda table: -runs[table],
    )
    return most_read + [TableReads(table=f"{d}.{t}", runs=runs[d, t]) for d, t in unread[:limit]]


def reads_of(site: Site, database: str, table: str, *, days: int = DAYS) -> TableReads:
    """Returns the reads of one table."""
    state = site.state
    if state is None:
        return TableReads(table=f"{database}.{table}")
    since = site.metastore.now_ms() - days * DAY_MS
    matches = [sums for sums in state.reads.sums(site.name, since) if (sums.database, sums.table) == (database, table)]
    runs = state.runs.tables_since(site.name, since).get((database, table), 0)
    return (
        _table(site, state, matches[0], since, runs) if matches else TableReads(table=f"{database}.{table}", runs=runs)
    )


def _table(site: Site, state: OwnState, sums: ReadsOfTable, since: int, runs: int) -> TableReads:
    compared: list[ComparedQueries] = []
    if runs:
        of_table = (site.name, sums.database, sums.table, since)
        reads = state.reads.of_table(*of_table, _MOST_READS)
        once = [ReadOnce(like=read.like, at=read.at, seconds=read.seconds, files=read.files) for read in reads]
        compared = compare(once, [_run(run) for run in state.runs.of_table(*of_table, _MOST_RUNS)])
    return TableReads(
        table=f"{sums.database}.{sums.table}",
        queries=sums.queries,
        seconds=sums.seconds,
        last_at=sums.last_at,
        runs=runs,
        compared=tuple(compared),
    )


def _run(run: Run) -> RunOnce:
    ended = run.ended_at or 0
    return RunOnce(
        entry_id=run.entry_id, partition=run.entity.partition, began=ended - round(run.seconds * 1000), ended=ended
    )


def _mean(values: Sequence[float], compared: Sequence[ComparedQueries]) -> float | None:
    return round(fmean(values, [run.queries for run in compared]), 4) if compared else None
