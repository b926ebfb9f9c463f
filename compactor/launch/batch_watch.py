"""Watches the application of a batch.

Finds it, keeps the batch reserved, says how it ended, ends it, gives the batch back.

An application is a process of this machine, or one of YARN's. Of any other application, or if YARN cannot be asked, only the
rows of our state are known.
"""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compactor.base.errors import ClusterUnavailable, LaunchFailed
from compactor.batches import control
from compactor.batches.control import BatchStatus, BatchWithEntries
from compactor.compaction.states import State
from compactor.launch import driver_processes
from compactor.launch.resource_manager import ResourceManager, configured_manager
from compactor.launch.yarn_application import YarnApplication, find_reason, is_application
from compactor.requests.abort import abort_compactions
from compactor.site.site import Site

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
    is_reserved: bool = True  #: no planner may take its entries
    end: str | None = None  #: how the application ended that did not end its batch
    entries: Mapping[int, str] = field(default_factory=dict)  #: id -> "demo.flights/month=1: working"
    still_open: tuple[int, ...] = ()
    claimed: tuple[int, ...] = ()  #: those of ``still_open`` on which a worker works
    failed: Mapping[int, str] = field(default_factory=dict)  #: id -> a sentence
    compacted: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)  #: ids by (database, table)

    @classmethod
    def from_batch(cls, batch: BatchWithEntries) -> BatchProgress:
        compacted: dict[tuple[str, str], tuple[int, ...]] = {}
        for entry in batch.entries.values():
            if entry.state in (State.READY_FOR_CLEANING, State.SUCCEEDED):
                table = entry.entity.database, entry.entity.table
                compacted[table] = (*compacted.get(table, ()), entry.id)
        return cls(
            batch_id=batch.batch.id,
            status=batch.status,
            application=batch.batch.application_id,
            tracking_url=batch.batch.tracking_url,
            log_url=batch.batch.log_url,
            has_driver=batch.batch.driver is not None,
            is_reserved=batch.batch.reserved_until > batch.batch.read_at,
            entries={entry.id: f"{entry.entity}: {entry.state.label}" for entry in batch.entries.values()},
            still_open=tuple(entry.id for entry in batch.open_entries),
            claimed=tuple(entry.id for entry in batch.open_entries if entry.state is State.WORKING),
            failed={
                entry.id: f"compaction {entry.id} of {entry.entity}: {State.FAILED.label}: {entry.error}"
                for entry in batch.failed_entries
            },
            compacted=compacted,
        )

    def list_news(self, before: BatchProgress | None) -> list[str]:
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
        """True if an application waits for its queue although all its requests were cancelled."""
        return self.status is BatchStatus.UNDER_WAY and not self.still_open and not self.has_driver


class NextStep(enum.Enum):
    """The next step of a task with its batch."""

    LAUNCH = enum.auto()
    WATCH = enum.auto()
    RENEW = enum.auto()  #: release it for good, plan it again, and launch
    CONCLUDE = enum.auto()


def decide_next_step(progress: BatchProgress, launches: int) -> NextStep:
    """Decides the next step with a batch that this try has launched ``launches`` times so far.

    A running application is watched, whoever launched it. A lost or released one is launched again. One that ended is
    not, unless a person runs the task again while some of its entries still wait. Nothing is launched for entries that
    others have claimed or ended, and a batch whose reservation has ended is first reserved again.
    """
    has_waiting = len(progress.still_open) > len(progress.claimed)
    if progress.status is BatchStatus.WAITS:
        if not has_waiting:
            return NextStep.CONCLUDE
        return NextStep.LAUNCH if progress.is_reserved else NextStep.RENEW
    if progress.status is BatchStatus.UNDER_WAY:
        return NextStep.WATCH
    if not progress.still_open:
        return NextStep.CONCLUDE
    if progress.status is BatchStatus.ENDED and (launches > 0 or not has_waiting):
        return NextStep.CONCLUDE
    return NextStep.RENEW


def read_progress(site: Site, batch_id: int) -> BatchProgress:
    """Reads the batch's progress now, and keeps it reserved while its application waits for its queue.

    A driver that is a dead process of this machine, or whose application has ended on YARN, counts as lost at once. Any
    other counts as lost when its reservation ends.

    Raises:
        CompactorError: the databases cannot be read, or there is no such batch.
    """
    batch = control.read_batch(site, batch_id)
    progress = BatchProgress.from_batch(batch)
    if progress.status is not BatchStatus.UNDER_WAY:
        return progress
    end = describe_end(progress.application)
    if end is not None:
        # It may have ended its batch normally since the first reading.
        progress = BatchProgress.from_batch(control.read_batch(site, batch_id))
        is_lost = progress.status is BatchStatus.UNDER_WAY
        return replace(progress, status=BatchStatus.LOST, end=end) if is_lost else progress
    if progress.has_driver:
        return progress
    application = find_application(configured_manager(os.environ), progress.application)
    keep_reserved(site, batch, application)
    return replace(progress, log_url=application.log_url) if application is not None else progress


def keep_reserved(site: Site, batch: BatchWithEntries, application: YarnApplication | None) -> None:
    """Renews the reservation while the application waits for its queue.

    A registered driver renews it on its own.
    """
    if batch.batch.driver is None and application is not None and application.waits:
        control.record_launch(site, batch.batch.id, application.id)


def find_application(
    manager: ResourceManager | None, application_id: str | None, tag: str | None = None
) -> YarnApplication | None:
    """Returns an application as YARN lists it: by its id, or without one the newest with this tag.

    None if YARN does not know it, or cannot be asked.
    """
    if manager is None:
        return None
    try:
        if application_id is not None:
            return manager.application(application_id) if is_application(application_id) else None
        return next(reversed(manager.list_tagged(tag)), None) if tag is not None else None
    except ClusterUnavailable as error:
        log.warning("application %s: %s", application_id or tag, error)
        return None


def find_running(tag: str) -> str | None:
    """Returns the newest running application with this tag on YARN.

    Returns None if there is none or YARN cannot be asked.
    """
    manager = configured_manager(os.environ)
    try:
        tagged = manager.list_tagged(tag) if manager is not None else ()
    except ClusterUnavailable as error:
        log.warning("tag %s: %s", tag, error)
        return None
    return next((application.id for application in reversed(tagged) if not application.has_ended), None)


def describe_end(name: str | None) -> str | None:
    """Returns how the application has ended; None if it runs or if that cannot be known here."""
    if driver_processes.is_gone(name):
        return "its process is gone"
    manager = configured_manager(os.environ)
    application = find_application(manager, name)
    if manager is None or application is None or not application.has_ended:
        return None
    reason = choose_reason(manager, application)
    return f"YARN says {application.verdict}" + (f": {reason}" if reason else "")


def choose_reason(
    manager: ResourceManager, application: YarnApplication, *, reads_driver: bool = True, submit_output: str = ""
) -> str:
    """Chooses whose reason for the end counts.

    YARN's if it was killed, else its driver's, spark-submit's, YARN's.

    Args:
        reads_driver: whether YARN has the driver's output: in cluster mode.
    """
    diagnostics = application.diagnostics.strip()
    if application.state == "KILLED":
        return diagnostics
    driver_reason = find_reason(manager.driver_output(application)) if reads_driver else None
    return driver_reason or find_reason(submit_output) or find_reason(diagnostics) or diagnostics


def end_application(name: str | None, manager: ResourceManager | None = None) -> None:
    """Ends the application if it is a process of this machine or runs on YARN."""
    if driver_processes.end(name) or name is None or not is_application(name):
        return
    manager = manager or configured_manager(os.environ)
    application = find_application(manager, name)
    if manager is None or application is None or application.has_ended:
        return
    try:
        manager.kill(name)
        log.info("application %s: YARN ends it", name)
    except ClusterUnavailable as error:
        log.warning("application %s: YARN cannot end it; its driver ends once it reads our state: %s", name, error)


def release(site: Site, batch_id: int, because: str) -> None:
    """Gives the batch back and ends its application; the requests stay in the queue."""
    application = control.read_batch(site, batch_id).batch.application_id
    control.release_batch(site, batch_id, because)
    end_application(application)


def give_back(
    site: Site, batch_id: int, because: str, *, application: str | None = None, log_url: str | None = None
) -> LaunchFailed:
    """Releases a batch that its application did not finish, and returns the error that says so."""
    if control.read_batch(site, batch_id).status not in (BatchStatus.ENDED, BatchStatus.RELEASED):
        release(site, batch_id, because)
    who = f"{application}: " if application else ""
    return LaunchFailed(
        f"batch {batch_id}: {who}{because}; the batch is given back, and its requests wait for the next pass"
        f"{f'; log: {log_url}' if log_url else ''}"
    )


def renew(site: Site, batch_id: int, because: str) -> bool:
    """Releases the batch and plans it again; returns false if another batch has taken its entries."""
    release(site, batch_id, because)
    return control.replan_batch(site, batch_id)


def abort(site: Site, batch_id: int) -> None:
    """Ends the batch and its application, and aborts the requests that are not compacted yet."""
    application = control.read_batch(site, batch_id).batch.application_id
    aborted, refused = abort_compactions(site, [entry.id for entry in control.end_batch(site, batch_id)])
    for entry in aborted:
        log.info("compaction %s of %s: %s", entry.id, entry.entity, entry.state.label)
    for error in refused:  # it has committed since, or is gone
        log.info("batch %d: %s", batch_id, error)
    end_application(application)
