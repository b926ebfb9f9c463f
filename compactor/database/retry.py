"""What is tried again, how often, and how long after."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from compactor.errors import TryAgain

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

ATTEMPTS = 3  #: how often a transaction is begun; each time the driver itself waits for a lock or a connection
PAUSE_SECONDS = 0.2  #: after the first attempt, and as much more after each further one

BODY_ATTEMPTS = 10  #: ``hive.hmshandler.retry.attempts``
BODY_PAUSE_SECONDS = 0.05


def retried(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """``method`` is one whole transaction: it is repeated when the database rolled it back for another one's sake.

    Never for what failed while it committed: that is CommitUnknown, and only the database knows what happened.
    """

    @functools.wraps(method)
    def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for attempt in range(1, BODY_ATTEMPTS):
            try:
                return method(*args, **kwargs)
            except TryAgain as error:
                _log.info("%s is done again: %s", method.__qualname__, error, extra={"attempt": attempt})
                time.sleep(BODY_PAUSE_SECONDS * attempt)
        return method(*args, **kwargs)

    return repeated
