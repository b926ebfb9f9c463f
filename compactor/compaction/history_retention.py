"""Decides which rows the history keeps (Hive's ``PurgeCompactionHistoryFunction``).

Unlike Hive, it purges requests that a person took off the queue as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Settings

#: The settings that a policy is made of; a database or a table may have its own.
SETTINGS = (
    "hive.compactor.history.retention.succeeded",
    "hive.compactor.history.retention.failed",
    "hive.compactor.history.retention.did.not.initiate",
    "hive.compactor.history.retention.refused",
    "hive.compactor.history.retention.timeout",
    "compactor.history.retention.aborted",
    "hive.compactor.initiator.failed.compacts.threshold",
)
_TIMES_OUT = frozenset({State.FAILED, State.DID_NOT_INITIATE, State.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The number of rows kept per state for one table or partition, and how long rows made moot by a success stay."""

    keep: Mapping[State, int]
    timeout_ms: int

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """Builds the policy of ``settings``; it never keeps fewer failed rows than the failed threshold looks at."""
        failed = settings.integer("hive.compactor.history.retention.failed")
        looked_at = settings.integer("hive.compactor.initiator.failed.compacts.threshold")
        return cls(
            keep=MappingProxyType(
                {
                    State.SUCCEEDED: settings.integer("hive.compactor.history.retention.succeeded"),
                    State.FAILED: max(failed, looked_at),
                    State.DID_NOT_INITIATE: settings.integer("hive.compactor.history.retention.did.not.initiate"),
                    State.REFUSED: settings.integer("hive.compactor.history.retention.refused"),
                    State.ABORTED: settings.integer("compactor.history.retention.aborted"),
                }
            ),
            timeout_ms=settings.milliseconds("hive.compactor.history.retention.timeout"),
        )


def to_purge(history: Iterable[Entry], policy: Policy, now_ms: int) -> tuple[int, ...]:
    """Returns the ids, ascending, of the rows of *one* table or partition that leave the history.

    The newest rows of each state stay. Failed, refused and not-initiated rows go earlier if they began longer ago than
    the time-out and a newer compaction succeeded: a major one for rows of any type, a minor one for minor rows.
    """
    left = dict(policy.keep)
    gone: list[int] = []
    major_succeeded = minor_succeeded = False
    for entry in sorted(history, key=lambda e: -e.id):
        if entry.state not in left:
            continue
        moot = major_succeeded or (minor_succeeded and entry.type is CompactionType.MINOR)
        old = (entry.start or entry.end or entry.enqueue_time or 0) + policy.timeout_ms < now_ms
        if left[entry.state] <= 0 or (entry.state in _TIMES_OUT and moot and old):
            gone.append(entry.id)
        else:
            left[entry.state] -= 1
        if entry.state is State.SUCCEEDED:
            major_succeeded = major_succeeded or entry.type is not CompactionType.MINOR
            minor_succeeded = minor_succeeded or entry.type is CompactionType.MINOR
    return tuple(reversed(gone))
