"""A local store that counts what a role asks of it."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import Any

from compactor.storage.local import LocalStorage

#: Those methods of ``Storage`` that ask a store.
CALLS = (
    *("listing", "tree", "anchor", "children", "exists", "descriptor", "owner", "length", "status", "version", "read"),
    *(
        "read_range",
        "upload",
        "write",
        "make_directories",
        "make_private",
        "make_inside",
        "adopt",
        "sync",
        "sync_names",
    ),
    *("rename", "rename_each", "remove", "remove_all", "identity", "identities", "may_write", "free_bytes"),
)


class CountedStorage(LocalStorage):
    """Counts calls by method, but no call that a method makes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._inside = threading.local()

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        return partial(self._count, name, method) if name in CALLS else method

    def _count(self, name: str, method: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(self._inside, "yes", False):
            return method(*arguments, **named)
        with self._lock:
            self.counts[name] += 1
        self._inside.yes = True
        try:
            return method(*arguments, **named)
        finally:
            self._inside.yes = False
