"""Tables in Google's store through gcsfs, with bulk removal and composition of objects.

This module sends two requests itself: gcsfs takes ``[`` and ``*`` for patterns when it removes, and names no generations
when it composes.

Google copies no ranges, but composes an object from up to 32 whole objects. A file whose stripes all stay becomes part of
the new file as a whole. Its tail stays between the stripes as padding.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from compactor.base.steps import StoreStep, reach
from compactor.storage.capabilities import GCS, Capabilities, TakenRange, TakingOver, ends_of, pieces
from compactor.storage.object_store import REFUSED, ObjectStorage, RefusedKey, errors, replaced, warn_once
from compactor.storage.protocol import StoredFile

SMALLEST = 1 << 20  #: bytes: a smaller object is not worth a place in a composition
COMPOSED = 32  #: objects in one request; Google takes no more
BULK = 100  #: keys in one request for removal; Google takes no more


_JSON = {"Content-Type": "application/json"}


class _CannotCompose(Exception):
    """The store refuses to compose these objects."""


class GcsStorage(ObjectStorage):
    """The back end for ``gs://`` locations."""

    EXTRA = "gcs"

    def capabilities(self, path: str) -> Capabilities:
        return GCS

    def status(self, path: str) -> StoredFile:
        with errors("measure", path):
            info = self._system(path).info(path)
            return StoredFile(length=int(info["size"]), tag=info.get("generation"))

    def taking_over(self, path: str) -> TakingOver | None:
        return TakingOver(smallest=SMALLEST, whole=True)

    def _put(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        if not ranges:
            super()._put(local, path, ranges)
            return
        try:
            self._put_composed(local, path, ranges)
        except _CannotCompose as error:
            warn_once(path, error)
            self._fill(local, ranges)
            self._check_tags(ranges)
            super()._put(local, path, ())

    def _put_composed(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        sent: list[str] = []
        try:
            sources = self._sources(local, path, ranges, sent)
            self._compose(path, sources[:COMPOSED])
            for start in range(COMPOSED, len(sources), COMPOSED - 1):
                self._compose(path, [(path, None), *sources[start : start + COMPOSED - 1]])
            self._check_tags(ranges)
            self._check_ends(path, ends_of(ranges))
        except BaseException:  # also when the process is asked to end
            self._take_back(path)
            raise
        finally:
            for part in sent:
                with contextlib.suppress(Exception):  # a part that stays is removed with the staging directory
                    self._remove_key(part)

    def _sources(
        self, local: str, path: str, ranges: Sequence[TakenRange], sent: list[str]
    ) -> list[tuple[str, str | None]]:
        """Returns the objects to compose, with their generations, and uploads the parts that are new."""
        sources: list[tuple[str, str | None]] = []
        with open(local, "rb") as file:
            for start, end, taken in pieces(ranges, 0, os.stat(local).st_size):
                if taken is not None:
                    sources.append((taken.source, taken.tag))
                    continue
                sent.append(f"{path}.part{len(sent)}")
                file.seek(start)
                with tempfile.NamedTemporaryFile(dir=os.path.dirname(local)) as piece:
                    piece.write(file.read(end - start))
                    piece.flush()
                    self._system(path).put_file(piece.name, sent[-1])
                sources.append((sent[-1], None))
        return sources

    def _compose(self, path: str, sources: Sequence[tuple[str, str | None]]) -> None:
        system = self._system(path)
        bucket, key, _ = system.split_path(path)
        source_objects = [
            {"name": system.split_path(source)[1]}
            | ({"objectPreconditions": {"ifGenerationMatch": generation}} if generation else {})
            for source, generation in sources
        ]
        body = {
            "kind": "storage#composeRequest",
            "sourceObjects": source_objects,
            "destination": {"name": key, "bucket": bucket},
        }
        try:
            system.call("POST", "b/{}/o/{}/compose", bucket, key, headers=_JSON, json=body)
        except Exception as error:  # its client has an error of its own for some answers, Python's for others
            code = str(getattr(error, "code", ""))
            if isinstance(error, FileNotFoundError) or code in ("404", "412"):
                raise replaced(", ".join(source for source, generation in sources if generation)) from error
            if str(error).startswith("Forbidden") or code in map(str, REFUSED):
                raise _CannotCompose(str(error)) from error
            raise
        reach(StoreStep.RANGE_TAKEN)

    def _client(self, scheme: str) -> Any:
        # gcsfs's default class asks for the kind of a bucket over a second protocol; private endpoints don't speak it,
        # and the request takes a minute to fail
        from gcsfs.core import GCSFileSystem

        return GCSFileSystem

    def _remove_keys(self, keys: Sequence[str]) -> list[RefusedKey]:
        from fsspec.asyn import sync

        system, refused = self._system(keys[0]), list[RefusedKey]()
        for start in range(0, len(keys), BULK):
            batch = keys[start : start + BULK]
            try:
                answers = sync(system.loop, system._rm_files, [system._strip_protocol(key) for key in batch])
            except FileNotFoundError as error:  # the address for batches: not every compatible store has it
                answers = [error]
            # answers don't always name their key, and a key that is gone is an error; single requests are clear
            if any(isinstance(answer, Exception) for answer in answers):
                refused += self._remove_one_by_one(batch)
        return refused
