"""Retries of transactions: their number and the pauses between them."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from compactor.base.errors import TryAgain

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

ATTEMPTS = 3  #: attempts to begin a transaction; in each the driver waits for a lock or a connection
PAUSE_SECONDS = 0.2  #: the first pause; each further one is longer by the same time

BODY_ATTEMPTS = 10  #: ``hive.hmshandler.retry.attempts``
BODY_PAUSE_SECONDS = 0.05


def retried(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Repeats ``method``, which is one whole transaction, if the database rolled it back in favour of another.

    A failed commit raises CommitUnknown and is never repeated, because only the database knows what happened.
    """

    @functools.wraps(method)
    def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for attempt in range(1, BODY_ATTEMPTS):
            try:
                return method(*args, **kwargs)
            except TryAgain as error:
                _log.info("%s is repeated: %s", method.__qualname__, error, extra={"attempt": attempt})
                time.sleep(BODY_PAUSE_SECONDS * attempt)
        return method(*args, **kwargs)

    return repeated
