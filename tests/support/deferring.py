"""A local store that completes uploads on request, as object stores do: uploads under way are in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from compactor.acid.names import parse_directory
from compactor.base.ids import TxnId
from compactor.storage.capabilities import TakenRange, Upload
from compactor.storage.local import LocalStorage


class Deferred(LocalStorage):
    """A local store; ``begun`` holds the content of every upload that is neither completed nor aborted, by its id."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[str, bytes]] = {}

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def deferring(self, path: str) -> Deferred:
        return self

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(Path(local).read_bytes())

    def begin(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> Upload:
        content = Path(local).read_bytes()
        upload = Upload(path=path, id=str(len(self.begun)), parts=("e",), length=len(content))
        self.begun[upload.id] = (path, content)
        return upload

    def held_bytes(self, upload: Upload) -> int:
        return len(self.begun.get(upload.id, ("", b""))[1])

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        os.makedirs(target)
        for upload in uploads:
            path, content = self.begun.pop(upload.id)
            Path(path).write_bytes(content)
        if os.path.isdir(staged):
            for name in os.listdir(staged):
                os.rename(f"{staged}/{name}", f"{target}/{name}")
            os.rmdir(staged)

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        for upload, (path, _) in list(self.begun.items()):
            acid = parse_directory(Path(path).parent.name)
            if acid is not None and acid.visibility_txn_id and is_gone(acid.visibility_txn_id):
                del self.begun[upload]
