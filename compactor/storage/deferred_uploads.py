"""Uploads that naming completes: the store holds every byte, but no key exists yet.

A store that completes uploads on request needs no second copy of staged files. An ``Upload`` travels as a value from the
executor that began it to the driver that completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactor.base.ids import TxnId
from compactor.storage.taking_over import KnownBytes, TakenRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """All ``length`` bytes of the file that will be ``path``; ``parts`` are the store's answers for the parts, and ``ends``
    are looked at once the file can be read."""

    path: str
    id: str
    parts: tuple[str, ...]
    length: int
    ends: tuple[KnownBytes, ...] = ()


class Deferring(Protocol):
    """The additional methods of a store that completes uploads on request. Every method raises ``StorageError``."""

    def begin(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> Upload:
        """Uploads a local file, each part under a checksum that the store verifies, and has the store copy its ``ranges``.
        After a failure nothing is kept.

        Raises:
            BadFile: a file that a range is taken from was replaced.
        """

    def held(self, upload: Upload) -> int:
        """Returns the number of bytes that the store holds of it; 0 when it no longer knows it."""

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        """Gives ``uploads`` their names in the directory ``target``, and then the other files in ``staged``.

        Refuses a target that exists. After a failure, or if an end of a range is not what was read in its source, all of
        ``target`` is removed.
        """

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        """Aborts the uploads into directories of ``location`` whose name has a transaction for which ``is_gone`` is true."""
