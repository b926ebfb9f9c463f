"""Decides where an attempt writes: in its directory of the store, or first on the local disk.

Codecs can only write to local stores. Files for other stores are uploaded when they are finished and proven, so a broken
stream publishes nothing (PROTOCOL 3.4).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from compactor.acid.names import DeltaKind
from compactor.base.errors import VerificationFailed
from compactor.orc.io.source import crc32
from compactor.rewrite.plan.unit import Output
from compactor.rows.remote_source import open_source
from compactor.storage.capabilities import Deferring
from compactor.storage.protocol import Storage

_TAIL = 1 << 16  #: bytes compared at a file's end: postscript, footer and more


@contextmanager
def attempt_folder(storage: Storage, home: str) -> Iterator[str]:
    """Yields a local directory for the files of an attempt: ``home`` itself if that is local."""
    local = storage.local_path(home)
    if local is not None:
        # nobody else can learn its name, so codecs may use its path
        storage.make_inside(home)
        yield local
        return
    with tempfile.TemporaryDirectory(prefix="compactor-") as scratch:
        yield scratch


def hand_over(
    storage: Storage, outputs: Sequence[Output], home: str, *, full: bool, final: Mapping[DeltaKind, str] | None = None
) -> tuple[Output, ...]:
    """Brings proven outputs into ``home`` and returns them with their paths there.

    Args:
        full: read every byte back.
        final: the final directories of the outputs. If the store completes uploads on request, outputs are uploaded there
            instead of to ``home``, and not read back: each part was sent under its checksum.

    Raises:
        StorageError: an upload failed.
        VerificationFailed: the uploaded file differs.
    """
    deferring = storage.deferring(home)
    if final and deferring is not None and not full:
        return tuple(_begin_upload(deferring, output, f"{final[output.kind]}/{output.name}") for output in outputs)
    return tuple(_upload(storage, output, home, full) for output in outputs)


def _begin_upload(store: Deferring, output: Output, path: str) -> Output:
    return replace(output, path=path, upload=store.begin(output.path, path, output.ranges), ranges=())


def _upload(storage: Storage, output: Output, home: str, full: bool) -> Output:
    if storage.local_path(home) is not None:
        return output
    path = f"{home}/{os.path.basename(output.path)}"
    storage.upload(output.path, path, output.ranges)
    start = max([0, output.length - _TAIL, *(taken.end for taken in output.ranges)])
    with open(output.path, "rb") as file:
        file.seek(start)
        same = file.read() == storage.read_range(path, start, output.length - start)
    if not same or (full and _checksum(storage, path, output.length) != output.crc32):
        raise VerificationFailed(f"{path}: differs from the uploaded file; nothing was changed, request it again")
    return replace(output, path=path, ranges=())


def _checksum(storage: Storage, path: str, length: int) -> int:
    with open_source(storage, path) as source:
        return crc32(source, 0, length)
