"""The life of one compaction request. Codes are Hive's own (``TxnStore``); the table below is the only one."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from compactor.errors import CompactorError


class State(enum.Enum):
    """CQ_STATE and CC_STATE."""

    INITIATED = "i"  #: queued, nobody works on it
    WORKING = "w"  #: a worker holds it and heartbeats its transaction
    READY_FOR_CLEANING = "r"  #: the result is visible, obsolete directories are still in storage
    SUCCEEDED = "s"  #: obsolete directories are gone
    FAILED = "f"  #: verification or cleaning failed; CC_ERROR_MESSAGE says why
    DID_NOT_INITIATE = "a"  #: the initiator gave up on the table after too many failures; only in the history
    REFUSED = "c"  #: nothing to do, the table is gone, or it may not be compacted
    ABORTED = "x"  #: taken off the queue by a person

    @property
    def label(self) -> str:
        """The words of Hive's SHOW COMPACTIONS."""
        return _LABELS[self]


_S = State
_LABELS = {
    _S.INITIATED: "initiated",
    _S.WORKING: "working",
    _S.READY_FOR_CLEANING: "ready for cleaning",
    _S.SUCCEEDED: "succeeded",
    _S.FAILED: "failed",
    _S.DID_NOT_INITIATE: "did not initiate",
    _S.REFUSED: "refused",
    _S.ABORTED: "aborted",
}

#: From each state of the queue to where a row may go. A row changes only along an edge of this table.
NEXT: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        _S.INITIATED: frozenset({_S.WORKING, _S.ABORTED, _S.FAILED}),
        _S.WORKING: frozenset({_S.READY_FOR_CLEANING, _S.INITIATED, _S.FAILED, _S.REFUSED, _S.ABORTED}),
        _S.READY_FOR_CLEANING: frozenset({_S.READY_FOR_CLEANING, _S.SUCCEEDED, _S.FAILED, _S.REFUSED}),
        _S.SUCCEEDED: frozenset(),
        _S.FAILED: frozenset(),
        _S.DID_NOT_INITIATE: frozenset(),
        _S.REFUSED: frozenset(),
        _S.ABORTED: frozenset(),
    }
)
TERMINAL = frozenset(state for state, following in NEXT.items() if not following)


class IllegalTransition(CompactorError):
    """A row was to move to a state that it cannot reach from where it is."""


def check(entry_id: int, current: State, wanted: State) -> None:
    """Nothing, if the table above allows the move.

    Raises:
        IllegalTransition: otherwise; the row stays as it was.
    """
    if wanted not in NEXT[current]:
        raise IllegalTransition(
            f"compaction {entry_id}: {current.label} -> {wanted.label} is not allowed; allowed is "
            f"{', '.join(sorted(s.label for s in NEXT[current])) or 'nothing, it has ended'}"
        )


class CompactionType(enum.Enum):
    """CQ_TYPE and CC_TYPE."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_CLEANUP = "c"  #: removes what aborted transactions wrote; only in the queue

    @property
    def label(self) -> str:
        """Hive's word in SHOW COMPACTIONS and ALTER TABLE ... COMPACT."""
        return self.name
