"""The number of workers that a request has lost, kept in its error message. Pure.

The queue has no column for it.

Without it, a request whose rows kill every worker would be taken back forever, and every pass would die of it.
"""

from __future__ import annotations

import re

from compactor.compaction.queue_entry import Entry

LOST = "lost worker "  #: how such a message begins
_LOST_WORKER = re.compile(rf"{LOST}([0-9]{{1,6}}): ")


def lost_workers(entry: Entry) -> int:
    """Returns the number of workers that ``entry`` has lost."""
    match = _LOST_WORKER.match(entry.error or "")
    return int(match[1]) if match else 0


def loss_message(number: int, because: str) -> str:
    """Returns the error message of a request that has just lost its ``number``-th worker."""
    return f"{LOST}{number}: {because}"


def last_message(number: int, because: str) -> str:
    """Returns the error message of a request that is not tried again."""
    return (
        f"{loss_message(number, because)}. It is not tried again (compactor.lost.workers): find out in the workers' logs "
        "what kills them, most often lack of memory, and request it again"
    )
