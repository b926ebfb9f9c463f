"""Starts a batch's application by spark-submit, watches it, and judges it by the rows that its driver leaves."""

from __future__ import annotations

import enum
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from compactor.base.errors import ClusterUnavailable, LaunchFailed
from compactor.base.redaction import redact
from compactor.batches import control
from compactor.batches.control import BatchStatus, BatchWithEntries
from compactor.launch.resource_manager import ResourceManager
from compactor.launch.yarn_application import YarnApplication, application_in
from compactor.launch.yarn_refusal import reason_in

if TYPE_CHECKING:
    from compactor.base.stop_signals import Stop
    from compactor.batches.assembly import PlannedBatch
    from compactor.site.site import Site

log = logging.getLogger(__name__)
_KEPT_LINES = 2000  #: of what spark-submit said, to find the reason of a failure in
_LOOK_S = 2.0  #: seconds between two looks at the rows and at YARN


class Fate(enum.Enum):
    """The outcome of a batch that was launched."""

    DONE = "done"
    FAILED = "an entry failed"
    GOES_ON = "its application goes on"
    GIVEN_BACK = "given back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The end of one launch. ``message`` is for people, where there is something to say."""

    fate: Fate
    exit_code: int
    application: str | None = None
    log_url: str | None = None
    message: str | None = None

    @property
    def is_fine(self) -> bool:
        return self.fate is Fate.DONE or (self.fate is Fate.GOES_ON and self.exit_code == 0)

    def to_json(self) -> dict[str, object]:
        return {
            "exit_code": self.exit_code,
            "state": self.fate.value,
            "application": self.application,
            "log_url": self.log_url,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One batch and how its application is started. ``tag`` is that of its applications on YARN."""

    site: Site
    batch: PlannedBatch
    line: Sequence[str]
    environment: Mapping[str, str]
    is_cluster: bool
    tag: str
    stop: Stop
    manager: ResourceManager | None = None
    inherits: tuple[int, ...] = ()  #: open files that spark-submit gets
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def run(self, stdout: int | None) -> Launched:
        """Runs spark-submit to its end and gives the batch back if it was not done.

        Args:
            stdout: the file descriptor for its output; None is ours. Its errors go to ours, line by line.
        """
        with subprocess.Popen(
            self.line,
            env=self.environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=self.inherits,
        ) as process:
            reader = threading.Thread(target=self._listen, args=(process.stderr,), name="spark-submit", daemon=True)
            reader.start()
            while not self._wait(process):
                self._look(process)
            reader.join()
        return self._judge(process.returncode)

    def _listen(self, errors: IO[str]) -> None:
        for line in errors:
            self.said.append(line)
            sys.stderr.write(redact(line))

    def _wait(self, process: subprocess.Popen[str]) -> bool:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
        return process.returncode is not None

    def _look(self, process: subprocess.Popen[str]) -> None:
        """Keeps the batch reserved while its application waits for its queue, and ends one that nobody wants any more."""
        held = control.read_batch(self.site, self.batch.batch_id)
        if self.stop.asked or (not held.open_entries and held.batch.driver is None):
            self._end(process)
        elif held.batch.driver is None and (found := self._on_yarn(held)) is not None and found.waits:
            control.record_launch(self.site, self.batch.batch_id, found.id)

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Ends spark-submit, and an application that is not to go on without it."""
        found = None if self.stop.asked and self.is_cluster else self._on_yarn()
        if found is not None and not found.has_ended and self.manager is not None:
            with suppress(ClusterUnavailable):
                self.manager.kill(found.id)
        process.terminate()

    def _on_yarn(self, held: BatchWithEntries | None = None) -> YarnApplication | None:
        """Returns the batch's application: the one recorded, or with its tag, or that spark-submit spoke of."""
        if self.manager is None:
            return None
        recorded = held.batch.application_id if held is not None else None
        number = recorded or application_in("".join(self.said))
        try:
            if number is not None:
                return self.manager.application(number)
            return next(iter(self.manager.tagged(self.tag)[::-1]), None)
        except ClusterUnavailable as error:
            log.info("%s", error)
            return None

    def _judge(self, code: int) -> Launched:
        held = control.read_batch(self.site, self.batch.batch_id)
        found = self._on_yarn(held)
        number = found.id if found is not None else held.batch.application_id or application_in("".join(self.said))
        where = held.batch.log_url or (found.log_url if found is not None else None)
        if held.status is BatchStatus.ENDED:
            errors = "; ".join(f"compaction {e.id} of {e.entity} failed: {e.error}" for e in held.failed_entries)
            fate = Fate.FAILED if errors else Fate.DONE
            return Launched(fate=fate, exit_code=code, application=number, log_url=where, message=errors or None)
        if self._goes_on(held, found, code):
            if number:
                control.record_launch(self.site, self.batch.batch_id, number)
            said = f"batch {self.batch.batch_id}: {number or 'its application'} goes on"
            return Launched(fate=Fate.GOES_ON, exit_code=code, application=number, log_url=where, message=said)
        because = self._because(held, found, code)
        if held.status is not BatchStatus.RELEASED:
            control.release_batch(self.site, self.batch.batch_id, because)
        error = LaunchFailed(
            f"batch {self.batch.batch_id}: {number or 'no application'}: {because}; the batch is given back, and its "
            f"requests wait for the next pass{f'; log: {where}' if where else ''}"
        )
        return Launched(fate=Fate.GIVEN_BACK, exit_code=code, application=number, log_url=where, message=str(error))

    def _goes_on(self, held: BatchWithEntries, found: YarnApplication | None, code: int) -> bool:
        """Returns true if only spark-submit has ended, as it may in cluster mode."""
        if not self.is_cluster or held.status not in (BatchStatus.WAITS, BatchStatus.UNDER_WAY):
            return False
        return not found.has_ended if found is not None else code == 0

    def _because(self, held: BatchWithEntries, found: YarnApplication | None, code: int) -> str:
        if not held.open_entries:
            return "its requests were cancelled"
        if self.stop.asked:
            return "submit was stopped"
        reason = self._reason(found)
        ended = f"spark-submit ended with {code}" + (f", and YARN says {found.verdict}" if found is not None else "")
        if code == 0:
            ended += f", but the batch is {held.batch.state.value}"
        return f"{ended}: {reason}" if reason else ended

    def _reason(self, found: YarnApplication | None) -> str | None:
        """Returns the sentence of who knows best why it ended: YARN if it was killed, else the driver, else spark-submit."""
        said = "".join(self.said)
        if found is None or self.manager is None:
            return reason_in(said)
        if found.state == "KILLED":
            return found.diagnostics.strip() or None
        of_driver = reason_in(self.manager.driver_output(found)) if self.is_cluster else None
        return of_driver or reason_in(said) or reason_in(found.diagnostics)
