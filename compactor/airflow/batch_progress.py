"""The progress of a batch for its task and trigger: status, news, next step. Imported when one of them runs."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from compactor.airflow.hooks import CompactorHook
from compactor.batches import control
from compactor.batches.control import BatchStatus
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.launch import applications
from compactor.requests.abort import abort_compactions

log = logging.getLogger(__name__)
MAX_LAUNCHES = 3  #: per try; a driver that dies this often will die again


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """A batch at one moment, in plain values."""

    batch_id: int
    status: BatchStatus
    application: str | None = None
    tracking_url: str | None = None
    log_url: str | None = None  #: of the driver's output
    has_driver: bool = False  #: its driver has registered
    end: str | None = None  #: how the application ended that did not end its batch
    entries: Mapping[int, str] = field(default_factory=dict)  #: id -> "demo.flights/month=1: working"
    still_open: tuple[int, ...] = ()
    failed: Mapping[int, str] = field(default_factory=dict)  #: id -> a sentence
    compacted: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  #: ids by (database, table)

    def news(self, before: BatchProgress | None) -> list[str]:
        """Lists the changes since ``before``, one line each."""
        lines = []
        if self.tracking_url and (before is None or before.tracking_url != self.tracking_url):
            lines.append(f"batch {self.batch_id}: Spark shows it at {self.tracking_url}")
        if self.log_url and (before is None or before.log_url != self.log_url):
            lines.append(f"batch {self.batch_id}: its driver's log is at {self.log_url}")
        if self.end and (before is None or before.end != self.end):
            lines.append(f"batch {self.batch_id}: {self.application} has ended: {self.end}")
        old = before.entries if before is not None else {}
        lines += [f"compaction {number} of {text}" for number, text in self.entries.items() if old.get(number) != text]
        return lines

    @property
    def is_pointless(self) -> bool:
        """True if an application waits for its queue although nobody wants anything of it any longer."""
        return self.status is BatchStatus.UNDER_WAY and not self.still_open and not self.has_driver


class NextStep(enum.Enum):
    """The next step of a task with its batch."""

    LAUNCH = enum.auto()
    WATCH = enum.auto()
    RENEW = enum.auto()  #: release it for good, plan it again, and launch
    CONCLUDE = enum.auto()


def next_step(progress: BatchProgress, launches: int) -> NextStep:
    """Decides the next step with a batch that this try has launched ``launches`` times so far.

    A running application is watched, whoever launched it. A lost or released one is launched again. One that ended is
    not, unless a person runs the task again while some of its entries still wait.
    """
    if progress.status is BatchStatus.WAITS:
        return NextStep.LAUNCH
    if progress.status is BatchStatus.UNDER_WAY:
        return NextStep.WATCH
    if not progress.still_open:
        return NextStep.CONCLUDE
    if progress.status is BatchStatus.ENDED and launches > 0:
        return NextStep.CONCLUDE
    return NextStep.RENEW


def read_progress(metastore: str, batch_id: int) -> BatchProgress:
    """Reads the batch's progress now, and keeps it reserved while its application waits for its queue.

    A driver that is a dead process of this machine, or whose application has ended on YARN, counts as lost at once, any
    other when its reservation ends.

    Raises:
        CompactorError: the databases cannot be read, or there is no such batch.
    """
    progress = _read_progress(metastore, batch_id)
    if progress.status is not BatchStatus.UNDER_WAY:
        return progress
    ended = applications.describe_end(progress.application)
    if ended is not None:
        progress = _read_progress(metastore, batch_id)  # it may have ended normally between the two checks
        return (
            replace(progress, status=BatchStatus.LOST, end=ended)
            if progress.status is BatchStatus.UNDER_WAY
            else progress
        )
    waiting = None if progress.has_driver else applications.find_on_yarn(progress.application)
    if waiting is not None and waiting.waits:
        record_launch(metastore, batch_id, waiting.id)
    return replace(progress, log_url=waiting.log_url) if waiting is not None else progress


def _read_progress(metastore: str, batch_id: int) -> BatchProgress:
    with CompactorHook(metastore).get_conn() as site:
        batch = control.read_batch(site, batch_id)
    return BatchProgress(
        batch_id=batch_id,
        status=batch.status,
        application=batch.batch.application_id,
        tracking_url=batch.batch.tracking_url,
        log_url=batch.batch.log_url,
        has_driver=batch.batch.driver is not None,
        entries={e.id: f"{e.entity}: {e.state.label}" for e in batch.entries.values()},
        still_open=tuple(e.id for e in batch.open_entries),
        failed={
            e.id: f"compaction {e.id} of {e.entity}: {State.FAILED.label}: {e.error}" for e in batch.failed_entries
        },
        compacted=_compacted(batch.entries.values()),
    )


def _compacted(entries: Iterable[Entry]) -> dict[tuple[str, str], tuple[int, ...]]:
    by_table: dict[tuple[str, str], tuple[int, ...]] = {}
    for e in entries:
        if e.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
            table = e.entity.database, e.entity.table
            by_table[table] = (*by_table.get(table, ()), e.id)
    return by_table


def record_launch(metastore: str, batch_id: int, application: str) -> None:
    """Records the name under which the application is found again."""
    with CompactorHook(metastore).get_conn() as site:
        control.record_launch(site, batch_id, application)


def record_task(metastore: str, batch_id: int, url: str) -> None:
    """Records where the task that has the batch is shown."""
    with CompactorHook(metastore).get_conn() as site:
        control.record_task(site, batch_id, url)


def renew(metastore: str, batch_id: int, because: str) -> bool:
    """Releases the batch, ends its application and plans it again; returns false if another batch has its entries by now."""
    release(metastore, batch_id, because)
    with CompactorHook(metastore).get_conn() as site:
        return control.replan_batch(site, batch_id)


def release(metastore: str, batch_id: int, because: str) -> None:
    """Stops the driver; the requests stay in the queue."""
    with CompactorHook(metastore).get_conn() as site:
        application = control.read_batch(site, batch_id).batch.application_id
        control.release_batch(site, batch_id, because)
    applications.end(application)


def abort(metastore: str, batch_id: int) -> None:
    """Stops the driver and aborts the requests that are not compacted yet."""
    with CompactorHook(metastore).get_conn() as site:
        application = control.read_batch(site, batch_id).batch.application_id
        aborted, refused = abort_compactions(site, [entry.id for entry in control.end_batch(site, batch_id)])
    for entry in aborted:
        log.info("compaction %s of %s: %s", entry.id, entry.entity, entry.state.label)
    for error in refused:  # it committed meanwhile, or is gone
        log.info("batch %d: %s", batch_id, error)
    applications.end(application)
