"""A small pool of threads for the page's metastore and storage calls, with a deadline.

The API server runs every page of Airflow on one small pool of threads, so a store that never answers must not occupy them.
No thread can be ended from outside: one that hangs keeps its place until its store answers or fails. While all places are
taken, further requests are refused at once. So a dead store costs this process at most ``readers`` threads for each
metastore and kind of work.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar

from compactor.base.errors import CompactorError
from compactor.settings.precedence import Settings

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_SOON_S = 1  #: seconds after which a place is probably free again


class PageWork(enum.Enum):
    """Kinds of work, each with its own threads: a hanging store does not stop people from reading lists."""

    OVERVIEW = "overviews"  #: also read the record outside the database
    LIST = "lists"  #: from the database
    LOOK = "looks into storage"
    ACT = "actions"
    STOP = "actions that stop something"  #: people can cancel while other actions hang
    REPORT = "reported reads"

    @property
    def changes(self) -> bool:
        """True if a call may have changed something although its answer was lost."""
        return self in (PageWork.ACT, PageWork.STOP, PageWork.REPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The number of threads for one kind of work in one metastore, and the deadline of an answer."""

    readers: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        return cls(
            readers=settings.integer("compactor.page.readers"),
            seconds=settings.milliseconds("compactor.page.timeout") / 1000,
        )


class Overloaded(CompactorError):
    """All threads are taken, or an answer missed its deadline."""

    def __init__(self, *, thing: str, problem: str, remedy: str, retry_after: int) -> None:
        super().__init__(f"{thing}: {problem}. {remedy}")
        self.thing, self.problem, self.remedy, self.retry_after = thing, problem, remedy, retry_after

    def to_json(self) -> dict[str, str]:
        return {"detail": str(self), "thing": self.thing, "found": self.problem, "do": self.remedy}


class Readers:
    """The threads of one kind of work in one metastore."""

    def __init__(self, metastore: str, work: PageWork) -> None:
        self._thing, self._work = f"metastore {metastore}", work
        self._busy = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> int:
        """The number of threads that are taken now."""
        with self._lock:
            return self._busy

    async def run(self, call: Callable[[], _T], limits: Limits) -> _T:
        """Runs ``call`` on a thread; returns its result, or raises its error.

        Raises:
            Overloaded: every thread is taken, and ``call`` never started; or the deadline has passed, and ``call`` runs on.
        """
        self._take(limits)
        answer = asyncio.wrap_future(self._begin(call))
        try:
            await asyncio.wait({answer}, timeout=limits.seconds)
            if answer.done():
                return answer.result()
            raise self._report_late(limits)
        finally:
            answer.cancel()  # nobody waits for it any more

    def _take(self, limits: Limits) -> None:
        with self._lock:
            if self._busy >= limits.readers:
                raise self._refuse(limits)
            self._busy += 1

    def _give_back(self) -> None:
        with self._lock:
            self._busy -= 1

    def _begin(self, call: Callable[[], _T]) -> Future[_T]:
        done: Future[_T] = Future()
        done.set_running_or_notify_cancel()  # makes it impossible to cancel
        work = partial(self._do, partial(contextvars.copy_context().run, call), done)
        try:
            # as a daemon, a hanging thread does not stop the process from ending
            threading.Thread(target=work, daemon=True, name=self._thing).start()
        except RuntimeError:  # the machine has no thread left
            self._give_back()
            raise
        return done

    def _do(self, call: Callable[[], _T], done: Future[_T]) -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - the waiting request gets it
            self._give_back()
            done.set_exception(error)
        else:
            self._give_back()
            done.set_result(result)

    def _refuse(self, limits: Limits) -> Overloaded:
        return Overloaded(
            thing=self._thing,
            problem=f"all {limits.readers} threads for {self._work.value} are taken (compactor.page.readers), and nothing "
            "was done",
            remedy="Try again soon. If that does not help, `compactor doctor` tells whether its database or a store "
            "fails to answer.",
            retry_after=_SOON_S,
        )

    def _report_late(self, limits: Limits) -> Overloaded:
        seconds = f"{limits.seconds:g} s (compactor.page.timeout)"
        remedy = "`compactor doctor` tells whether its database or a store fails to answer; try again later."
        if self._work.changes:
            remedy = f"It was begun and may still finish: check before you repeat it. {remedy}"
        log.warning("%s: one of the %s has not ended within %s", self._thing, self._work.value, seconds)
        return Overloaded(
            thing=self._thing,
            problem=f"there was no answer within {seconds}",
            remedy=remedy,
            retry_after=max(_SOON_S, math.ceil(limits.seconds)),
        )


_ALL: dict[tuple[str, PageWork], Readers] = {}


def find_readers(metastore: str, work: PageWork) -> Readers:
    """Returns this process's threads for one kind of work in a configured metastore."""
    return _ALL.setdefault((metastore, work), Readers(metastore, work))


def count_busy() -> int:
    """Returns the number of this process's threads that are taken now."""
    return sum(readers.busy for readers in _ALL.values())


def on_readers(work: PageWork) -> Callable[[Callable[..., _T]], Callable[..., Awaitable[_T]]]:
    """Returns a decorator for endpoints that take the requester as ``by``.

    It runs them on threads for ``work``.
    """

    def wrap(run: Callable[..., _T]) -> Callable[..., Awaitable[_T]]:
        @wraps(run)
        async def endpoint(**arguments: Any) -> _T:
            by = arguments["by"]
            limits = Limits.from_settings(by.configuration.settings)
            return await find_readers(by.metastore, work).run(partial(run, **arguments), limits)

        return endpoint

    return wrap
