"""Reads the manifest of a compaction: inputs with lengths, and names of outputs (PROTOCOL 11.6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from compactor.base.errors import CompactorError
from compactor.base.ids import TxnId
from compactor.storage.protocol import Storage

MOST_BYTES = 64 * 1024 * 1024  #: of a manifest or record; enough for half a million files


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest.

    ``inputs`` maps the paths of files to their lengths; ``outputs`` are names of directories.
    """

    txn: TxnId | None
    inputs: Mapping[str, int]
    outputs: tuple[str, ...]


def read_manifest(storage: Storage, path: str) -> Manifest | None:
    """Returns the manifest at ``path``; None if it does not exist or cannot be read."""
    try:
        length = storage.length(path) if storage.exists(path) else 0
        if not 0 < length <= MOST_BYTES:
            return None
        content = json.loads(storage.read_range(path, 0, length))  # never more than was checked
        txn = content.get("transaction")
        return Manifest(
            txn=None if txn is None else TxnId(int(txn)),
            inputs={str(file["path"]): int(file["length"]) for file in content["inputs"]},
            outputs=tuple(str(directory["name"]) for directory in content["directories"]),
        )
    except (CompactorError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
