"""The states of a compaction request and the transitions between them.

The codes are Hive's (``TxnStore``).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from compactor.base.errors import CompactorError, Refused


class State(enum.Enum):
    """CQ_STATE and CC_STATE."""

    INITIATED = "i"  #: queued, not claimed by any worker
    WORKING = "w"  #: claimed by a worker that heartbeats its transaction
    READY_FOR_CLEANING = "r"  #: the result is visible, obsolete directories are still in storage
    SUCCEEDED = "s"  #: obsolete directories are gone
    FAILED = "f"  #: verification or cleaning failed; CC_ERROR_MESSAGE says why
    DID_NOT_INITIATE = "a"  #: the initiator gave up on the table after too many failures; only in the history
    REFUSED = "c"  #: nothing to do, the table is gone, or it may not be compacted
    ABORTED = "x"  #: taken off the queue by a user

    @property
    def label(self) -> str:
        """The state in the words of Hive's SHOW COMPACTIONS."""
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

#: The states a row may move to from each state. A row changes only along an edge of this table.
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
ENDED_BADLY = (_S.FAILED, _S.REFUSED, _S.ABORTED)  #: states after which the same request may be made again


class IllegalTransition(CompactorError):
    """An attempt to move a row to a state it cannot reach from its current one."""


def check_transition(entry_id: int, current: State, target: State) -> None:
    """Checks that ``NEXT`` allows the move.

    Raises:
        IllegalTransition: it does not.
    """
    if target not in NEXT[current]:
        raise IllegalTransition(
            f"compaction {entry_id}: {current.label} -> {target.label} is not allowed; allowed is "
            f"{', '.join(sorted(s.label for s in NEXT[current])) or 'nothing, it has ended'}"
        )


class CompactionType(enum.Enum):
    """CQ_TYPE and CC_TYPE."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_CLEANUP = "c"  #: removes the output of aborted transactions; only in the queue
    SMART_OPTIMIZE = "s"  #: Hive's own choice for an Iceberg table; its rows are left to Hive

    @property
    def label(self) -> str:
        """The type in Hive's word, as in SHOW COMPACTIONS and ALTER TABLE ... COMPACT."""
        return self.name


def parse_type(text: str) -> CompactionType:
    """Parses ``major``, ``minor`` or ``rebalance`` in any case.

    Raises:
        Refused: ``text`` is something else.
    """
    allowed = (CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE)
    for kind in allowed:
        if text.strip().lower() == kind.label.lower():
            return kind
    raise Refused(f"compaction type {text!r}: expected one of {', '.join(k.label.lower() for k in allowed)}")
