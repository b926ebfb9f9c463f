"""Uploads that naming completes: the store holds every byte, but no key exists yet.

A store that completes uploads on request needs no second copy of staged files. An executor begins an ``Upload`` and passes
it as a value to the driver, which completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactor.base.ids import TxnId
from compactor.storage.taking_over import KnownBytes, TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload that holds all bytes of a file and waits for its completion."""

    path: str
    id: str
    parts: tuple[str, ...]  #: the store's answer for each part
    length: int
    ends: tuple[KnownBytes, ...] = ()  #: compared as soon as the file can be read


class Deferring(Protocol):
    """The additional methods of a store that completes uploads on request.

    Every method raises ``StorageError``.
    """

    def begin(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> Upload:
        """Uploads a local file under checksums that the store verifies; the store copies its ``ranges``.

        After a failure nothing is kept.

        Raises:
            BadFile: a file that a range is taken from was replaced.
        """

    def held_bytes(self, upload: Upload) -> int:
        """Returns how many bytes of an upload the store holds; 0 if it no longer knows the upload."""

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        """Names ``uploads`` in the directory ``target``, and then the other files in ``staged``.

        Refuses a target that exists. Removes all of ``target`` after a failure, or if the end of a range differs from its
        source.
        """

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        """Aborts uploads into directories of ``location`` that are named after a transaction that ``is_gone``."""
