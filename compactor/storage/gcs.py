"""Tables in Google's store: gcsfs does everything except bulk removal, where it takes ``[`` and ``*`` for patterns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.storage.capabilities import GCS, Capabilities
from compactor.storage.object_store import ObjectStorage, RefusedKey

BULK = 100  #: keys in one request for removal; Google takes no more


class GcsStorage(ObjectStorage):
    """The back end for ``gs://`` locations."""

    EXTRA = "gcs"

    def capabilities(self, path: str) -> Capabilities:
        return GCS

    def _client(self, scheme: str) -> Any:
        # the class under gcsfs's own name asks Google over a second protocol for the kind of a bucket: private endpoints
        # don't speak it, and a minute passes
        from gcsfs.core import GCSFileSystem

        return GCSFileSystem

    def _remove_keys(self, keys: Sequence[str]) -> list[RefusedKey]:
        from fsspec.asyn import sync

        system, refused = self._system(keys[0]), list[RefusedKey]()
        for start in range(0, len(keys), BULK):
            asked = keys[start : start + BULK]
            try:
                answers = sync(system.loop, system._rm_files, [system._strip_protocol(key) for key in asked])
            except FileNotFoundError as error:  # the address for batches: not every compatible store has it
                answers = [error]
            # answers don't always name their key, and a key that is gone is an error; single requests are clear
            if any(isinstance(answer, Exception) for answer in answers):
                refused += self._one_by_one(asked)
        return refused
