"""The manifest of a compaction, as it is read again: what was read, with lengths, and what was named (PROTOCOL 11.6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from compactor.base.errors import CompactorError
from compactor.base.ids import TxnId
from compactor.storage.protocol import Storage

MOST_BYTES = 64 * 1024 * 1024  #: of a manifest or record that is read: half a million files; parsed, it takes more


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``inputs`` are the files that were read with their lengths, ``outputs`` the names of directories."""

    txn: TxnId | None
    inputs: Mapping[str, int]
    outputs: tuple[str, ...]


def read_manifest(storage: Storage, path: str) -> Manifest | None:
    """Returns the manifest at ``path``; None if there is none, or it cannot be read, which proves nothing."""
    try:
        length = storage.length(path) if storage.exists(path) else 0
        if not 0 < length <= MOST_BYTES:
            return None
        found = json.loads(storage.read_range(path, 0, length))  # whatever it has become since
        txn = found.get("transaction")
        return Manifest(
            txn=None if txn is None else TxnId(int(txn)),
            inputs={str(one["path"]): int(one["length"]) for one in found["inputs"]},
            outputs=tuple(str(one["name"]) for one in found["directories"]),
        )
    except (CompactorError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
