"""The runs of our own state as the model of ``estimates`` takes them."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.insight.estimates import NEWEST, Estimator, Past, Work, median_error
from compactor.state.runs import Run
from compactor.state.store import OwnState

ERRORS_OF = 50  #: newest runs of which the error of the estimates is told


def store_of(location: str) -> str:
    """Returns the scheme of a location; ``file`` for a path."""
    scheme, separator, _ = location.partition("://")
    return scheme.lower() if separator else "file"


def estimator_of(state: OwnState | None, metastore: str, store: str) -> Estimator:
    """Returns the estimates of a metastore's work over ``store``, from one statement; it has none without a state."""
    return Estimator(past_runs(state, metastore, store))


def past_runs(state: OwnState | None, metastore: str, store: str) -> list[Past]:
    """Returns the newest runs of a metastore over ``store``, newest first; none without a state."""
    runs = [] if state is None else state.runs.over_store(metastore, store, NEWEST)
    return [past for run in runs if (past := past_of(run)) is not None]


def past_of(run: Run) -> Past | None:
    """Returns a run that has ended; None if it does not say enough."""
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
    """Returns how many of the bytes that are not copied are re-encoded, by numbers of stripes: the others are dropped."""
    return round(max(0, rest) * reencoded / (reencoded + dropped)) if reencoded + dropped else max(0, rest)


def error_of(runs: Sequence[Run]) -> float | None:
    """Returns the median error of the estimates of these runs, in proportion; None if nothing was expected of any."""
    return median_error([(run.expected_seconds, run.seconds) for run in runs if run.expected_seconds is not None])
