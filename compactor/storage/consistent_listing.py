"""A listing in which every name that was listed also answered (PROTOCOL 11.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from compactor.base.errors import StorageError

_T = TypeVar("_T")
ATTEMPTS = 10  #: at one listing, if something vanishes each time


class ListedButAbsent(Exception):
    """A name that its directory listed and that does not answer."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def consistent_listing(path: str, attempt: Callable[[], _T]) -> _T:
    """Returns a listing of ``path`` in which every name that was listed also answered (PROTOCOL 11.10).

    A listed name that does not answer was removed meanwhile, or the store is wrong for a moment (a stale cache, a disk
    behind a link that is away). Either way the listing starts again; nothing is ever passed over.

    Args:
        attempt: lists everything once; raises ``ListedButAbsent``.

    Raises:
        StorageError: a name is still listed and still does not answer.
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
        f"{absent}: its directory lists it, and it does not answer; whatever it holds would be taken for gone, so nothing "
        f"is done in {path}; look whether its disk, link or mount is there, then try again"
    )
