"""Decides which rows the history keeps (Hive's ``PurgeCompactionHistoryFunction``).

Unlike Hive, it also purges requests that a user took off the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Settings

#: The settings of a policy; a database or a table may have its own.
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
class RetentionPolicy:
    """The number of rows to keep in each state, and how long rows stay that a later success made moot."""

    keep: Mapping[State, int]
    timeout_ms: int

    @classmethod
    def from_settings(cls, settings: Settings) -> RetentionPolicy:
        """Builds the policy of ``settings``.

        It keeps at least as many failed rows as the failed threshold looks at.
        """
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


def choose_purged(history: Iterable[Entry], policy: RetentionPolicy, now_ms: int) -> tuple[int, ...]:
    """Returns the ids, ascending, of the rows of *one* table or partition that leave the history.

    The newest rows of each state stay. Failed, refused and not-initiated rows go earlier if they began longer ago than
    the time-out and a newer compaction succeeded: a major one for rows of any type, a minor one for minor rows.
    """
    remaining = dict(policy.keep)
    purged: list[int] = []
    major_succeeded = minor_succeeded = False
    for entry in sorted(history, key=lambda e: -e.id):
        if entry.state not in remaining:
            continue
        moot = major_succeeded or (minor_succeeded and entry.type is CompactionType.MINOR)
        old = (entry.start or entry.end or entry.enqueue_time or 0) + policy.timeout_ms < now_ms
        if remaining[entry.state] <= 0 or (entry.state in _TIMES_OUT and moot and old):
            purged.append(entry.id)
        else:
            remaining[entry.state] -= 1
        if entry.state is State.SUCCEEDED:
            major_succeeded = major_succeeded or entry.type is not CompactionType.MINOR
            minor_succeeded = minor_succeeded or entry.type is CompactionType.MINOR
    return tuple(reversed(purged))
