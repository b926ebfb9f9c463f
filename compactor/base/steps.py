"""The points between two effects at which a process may die or another may act.

Code between two effects calls ``reach(Step.X)``. For crash tests, ``COMPACTOR_DIE_AT=STEP`` or ``STEP:n`` in the environment
kills the process with SIGKILL when it reaches that step (for the n-th time), and ``COMPACTOR_STOP_AT`` suspends it with
SIGSTOP. One test runs over all members, so it notices a step without a test. Tests of interleavings add functions to
``watchers``, which get each step that this process reaches.
"""

from __future__ import annotations

import enum
import os
import signal
import threading
from collections.abc import Callable
from typing import TypeAlias


class Step(enum.Enum):
    """The points at which a process may die, in the order in which a request reaches them."""

    MARKED = "a mark is in the metastore's database, not yet in the record outside it"
    ENQUEUED = "the initiator's row is in the queue"
    CLAIMED = "i -> w is committed"
    TXN_OPENED = "the compaction transaction is open, no lock yet"
    LOCKED = "the shared lock is held"
    RECORDED = "CQ_TXN_ID, CQ_HIGHEST_WRITE_ID and the component row are committed"
    DIRECTORY_CLAIMED = "the directory has the table's claim, nothing is staged"
    ATTEMPT_STARTED = "an executor has created its attempt file"
    ATTEMPT_WRITTEN = "an executor's file is complete"
    ACCEPTED = "the driver has taken all attempts into out/"
    VERIFIED = "the staged output is proven, no manifest yet"
    MANIFEST_WRITTEN = "the manifest is fsynced, nothing is named"
    COMMITTING = "TXNS and queue row are locked, nothing is named"
    NAMED_FIRST = "the first directory has its final name, the database is not committed"
    NAMED = "all directories have their final names, the database is not committed"
    STATISTICS_WRITTEN = "statistics are written, the database is not committed"
    COMMITTED = "w -> r and the transaction are committed, the staging directory is still there"
    STAGING_REMOVED = "the staging directory is gone"
    CLEANING = "the cleaner has chosen what to remove"
    QUARANTINED = "an obsolete directory is in quarantine, which has no record yet"
    HIDDEN = "an obsolete directory is hidden, not yet emptied"
    QUARANTINE_RECORDED = "the quarantine has its record, the row is still r"
    REMOVED = "all obsolete directories are gone, the row is still r"
    CLEANED = "the row is in the history"
    REPAIR_ABORTED = "a lost worker's transaction is aborted, its files are still there"
    REPAIR_HIDDEN = "a lost worker's files are hidden, its request is not queued again"
    QUARANTINE_GIVEN_UP = "a quarantine that is due has lost its name, and is not yet emptied"


class CommandStep(enum.Enum):
    """The points at which a person's command about directories in doubt, or about an undo, may die."""

    SET_ASIDE = "a directory in doubt is set aside"
    KEPT = "a directory in doubt has a name of this metastore"
    TRANSACTIONS_RAISED = "the newest transaction is raised, write IDs are not yet"
    WRITE_IDS_RAISED = "a table's write IDs are raised, the transaction that shows them is open"
    PUT_BACK = "an input of an undone compaction is back beside the output"
    OUTPUT_TAKEN = "the outputs of an undone compaction are in quarantine, the table is still locked"


class WriteStep(enum.Enum):
    """The points at which a program that writes rows may die."""

    WRITE_BEGUN = "a statement has its write ID and component, nothing is staged"
    WRITE_ATTEMPTED = "a statement's files for a place are written, they are not accepted"
    WRITE_STAGED = "a statement's rows are staged"
    WRITE_DURABLE = "all that is staged is durable, nothing is named"
    WRITE_PARTITIONS_ADDED = (
        "new tables and partitions are in the catalog, the database is not committed, nothing is named"
    )
    WRITE_COMMITTING = "the transaction's row is locked, nothing is named"
    WRITE_NAMED_FIRST = "the first location's directories have their final names, the database is not committed"
    WRITE_NAMED = "all directories have their final names, the database is not committed"
    WRITE_COMMITTED = "the transaction is committed, the staging directories are still there"


class TransactionStep(enum.Enum):
    """The points of a program's transaction at which other programs may act. Nothing has an effect there."""

    LOCK_AWAITED = "locks are requested, and another transaction holds a conflicting one"
    LOCKED = "locks were granted"
    SNAPSHOT_TAKEN = "the snapshot is fixed, nothing is listed yet"


class StoreStep(enum.Enum):
    """The points at which a worker may die whose file system or store copies ranges of the inputs."""

    RANGE_TAKEN = "a range of an input is in an attempt's file or upload, what comes after it is not"
    COMPLETED = "an upload with ranges is completed, their ends are not looked at"


class MirrorStep(enum.Enum):
    """The points at which a pass over a mirrored table may die."""

    MIRROR_FILES_WRITTEN = "data files and position deletes are durable, no snapshot names them"
    MIRROR_MAP_WRITTEN = "the file map is durable, no snapshot names it"
    MIRROR_COMMITTING = "nothing is written for the catalog yet"
    MIRROR_COMMITTED = "the catalog has the new snapshot, our state does not know it yet"
    MIRROR_EXPIRED = "old snapshots are expired, their files are still there"


AnyStep: TypeAlias = Step | CommandStep | WriteStep | TransactionStep | StoreStep | MirrorStep
watchers: list[Callable[[AnyStep], None]] = []
_SIGNALS = {"COMPACTOR_DIE_AT": signal.SIGKILL, "COMPACTOR_STOP_AT": signal.SIGSTOP}
_reached: dict[AnyStep, int] = {}
_counting = threading.Lock()  #: several threads may come to the same step


def reach(step: AnyStep) -> None:
    """Records that ``step`` is reached; kills or suspends the process here if a crash test requests it."""
    for watch in tuple(watchers):
        watch(step)
    for variable, sent in _SIGNALS.items():
        target = os.environ.get(variable)  # for example COMMITTED, or ATTEMPT_WRITTEN:3
        if target is None:
            continue
        name, _, count = target.partition(":")
        if step.name != name:
            continue
        with _counting:
            _reached[step] = _reached.get(step, 0) + 1
            if _reached[step] == int(count or 1):
                _send(sent)


def _send(sent: signal.Signals) -> None:
    """Sends a signal to this thread: if sent to the process, SIGSTOP may stop another thread first."""
    signal.pthread_kill(threading.get_ident(), sent)
