"""Threads of the page's own for whatever touches a metastore or its stores, few and with a deadline.

The API server runs every page of Airflow on one small pool of threads, so a store that never answers must hold none of them.
A thread cannot be ended from outside: one that hangs keeps its place until its store answers or fails, and as long as all
places are taken, further requests are refused at once. A store that is dead therefore costs this process ``readers`` threads
for each metastore and kind of work, and nothing else.
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
_SOON_S = 1  #: after which a place may be free again, as most requests take less


class PageWork(enum.Enum):
    """Kinds of work, each with threads of its own: a store that hangs does not keep anybody from reading lists."""

    OVERVIEW = "overviews"  #: also read what is remembered outside of the database
    LIST = "lists"  #: of its database
    LOOK = "looks into its storage"
    ACT = "actions"
    STOP = "actions that stop something"  #: people can cancel, whatever other actions wait for
    TELL = "reads that programs tell of"

    @property
    def changes(self) -> bool:
        """True if it may have changed something although nobody heard of its end."""
        return self in (PageWork.ACT, PageWork.STOP, PageWork.TELL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The number of threads of one kind of work in one metastore, and the seconds after which nobody waits any longer."""

    readers: int
    seconds: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            readers=settings.integer("compactor.page.readers"),
            seconds=settings.milliseconds("compactor.page.timeout") / 1000,
        )


class Overloaded(CompactorError):
    """All threads are taken, or an answer takes longer than its deadline."""

    def __init__(self, *, thing: str, found: str, remedy: str, retry_after: int) -> None:
        super().__init__(f"{thing}: {found}. {remedy}")
        self.thing, self.found, self.remedy, self.retry_after = thing, found, remedy, retry_after

    def to_json(self) -> dict[str, str]:
        return {"detail": str(self), "thing": self.thing, "found": self.found, "do": self.remedy}


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
        """Returns what ``call`` returns, or raises what it raises.

        Raises:
            Overloaded: every thread is taken, and ``call`` is not begun; or the deadline has passed, and ``call`` goes on.
        """
        self._take(limits)
        answer = asyncio.wrap_future(self._begin(call))
        try:
            await asyncio.wait({answer}, timeout=limits.seconds)
            if answer.done():
                return answer.result()
            raise self._late(limits)
        finally:
            answer.cancel()  # nobody waits for it any longer

    def _take(self, limits: Limits) -> None:
        with self._lock:
            if self._busy >= limits.readers:
                raise self._full(limits)
            self._busy += 1

    def _give_back(self) -> None:
        with self._lock:
            self._busy -= 1

    def _begin(self, call: Callable[[], _T]) -> Future[_T]:
        done: Future[_T] = Future()
        done.set_running_or_notify_cancel()  # it cannot be cancelled
        work = partial(self._do, partial(contextvars.copy_context().run, call), done)
        try:
            # a daemon: a thread that hangs does not keep the process from ending
            threading.Thread(target=work, daemon=True, name=self._thing).start()
        except RuntimeError:  # the machine has no thread left
            self._give_back()
            raise
        return done

    def _do(self, call: Callable[[], _T], done: Future[_T]) -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            self._give_back()
            done.set_exception(error)
        else:
            self._give_back()
            done.set_result(result)

    def _full(self, limits: Limits) -> Overloaded:
        return Overloaded(
            thing=self._thing,
            found=f"all {limits.readers} threads for {self._work.value} are taken (compactor.page.readers), and nothing was "
            "done",
            remedy="Try again soon; if it goes on, `compactor doctor` says whether its database or a store does not answer.",
            retry_after=_SOON_S,
        )

    def _late(self, limits: Limits) -> Overloaded:
        seconds = f"{limits.seconds:g} s (compactor.page.timeout)"
        remedy = "`compactor doctor` says whether its database or a store does not answer; try again later."
        if self._work.changes:
            remedy = f"It was begun, and may still be carried out: look before you ask again. {remedy}"
        log.warning("%s: one of the %s has not ended within %s", self._thing, self._work.value, seconds)
        return Overloaded(
            thing=self._thing,
            found=f"there was no answer within {seconds}",
            remedy=remedy,
            retry_after=max(_SOON_S, math.ceil(limits.seconds)),
        )


_ALL: dict[tuple[str, PageWork], Readers] = {}


def readers_of(metastore: str, work: PageWork) -> Readers:
    """Returns the threads of this process for one kind of work in a metastore that is configured."""
    return _ALL.setdefault((metastore, work), Readers(metastore, work))


def busy() -> int:
    """Returns the number of threads of this process that are taken now."""
    return sum(readers.busy for readers in _ALL.values())


def on_readers(work: PageWork) -> Callable[[Callable[..., _T]], Callable[..., Awaitable[_T]]]:
    """Returns a decorator for endpoints that take the asker as ``by``: they run on threads of ``work``."""

    def wrap(run: Callable[..., _T]) -> Callable[..., Awaitable[_T]]:
        @wraps(run)
        async def ran(**given: Any) -> _T:
            by = given["by"]
            limits = Limits.of(by.configuration.settings)
            return await readers_of(by.metastore, work).run(partial(run, **given), limits)

        return ran

    return wrap
