"""Uploads that are finished by naming: the store holds every byte, and no key of it is there yet.

A store that completes uploads on request needs no second copy of what was staged. An ``Upload`` travels as a value from
the executor that began it to the driver that completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactor.ids import TxnId


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """All ``length`` bytes of the file that will be ``path``; ``parts`` are what the store answered for each part."""

    path: str
    id: str
    parts: tuple[str, ...]
    length: int


class Deferring(Protocol):
    """What such a store does besides. Every method raises ``StorageError``."""

    def begin(self, local: str, path: str) -> Upload:
        """Uploads the local file, each part under a checksum that the store compares. When it fails nothing is kept."""

    def held(self, upload: Upload) -> int:
        """Bytes that the store holds of it; 0 when it knows nothing of it any more."""

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        """Gives ``uploads`` their names in the directory ``target``, and then what lies in ``staged`` besides.

        Refuses a target that exists. When something fails, all of ``target`` is taken back.
        """

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        """Aborts the uploads into directories of ``location`` that bear a transaction which ``is_gone``."""
