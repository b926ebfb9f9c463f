from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from compactor.airflow.page.readers import Limits, Overloaded, PageWork, Readers, find_readers
from compactor.base.errors import NotFound
from compactor.settings.precedence import Layer, Settings
from tests.support.patience import until

SHORT = Limits(readers=1, seconds=0.001)
LONG = Limits(readers=1, seconds=300)


def ended(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_limits_are_settings() -> None:
    layer = Layer(name="flag", values={"compactor.page.readers": "2", "compactor.page.timeout": "1500ms"})
    assert Limits.from_settings(Settings.of([layer])) == Limits(readers=2, seconds=1.5)
    assert Limits.from_settings(Settings.of([])) == Limits(readers=4, seconds=10)


def test_what_is_called_answers_or_raises_as_if_it_were_called_here() -> None:
    readers = Readers("default", PageWork.LIST)
    said: ContextVar[str] = ContextVar("said")
    said.set("in the request")
    assert ended(readers.run(said.get, LONG)) == "in the request"

    def fails() -> None:
        raise NotFound("no such table")

    with pytest.raises(NotFound, match="no such table"):
        ended(readers.run(fails, LONG))

    def times_out() -> None:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        ended(readers.run(times_out, LONG))
    assert readers.busy == 0


def test_a_place_is_taken_until_the_call_ends_and_not_until_nobody_waits_for_it() -> None:
    readers, goes_on = Readers("archive", PageWork.LOOK), threading.Event()
    with pytest.raises(Overloaded) as late:
        ended(readers.run(goes_on.wait, SHORT))
    assert late.value.problem == "there was no answer within 0.001 s (compactor.page.timeout)"
    assert readers.busy == 1
    begun: list[bool] = []
    with pytest.raises(Overloaded) as full:
        ended(readers.run(lambda: begun.append(True), LONG))
    assert full.value.problem == (
        "all 1 threads for looks into storage are taken (compactor.page.readers), and nothing was done"
    )
    assert begun == []
    assert ended(readers.run(lambda: "a larger number holds at once", Limits(readers=2, seconds=300)))
    goes_on.set()
    until("the place is free", lambda: readers.busy == 0)
    assert ended(readers.run(lambda: "again", LONG)) == "again"


def test_what_is_raised_after_the_deadline_is_nobodys() -> None:
    readers, goes_on = Readers("default", PageWork.LIST), threading.Event()

    def fails() -> None:
        goes_on.wait()
        raise NotFound("too late")

    with pytest.raises(Overloaded):
        ended(readers.run(fails, SHORT))
    goes_on.set()
    until("the place is free", lambda: readers.busy == 0)


def test_an_action_may_still_be_carried_out() -> None:
    readers, goes_on = Readers("default", PageWork.ACT), threading.Event()
    with pytest.raises(Overloaded, match="It was begun and may still finish: check before you repeat it"):
        ended(readers.run(goes_on.wait, SHORT))
    goes_on.set()
    until("the place is free", lambda: readers.busy == 0)


def test_each_metastore_and_kind_of_work_has_its_own() -> None:
    assert find_readers("default", PageWork.LIST) is find_readers("default", PageWork.LIST)
    assert len({id(find_readers(name, work)) for name in ("default", "archive") for work in PageWork}) == 2 * len(
        PageWork
    )


def test_a_thread_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import asyncio, threading; from compactor.airflow.page.readers import *\n"
        "try: asyncio.run(Readers('default', PageWork.LOOK).run(threading.Event().wait, Limits(readers=1, seconds=0.001)))\n"
        "except Overloaded: print('gave up')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "gave up\n"
