"""The outcome of a worker's work on an entry."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from compactor.base.ids import TxnId
from compactor.compaction.entry import Entry
from compactor.rewrite.plan.plan import NOTHING_LEFT, Remainder
from compactor.rewrite.plan.unit import Figures


class Result(enum.Enum):
    """The result of a worker's work on an entry."""

    COMPACTED = "compacted"
    CLEAN_ONLY = "nothing to merge, obsolete directories are left to the cleaner"
    REFUSED = "refused"
    FAILED = "failed"
    WAITING = "put back into the queue"
    LOST = "somebody else's by now"
    ABORTED = "aborted by a person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of the work on one entry.

    ``message`` gives the reason; ``seconds`` run from claim to commit.
    """

    entry: Entry
    result: Result
    message: str = ""
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    together: int = 1  #: number of entries in the group, each of which waits for the others
    output: tuple[str, ...] = ()
    location: str = ""
    inputs: tuple[str, ...] = ()  #: top-level names that were read; in ``location``, like ``output``
    txn: TxnId | None = None
    worker_id: str | None = None
    left: Remainder = NOTHING_LEFT  #: input that a bound of the request left out
