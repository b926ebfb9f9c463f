"""Runs secondary work, such as figures, that may fail or hang without effect on a pass.

See PROTOCOL 11.14.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE_S = 30.0  #: a call that takes longer is abandoned


def beside(what: str, act: Callable[[], T], patience_s: float = PATIENCE_S) -> T | None:
    """Returns the result of ``act``, or logs a warning and returns None if it fails or takes too long.

    ``act`` runs in its own daemon thread, because it may never return on a file system that hangs.

    Args:
        what: the name of the work in the log.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(act())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the pass has done its work
            errors.append(error)

    thread = threading.Thread(target=run, name=f"beside: {what}", daemon=True)
    thread.start()
    thread.join(patience_s)
    for error in errors:
        log.warning("%s failed, which changes nothing else: %s", what, error, exc_info=error)
    if thread.is_alive():
        log.warning("%s takes longer than %.0f s and is left to itself, which changes nothing else", what, patience_s)
    return answers[0] if answers else None
