"""Starts a batch's application with spark-submit, and judges it by the rows that its driver wrote."""

from __future__ import annotations

import enum
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from compactor.base.redaction import redact
from compactor.batches import control
from compactor.batches.control import BatchStatus, BatchWithEntries
from compactor.launch.batch_watch import choose_reason, end_application, find_application, give_back, keep_reserved
from compactor.launch.resource_manager import ResourceManager
from compactor.launch.yarn_application import YarnApplication, find_application_id, find_reason
from compactor.site.spark_program import describe_start_failure

if TYPE_CHECKING:
    from compactor.base.stop_signals import Stop
    from compactor.batches.assembly import PlannedBatch
    from compactor.site.site import Site

_KEPT_LINES = 2000  #: lines of spark-submit's output, to find the reason of a failure in
_NOT_STARTED = 127  #: as a shell reports a program that it cannot start
_LOOK_S = 2.0  #: seconds between two looks at the rows and at YARN


class Fate(enum.Enum):
    """The outcome of a launched batch."""

    DONE = "done"
    FAILED = "an entry failed"
    GOES_ON = "its application goes on"
    GIVEN_BACK = "given back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The end of one launch. ``message`` is for people, unless all went well."""

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
    """One batch and how its application is started. ``tag`` marks its applications on YARN."""

    site: Site
    batch: PlannedBatch
    line: Sequence[str]
    environment: Mapping[str, str]
    is_cluster: bool
    tag: str
    stop: Stop
    manager: ResourceManager | None = None
    inherits: tuple[int, ...] = ()  #: open files that spark-submit gets
    output: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def run(self, stdout: int | None) -> Launched:
        """Runs spark-submit until it ends, and gives the batch back if it is not done.

        It also does so if spark-submit does not start.

        Args:
            stdout: the file descriptor for its output; None is ours. Its errors go to our stderr, line by line.
        """
        try:
            started = subprocess.Popen(
                self.line,
                env=self.environment,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                pass_fds=self.inherits,
            )
        except OSError as error:
            because = describe_start_failure(self.line[0], error)
            error_of_batch = give_back(self.site, self.batch.batch_id, because)
            return Launched(fate=Fate.GIVEN_BACK, exit_code=_NOT_STARTED, message=str(error_of_batch))
        with started as process:
            reader = threading.Thread(target=self._listen, args=(process.stderr,), name="spark-submit", daemon=True)
            reader.start()
            while not self._wait(process):
                self._look(process)
            reader.join()
        return self._judge(process.returncode)

    def _listen(self, errors: IO[str]) -> None:
        for line in errors:
            self.output.append(line)
            sys.stderr.write(redact(line))

    def _wait(self, process: subprocess.Popen[str]) -> bool:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
        return process.returncode is not None

    def _look(self, process: subprocess.Popen[str]) -> None:
        """Keeps the batch reserved while its application waits; ends an application that nobody needs."""
        current = control.read_batch(self.site, self.batch.batch_id)
        if self.stop.is_requested or (not current.open_entries and current.batch.driver is None):
            self._end(process)
        elif current.batch.driver is None:
            keep_reserved(self.site, current, self._find_on_yarn(current))

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Ends spark-submit, and its application unless that may go on without it."""
        application = None if self.stop.is_requested and self.is_cluster else self._find_on_yarn()
        if application is not None:
            end_application(application.id, self.manager)
        process.terminate()

    def _find_on_yarn(self, current: BatchWithEntries | None = None) -> YarnApplication | None:
        """Returns the batch's application on YARN, by its recorded id, spark-submit's output or its tag."""
        recorded = current.batch.application_id if current is not None else None
        return find_application(self.manager, recorded or find_application_id("".join(self.output)), self.tag)

    def _judge(self, code: int) -> Launched:
        """Returns the batch's fate by its rows, and gives it back unless it is done or goes on."""
        current = control.read_batch(self.site, self.batch.batch_id)
        application = self._find_on_yarn(current)
        mentioned = current.batch.application_id or find_application_id("".join(self.output))
        name = application.id if application is not None else mentioned
        log_url = current.batch.log_url or (application.log_url if application is not None else None)
        if current.status is BatchStatus.ENDED:
            errors = "; ".join(f"compaction {e.id} of {e.entity} failed: {e.error}" for e in current.failed_entries)
            fate = Fate.FAILED if errors else Fate.DONE
            return Launched(fate=fate, exit_code=code, application=name, log_url=log_url, message=errors or None)
        if self._goes_on(current, application, code):
            if name:
                control.record_launch(self.site, self.batch.batch_id, name)
            message = f"batch {self.batch.batch_id}: {name or 'its application'} goes on"
            return Launched(fate=Fate.GOES_ON, exit_code=code, application=name, log_url=log_url, message=message)
        because = self._explain_end(current, application, code)
        error = give_back(
            self.site, self.batch.batch_id, because, application=name or "no application", log_url=log_url
        )
        return Launched(fate=Fate.GIVEN_BACK, exit_code=code, application=name, log_url=log_url, message=str(error))

    def _goes_on(self, current: BatchWithEntries, application: YarnApplication | None, code: int) -> bool:
        """Returns true if only spark-submit has ended, as it may in cluster mode."""
        if not self.is_cluster or current.status not in (BatchStatus.WAITS, BatchStatus.UNDER_WAY):
            return False
        return not application.has_ended if application is not None else code == 0

    def _explain_end(self, current: BatchWithEntries, application: YarnApplication | None, code: int) -> str:
        if not current.open_entries:
            return "its requests were cancelled"
        if self.stop.is_requested:
            return "submit was stopped"
        reason = self._find_reason(application)
        ended = f"spark-submit ended with {code}" + (
            f", and YARN says {application.verdict}" if application is not None else ""
        )
        if code == 0:
            ended += f", but the batch is {current.batch.state.value}"
        return f"{ended}: {reason}" if reason else ended

    def _find_reason(self, application: YarnApplication | None) -> str | None:
        output = "".join(self.output)
        if application is None or self.manager is None:
            return find_reason(output)
        return choose_reason(self.manager, application, reads_driver=self.is_cluster, submit_output=output)
