"""Compares the queries of a table's readers before and after each compaction. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from compactor.state.runs import DAY_MS
from compactor.state.state_database import OwnState

WINDOW_MS = 7 * 86_400_000  #: before and after a compaction, in which queries are compared
HARDLY = 0.1  #: reads a day of a table without reported reads, where other tables have some


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnce:
    """A query that read a table, and ended at ``at`` (epoch ms)."""

    like: str
    at: int
    seconds: float
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnce:
    """A compaction of the table or one of its partitions, from ``began`` to ``ended`` (epoch ms)."""

    entry_id: int
    partition: str | None
    began: int
    ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedQueries:
    """A compaction with the like queries before and after it.

    ``before`` and ``after`` are their mean seconds; the mean files are None unless both sides report them.
    """

    entry_id: int
    partition: str | None
    ended: int
    kinds: int
    queries: int
    before: float
    after: float
    files_before: float | None
    files_after: float | None

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def compare(reads: Iterable[ReadOnce], runs: Sequence[RunOnce]) -> list[ComparedQueries]:
    """Returns the compactions that have like queries before and after, oldest first.

    Queries within a week of a compaction count, up to the previous or next compaction of the same place. Each kind of query
    is represented by its median on each side; its weight is the number of queries on the smaller side.
    """
    by_kind: defaultdict[str, list[ReadOnce]] = defaultdict(list)
    for read in reads:
        by_kind[read.like].append(read)
    ordered = sorted(runs, key=lambda run: run.ended)
    comparisons = (_compare_run(by_kind, run, *_find_bounds(ordered, index)) for index, run in enumerate(ordered))
    return [comparison for comparison in comparisons if comparison is not None]


def _find_bounds(runs: Sequence[RunOnce], index: int) -> tuple[int, int]:
    run = runs[index]
    before = [other.ended for other in runs[:index] if other.partition == run.partition]
    after = [other.began for other in runs[index + 1 :] if other.partition == run.partition]
    return max([run.began - WINDOW_MS, *before]), min([run.ended + WINDOW_MS, *after])


def _compare_run(by_kind: dict[str, list[ReadOnce]], run: RunOnce, since: int, until: int) -> ComparedQueries | None:
    pairs, weights = [], []
    for reads in by_kind.values():
        before = [read for read in reads if since <= read.at <= run.began]
        after = [read for read in reads if run.ended <= read.at - 1000 * read.seconds and read.at <= until]
        if before and after:
            pairs.append((before, after))
            weights.append(min(len(before), len(after)))
    if not pairs:
        return None
    seconds = [[median(read.seconds for read in side) for side in pair] for pair in pairs]
    files = [[_median_files(side) for side in pair] for pair in pairs]
    known = [(sides, weight) for sides, weight in zip(files, weights, strict=True) if None not in sides]
    return ComparedQueries(
        entry_id=run.entry_id,
        partition=run.partition,
        ended=run.ended,
        kinds=len(pairs),
        queries=sum(weights),
        before=fmean([before for before, _ in seconds], weights),
        after=fmean([after for _, after in seconds], weights),
        files_before=_mean([(before, weight) for (before, _), weight in known]),
        files_after=_mean([(after, weight) for (_, after), weight in known]),
    )


def _mean(weighted: Sequence[tuple[float | None, int]]) -> float | None:
    return fmean([value or 0.0 for value, _ in weighted], [weight for _, weight in weighted]) if weighted else None


def _median_files(side: Sequence[ReadOnce]) -> float | None:
    known = [read.files for read in side if read.files is not None]
    return median(known) if known else None


@dataclass(frozen=True, slots=True)
class ReadsADay:
    """The reads a day by database and table; empty where no reads are reported."""

    by_table: Mapping[tuple[str, str], float]

    @classmethod
    def since(cls, state: OwnState | None, metastore: str, now: int, days: int) -> ReadsADay:
        """Counts the reads of a metastore's tables in the last ``days`` before ``now`` (epoch ms)."""
        sums = [] if state is None else state.reads.sums(metastore, now - days * DAY_MS)
        return cls({(table.database, table.table): table.queries / days for table in sums})

    def for_table(self, database: str, table: str) -> float:
        """Returns the reads a day of one table; 1 where no reads are reported."""
        return self.by_table.get((database, table), HARDLY) if self.by_table else 1.0
