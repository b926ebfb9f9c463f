"""The returns of compactions for the readers of a table: the same queries before and after each. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

WINDOW_MS = 7 * 86_400_000  #: before and after a compaction, of which queries are compared


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
class Compared:
    """A compaction with the like queries before and after it: their kinds and number, mean seconds, and mean files where
    both sides say them."""

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


def compare(reads: Iterable[ReadOnce], runs: Sequence[RunOnce]) -> list[Compared]:
    """Returns the compactions that have like queries on both sides, in the order of time.

    The queries of a week before a compaction count, and of a week after it, but none beyond the compaction before or after
    it there. Of each kind as many count as the smaller side has; a kind is told by its median.
    """
    by_kind: defaultdict[str, list[ReadOnce]] = defaultdict(list)
    for read in reads:
        by_kind[read.like].append(read)
    ordered = sorted(runs, key=lambda run: run.ended)
    found = (_compared(by_kind, run, *_bounds(ordered, place)) for place, run in enumerate(ordered))
    return [one for one in found if one is not None]


def _bounds(runs: Sequence[RunOnce], place: int) -> tuple[int, int]:
    run = runs[place]
    before = [one.ended for one in runs[:place] if one.partition == run.partition]
    after = [one.began for one in runs[place + 1 :] if one.partition == run.partition]
    return max([run.began - WINDOW_MS, *before]), min([run.ended + WINDOW_MS, *after])


def _compared(by_kind: dict[str, list[ReadOnce]], run: RunOnce, since: int, until: int) -> Compared | None:
    pairs, weights = [], []
    for of_kind in by_kind.values():
        before = [one for one in of_kind if since <= one.at <= run.began]
        after = [one for one in of_kind if run.ended <= one.at - 1000 * one.seconds and one.at <= until]
        if before and after:
            pairs.append((before, after))
            weights.append(min(len(before), len(after)))
    if not pairs:
        return None
    seconds = [[median(one.seconds for one in side) for side in pair] for pair in pairs]
    files = [[_files(side) for side in pair] for pair in pairs]
    told = [(sides, weight) for sides, weight in zip(files, weights, strict=True) if None not in sides]
    return Compared(
        entry_id=run.entry_id,
        partition=run.partition,
        ended=run.ended,
        kinds=len(pairs),
        queries=sum(weights),
        before=fmean([before for before, _ in seconds], weights),
        after=fmean([after for _, after in seconds], weights),
        files_before=_mean([(before, weight) for (before, _), weight in told]),
        files_after=_mean([(after, weight) for (_, after), weight in told]),
    )


def _mean(weighted: Sequence[tuple[float | None, int]]) -> float | None:
    return fmean([value or 0.0 for value, _ in weighted], [weight for _, weight in weighted]) if weighted else None


def _files(side: Sequence[ReadOnce]) -> float | None:
    known = [one.files for one in side if one.files is not None]
    return median(known) if known else None
