"""Separate processes that start without delay: one server imports everything once, and each is forked from it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any

from compactor.base.steps import AnyStep
from tests.support import roles
from tests.support.patience import PATIENCE

#: Includes pandas, which pyarrow would otherwise import again in each process.
_PRELOADED = ["tests.support.roles", "pandas", "pyarrow.orc", "pyarrow.parquet", "_strptime"]


def forked(target: Callable[..., object], *arguments: Any) -> ForkServerProcess:
    """Returns a process, not yet started, that calls ``target``."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_PRELOADED, target.__module__])  # counts for the first process only
    return context.Process(target=target, args=arguments)


def die(role: Callable[[str], None], metastore_url: str, step: AnyStep, nth: int = 1) -> None:
    """Runs one pass of ``role`` in a process that dies when it reaches ``step`` for the ``nth`` time.

    Raises:
        AssertionError: it ended otherwise.
    """
    process = forked(roles.die_at, role, metastore_url, f"{step.name}:{nth}")
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL, f"the pass ended with {process.exitcode} and never came to {step.name}"
