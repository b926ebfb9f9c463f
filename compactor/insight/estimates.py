"""Estimates the time of a compaction from the figures of earlier runs. Pure.

The time is a sum: a constant, and a rate for each entry, file, byte copied and byte re-encoded. The rates are fitted to
the newest runs over the same store, so that the relative error is least; outliers weigh little. Entries that a worker takes
at once wait for each other. They are one run, with the work of all of them. No estimate is longer than the slowest
comparable run allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import median

import numpy as np

from compactor.state.runs import Run
from compactor.state.state_database import OwnState

#: Runs that are looked at, and the least number of similar runs for an estimate.
NEWEST, FEWEST = 200, 5
_ROWS = 2_000  #: rows that are read for them
_FOLDS = 4  #: parts of the runs, each of which is compared with the fit to the others
_ALIKE = 2.0  #: runs within this factor of the nearest one's size are comparable
_MIXED = "MIXED"  #: the type of entries of several types that went together
_ROUNDS = 8  #: of reweighting the errors
_CLOSE = 0.05  #: a relative error that counts as none
_OUTER = 0.9  #: quantile of earlier runs; the next one is expected between it and its opposite
_LEAST_S = 0.001

_Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
ERRORS_OF = 50  #: newest runs whose estimates are compared with their times


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedWork:
    """The work of a compaction: files to open, and bytes to copy and to re-encode.

    ``store`` is the scheme of its location, such as ``hdfs``; ``type`` is Hive's. ``entries`` is the number of entries that
    its worker takes at once; the other figures are their sums.
    """

    store: str
    type: str
    files: int
    bytes_copied: int
    bytes_reencoded: int
    entries: int = 1

    @property
    def parts(self) -> tuple[float, ...]:
        """The parts that time is spent on: the run itself, entries, files, MB copied, MB re-encoded."""
        return (1.0, self.entries, self.files, self.bytes_copied / 1e6, self.bytes_reencoded / 1e6)

    def scale_of(self, other: EstimatedWork) -> float:
        """Returns the factor by which ``other`` must grow to be at least as much work in every respect."""
        pairs = (
            (self.entries, other.entries),
            (1 + self.files, 1 + other.files),
            (1e6 + self.bytes_reencoded, 1e6 + other.bytes_reencoded),
            (1e6 + self.bytes_copied + self.bytes_reencoded, 1e6 + other.bytes_copied + other.bytes_reencoded),
        )
        return max(own / others for own, others in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that has ended, of one entry or of several that went together.

    ``seconds`` is the time from its claim to its commit.

    ``core_seconds`` is None if they were not measured. ``bytes_encoded`` are the bytes written that were not copied.
    """

    work: EstimatedWork
    seconds: float
    core_seconds: float | None = None
    bytes_encoded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of a compaction from ``runs`` similar ones.

    Four out of five runs took between ``low`` and ``high`` seconds. ``core_seconds`` is None if no run measured them.
    """

    runs: int
    seconds: float
    low: float
    high: float
    core_seconds: float | None
    bytes_written: int

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class Estimator:
    """Estimates from earlier runs. Each kind of work is fitted once."""

    def __init__(self, past: Sequence[PastRun]) -> None:
        """Takes the runs, newest first."""
        self._past = past
        self._models: dict[tuple[str, str], _Model | None] = {}

    def estimate(self, work: EstimatedWork) -> Estimate | None:
        """Returns the estimate of ``work``; None if there are too few similar runs."""
        key = (work.store, work.type)
        if key not in self._models:
            like = _find_like(work, self._past)
            self._models[key] = _Model.fit(like) if len(like) >= FEWEST else None
        model = self._models[key]
        return None if model is None else model.estimate(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """The fitted rates in seconds and in core-seconds, and how far runs differed from them."""

    like: Sequence[PastRun]
    rates: _Array
    core_rates: _Array | None
    low: float
    high: float
    shrinks_to: float

    @classmethod
    def fit(cls, like: Sequence[PastRun]) -> _Model:
        ratios = _held_out_ratios(like)
        outer = min(1.0, _OUTER * (len(ratios) + 1) / len(ratios))  # few ratios say little of the next one
        low, high = np.quantile(ratios, (1 - outer, outer))
        measured = [(past.work.parts, past.core_seconds) for past in like if past.core_seconds is not None]
        return cls(
            like=like,
            rates=_fit_times(like),
            core_rates=_fit_rates(measured) if len(measured) >= FEWEST else None,
            low=min(1.0, float(low)),
            high=max(1.0, float(high)),
            shrinks_to=_shrink_factor(like),
        )

    def estimate(self, work: EstimatedWork) -> Estimate:
        seconds = min(_time(work, self.rates), _slowest_comparable(work, self.like))
        return Estimate(
            runs=len(self.like),
            seconds=seconds,
            low=seconds * self.low,
            high=seconds * self.high,
            core_seconds=None if self.core_rates is None else _time(work, self.core_rates),
            bytes_written=work.bytes_copied + round(work.bytes_reencoded * self.shrinks_to),
        )


def _fit_times(runs: Sequence[PastRun]) -> _Array:
    return _fit_rates([(past.work.parts, past.seconds) for past in runs])


def _held_out_ratios(like: Sequence[PastRun]) -> list[float]:
    """Returns taken over expected seconds of each run, by rates that are fitted without it."""
    ratios = []
    for fold in range(_FOLDS):
        rates = _fit_times([past for number, past in enumerate(like) if number % _FOLDS != fold])
        held_out = like[fold::_FOLDS]
        ratios += [past.seconds / _time(past.work, rates) for past in held_out]
    return ratios


def _slowest_comparable(work: EstimatedWork, like: Sequence[PastRun]) -> float:
    """Returns the seconds of the slowest of the runs that are nearest to ``work``, scaled to its size.

    A smaller run is scaled up, and a larger one counts as it is.
    """
    scaled = [(max(1.0, work.scale_of(past.work)), past.seconds) for past in like]
    nearest = min(scale for scale, _ in scaled)
    return max(scale * seconds for scale, seconds in scaled if scale <= _ALIKE * nearest)


def relative_error(expected: float, seconds: float) -> float:
    """Returns the error of an estimate, relative to the time that the run took."""
    return abs(expected - seconds) / max(seconds, _LEAST_S)


def median_error(expected: Sequence[tuple[float, float]]) -> float | None:
    """Returns the median relative error of pairs of (expected, taken) seconds; None without any."""
    return median(relative_error(*pair) for pair in expected) if expected else None


def _find_like(work: EstimatedWork, past: Sequence[PastRun]) -> list[PastRun]:
    """Returns runs over the same store, only those of the same type if there are enough."""
    same_store = [run for run in past if run.work.store == work.store]
    same_type = [run for run in same_store if run.work.type == work.type]
    return (same_type if len(same_type) >= FEWEST else same_store)[:NEWEST]


def _shrink_factor(like: Sequence[PastRun]) -> float:
    """Returns the bytes written for each byte re-encoded."""
    ratios = [past.bytes_encoded / past.work.bytes_reencoded for past in like if past.work.bytes_reencoded]
    return median(ratios) if ratios else 1.0


def _time(work: EstimatedWork, rates: _Array) -> float:
    return max(_LEAST_S, float(np.dot(work.parts, rates)))


def _fit_rates(samples: Sequence[tuple[tuple[float, ...], float]]) -> _Array:
    """Returns the time for one unit of each part that minimizes the relative errors of the samples."""
    taken = np.array([max(seconds, _LEAST_S) for _, seconds in samples])
    parts = np.array([parts for parts, _ in samples]) / taken[:, None]
    weights = np.ones(len(samples))
    rates = np.zeros(parts.shape[1])
    for _ in range(_ROUNDS):
        rates = _solve_non_negative(parts, weights)
        weights = 1 / np.maximum(np.abs(1 - parts @ rates), _CLOSE)
    return rates


def _solve_non_negative(parts: _Array, weights: _Array) -> _Array:
    """Returns the non-negative rates with which ``parts`` come closest to 1 each.

    There are so few parts that every subset with positive rates is tried.
    """
    scale = np.maximum(np.abs(parts).max(axis=0), 1e-300)
    scaled = parts / scale
    gram, ones = (scaled * weights[:, None]).T @ scaled, weights @ scaled
    best, least = np.zeros(parts.shape[1]), 0.0
    indices = range(parts.shape[1])
    for chosen in map(list, chain.from_iterable(combinations(indices, n) for n in range(1, len(indices) + 1))):
        solution = np.linalg.lstsq(gram[np.ix_(chosen, chosen)], ones[chosen], rcond=1e-9)[0]
        if (solution < 0).any():
            continue
        loss = solution @ gram[np.ix_(chosen, chosen)] @ solution - 2 * ones[chosen] @ solution
        if loss < least - 1e-12:
            best, least = np.zeros(parts.shape[1]), loss
            best[chosen] = solution
    rates: _Array = best / scale
    return rates


def store_of(location: str) -> str:
    """Returns the scheme of a location, such as ``s3a`` of ``s3a://bucket/t``; ``file`` for a path."""
    scheme, separator, _ = location.partition("://")
    return scheme.lower() if separator else "file"


def estimator_of(state: OwnState | None, metastore: str, store: str, *, before: int | None = None) -> Estimator:
    """Returns an estimator of a metastore's work over ``store``; without a state it estimates nothing.

    With ``before`` (epoch ms), it knows only the runs that had ended by then.
    """
    return Estimator(past_runs(state, metastore, store, before=before))


def past_runs(state: OwnState | None, metastore: str, store: str, *, before: int | None = None) -> list[PastRun]:
    """Returns the newest runs of a metastore over ``store``, newest first; empty without a state."""
    rows = [] if state is None else state.runs.over_store(metastore, store, _ROWS, before=before)
    groups: dict[str, list[Run]] = {}
    for run in rows:
        groups.setdefault(run.group_key or f"entry {run.entry_id}", []).append(run)
    if len(rows) == _ROWS:
        groups.popitem()  # the oldest, of which rows may be missing
    return [past for group in groups.values() if (past := past_of(group)) is not None][:NEWEST]


def past_of(group: Sequence[Run]) -> PastRun | None:
    """Converts the runs of entries that went together into one; None if they lack figures."""
    works = [_work_of(run) for run in group]
    known = [work for work in works if work is not None]
    if not known or len(known) < len(works):
        return None
    cores = [run.core_seconds for run in group if run.core_seconds is not None]
    types = {work.type for work in known}
    return PastRun(
        work=EstimatedWork(
            store=known[0].store,
            type=types.pop() if len(types) == 1 else _MIXED,
            files=sum(work.files for work in known),
            bytes_copied=sum(work.bytes_copied for work in known),
            bytes_reencoded=sum(work.bytes_reencoded for work in known),
            entries=len(known),
        ),
        seconds=max(run.seconds for run in group),
        core_seconds=sum(cores) if len(cores) == len(group) else None,
        bytes_encoded=sum(max(0, run.bytes_after - (run.bytes_copied or 0)) for run in group),
    )


def _work_of(run: Run) -> EstimatedWork | None:
    if run.store is None or run.bytes_copied is None:
        return None
    encoded = reencoded_of(run.bytes_before - run.bytes_copied, run.stripes_reencoded, run.stripes_dropped)
    return EstimatedWork(
        store=run.store,
        type=run.type.label,
        files=run.files_before,
        bytes_copied=run.bytes_copied,
        bytes_reencoded=encoded,
    )


def reencoded_of(rest: int, reencoded: int, dropped: int) -> int:
    """Splits bytes that are not copied by numbers of stripes; returns those re-encoded, not dropped."""
    return round(max(0, rest) * reencoded / (reencoded + dropped)) if reencoded + dropped else max(0, rest)


def error_of(runs: Sequence[Run]) -> float | None:
    """Returns the median relative error of the estimates of these runs; None if no run had one.

    Entries that went together count once.
    """
    groups = {run.group_key or f"entry {run.entry_id}": run for run in runs}.values()
    return median_error([(run.expected_seconds, run.seconds) for run in groups if run.expected_seconds is not None])
