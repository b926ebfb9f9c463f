"""Retries a listing until every listed name also exists (PROTOCOL 11.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from compactor.base.errors import StorageError

_T = TypeVar("_T")
ATTEMPTS = 10  #: at one listing, if something vanishes each time


class ListedButAbsent(Exception):
    """A directory lists a name that does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def consistent_listing(path: str, attempt: Callable[[], _T]) -> _T:
    """Returns a listing of ``path`` in which every listed name also exists (PROTOCOL 11.10).

    Somebody may remove a listed name meanwhile, or the store may be wrong for a moment (a stale cache, an unmounted disk
    behind a link). In both cases the listing starts again. It never skips a name.

    Args:
        attempt: lists everything once; raises ``ListedButAbsent``.

    Raises:
        StorageError: the same name is listed again and still does not exist.
    """
    absent = ""
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except ListedButAbsent as error:
            if error.path == absent:
                break
            absent = error.path
    raise StorageError(
        f"{absent}: its directory lists it, and it does not answer; its content would be taken for gone, so nothing "
        f"is done in {path}; check its disk, link or mount, then try again"
    )
