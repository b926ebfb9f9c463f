"""The size of a test run: `make test` answers in minutes, `make test-all` (WHOLE=1) takes the time it needs."""

from __future__ import annotations

import os
from typing import TypeVar

#: True under `make test-all`: nothing is left out, and everything has its full size.
WHOLE = os.environ.get("WHOLE") == "1"

#: Folders that `make test` leaves to `make test-all`, like tests marked ``whole``: they cost minutes, memory or downloads.
WHOLE_FOLDERS = ("tests/live", "tests/packaging", "tests/torture", "tests/integration/spark")

_T = TypeVar("_T")


def sized(*, short: _T, whole: _T) -> _T:
    """Returns ``whole`` under `make test-all`, else ``short``, which must meet the same rule in less of everything."""
    return whole if WHOLE else short
