"""The time that a compaction will take, from the figures of runs that have ended. Pure.

A run takes something for itself, and then for each file, each byte copied and each byte re-encoded; how much of each is
fitted to the newest runs over the same store, so that the error in proportion is least. The slow run among many weighs
little. Runs that went together wait for each other: each is taken to have done the work of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from statistics import median

import numpy as np

#: Runs that are looked at, and how few of a kind say nothing.
NEWEST, FEWEST = 200, 5
_ROUNDS = 8  #: of weighing the errors anew
_CLOSE = 0.05  #: an error in proportion that is as good as none
_OUTER = (0.1, 0.9)  #: quantiles of earlier runs between which the next one is expected
_LEAST_S = 0.001

_Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a compaction: bytes of its input that are copied and re-encoded, and files that it opens.

    ``store`` is the scheme of its location, ``type`` that of Hive. ``together`` is the number of entries that its worker
    takes at once.
    """

    store: str
    type: str
    files: int
    bytes_copied: int
    bytes_reencoded: int
    together: int = 1

    @property
    def parts(self) -> tuple[float, ...]:
        """The parts that time is spent on: the run itself, files, MB copied, MB re-encoded."""
        return (
            1.0,
            *(self.together * one for one in (self.files, self.bytes_copied / 1e6, self.bytes_reencoded / 1e6)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A run that has ended: seconds from its claim to its commit, core-seconds spent (None: not counted), and bytes written
    that were not copied."""

    work: Work
    seconds: float
    core_seconds: float | None = None
    bytes_encoded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expectation of a compaction, from ``runs`` runs like it: seconds, of which four runs in five were between ``low``
    and ``high``; core-seconds and bytes written, None where no run says so."""

    runs: int
    seconds: float
    low: float
    high: float
    core_seconds: float | None
    bytes_written: int

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class Estimator:
    """Estimates from some runs that have ended. Each kind of work is fitted once."""

    def __init__(self, past: Sequence[Past]) -> None:
        """Takes the runs, newest first."""
        self._past = past
        self._models: dict[tuple[str, str], _Model | None] = {}

    def estimate(self, work: Work) -> Estimate | None:
        """Returns what is expected of ``work``; None if there are too few runs like it to say."""
        key = (work.store, work.type)
        if key not in self._models:
            like = _like(work, self._past)
            self._models[key] = _Model.of(like) if len(like) >= FEWEST else None
        model = self._models[key]
        return None if model is None else model.estimate(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """The fitted figures: rates in seconds, rates in core-seconds, and how runs differed from it."""

    runs: int
    rates: _Array
    core_rates: _Array | None
    low: float
    high: float
    shrinks_to: float

    @classmethod
    def of(cls, like: Sequence[Past]) -> _Model:
        rates = _fitted([(one.work.parts, one.seconds) for one in like])
        ratios = [one.seconds / _time(one.work, rates) for one in like]
        low, high = np.quantile(ratios, _OUTER)
        alone = [
            (replace(one.work, together=1).parts, one.core_seconds) for one in like if one.core_seconds is not None
        ]
        return cls(
            runs=len(like),
            rates=rates,
            core_rates=_fitted(alone) if len(alone) >= FEWEST else None,
            low=min(1.0, float(low)),
            high=max(1.0, float(high)),
            shrinks_to=_shrinking(like),
        )

    def estimate(self, work: Work) -> Estimate:
        seconds = _time(work, self.rates)
        alone = replace(work, together=1)
        return Estimate(
            runs=self.runs,
            seconds=seconds,
            low=seconds * self.low,
            high=seconds * self.high,
            core_seconds=None if self.core_rates is None else _time(alone, self.core_rates),
            bytes_written=work.bytes_copied + round(work.bytes_reencoded * self.shrinks_to),
        )


def relative_error(expected: float, seconds: float) -> float:
    """Returns the error of an estimate in proportion to what a run took."""
    return abs(expected - seconds) / max(seconds, _LEAST_S)


def median_error(expected: Sequence[tuple[float, float]]) -> float | None:
    """Returns the median of the errors of (expected, taken); None if there is no estimate among them."""
    return median(relative_error(*one) for one in expected) if expected else None


def _like(work: Work, past: Sequence[Past]) -> list[Past]:
    """Returns runs over the same store: those of the same type if these are enough."""
    there = [one for one in past if one.work.store == work.store]
    same = [one for one in there if one.work.type == work.type]
    return (same if len(same) >= FEWEST else there)[:NEWEST]


def _shrinking(like: Sequence[Past]) -> float:
    """Returns how many bytes become of one that is re-encoded."""
    ratios = [one.bytes_encoded / one.work.bytes_reencoded for one in like if one.work.bytes_reencoded]
    return median(ratios) if ratios else 1.0


def _time(work: Work, rates: _Array) -> float:
    return max(_LEAST_S, float(np.dot(work.parts, rates)))


def _fitted(samples: Sequence[tuple[tuple[float, ...], float]]) -> _Array:
    """Returns the time for one of each part with which samples of parts and time have the least errors in proportion."""
    taken = np.array([max(seconds, _LEAST_S) for _, seconds in samples])
    parts = np.array([one for one, _ in samples]) / taken[:, None]
    weights = np.ones(len(samples))
    rates = np.zeros(parts.shape[1])
    for _ in range(_ROUNDS):
        rates = _non_negative(parts, weights)
        weights = 1 / np.maximum(np.abs(1 - parts @ rates), _CLOSE)
    return rates


def _non_negative(parts: _Array, weights: _Array) -> _Array:
    """Returns the rates, none below zero, with which ``parts`` come closest to 1 each. There are so few parts that every
    choice of those that take any time is tried."""
    scale = np.maximum(np.abs(parts).max(axis=0), 1e-300)
    scaled = parts / scale
    gram, ones = (scaled * weights[:, None]).T @ scaled, weights @ scaled
    best, least = np.zeros(parts.shape[1]), 0.0
    every = range(parts.shape[1])
    for chosen in map(list, chain.from_iterable(combinations(every, n) for n in range(1, len(every) + 1))):
        found = np.linalg.lstsq(gram[np.ix_(chosen, chosen)], ones[chosen], rcond=1e-9)[0]
        if (found < 0).any():
            continue
        loss = found @ gram[np.ix_(chosen, chosen)] @ found - 2 * ones[chosen] @ found
        if loss < least - 1e-12:
            best, least = np.zeros(parts.shape[1]), loss
            best[chosen] = found
    rates: _Array = best / scale
    return rates
