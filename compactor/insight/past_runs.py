"""Converts the runs of our own state into those of ``estimates``."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.insight.estimates import NEWEST, Estimator, Past, Work, median_error
from compactor.state.runs import Run
from compactor.state.state_database import OwnState

ERRORS_OF = 50  #: newest runs whose estimates are compared with their times


def store_of(location: str) -> str:
    """Returns the scheme of a location, such as ``s3a`` of ``s3a://bucket/t``; ``file`` for a path."""
    scheme, separator, _ = location.partition("://")
    return scheme.lower() if separator else "file"


def estimator_of(state: OwnState | None, metastore: str, store: str) -> Estimator:
    """Returns an estimator of a metastore's work over ``store``; without a state it estimates nothing."""
    return Estimator(past_runs(state, metastore, store))


def past_runs(state: OwnState | None, metastore: str, store: str) -> list[Past]:
    """Returns the newest runs of a metastore over ``store``, newest first; empty without a state."""
    runs = [] if state is None else state.runs.over_store(metastore, store, NEWEST)
    return [past for run in runs if (past := past_of(run)) is not None]


def past_of(run: Run) -> Past | None:
    """Converts a run that has ended; None if it lacks figures."""
    if run.store is None or run.bytes_copied is None:
        return None
    encoded = reencoded_of(run.bytes_before - run.bytes_copied, run.stripes_reencoded, run.stripes_dropped)
    return Past(
        work=Work(
            store=run.store,
            type=run.type.label,
            files=run.files_before,
            bytes_copied=run.bytes_copied,
            bytes_reencoded=encoded,
            together=run.together,
        ),
        seconds=run.seconds,
        core_seconds=run.core_seconds,
        bytes_encoded=max(0, run.bytes_after - run.bytes_copied),
    )


def reencoded_of(rest: int, reencoded: int, dropped: int) -> int:
    """Splits bytes that are not copied by numbers of stripes; returns those re-encoded, not dropped."""
    return round(max(0, rest) * reencoded / (reencoded + dropped)) if reencoded + dropped else max(0, rest)


def error_of(runs: Sequence[Run]) -> float | None:
    """Returns the median relative error of the estimates of these runs; None if no run had one."""
    return median_error([(run.expected_seconds, run.seconds) for run in runs if run.expected_seconds is not None])
