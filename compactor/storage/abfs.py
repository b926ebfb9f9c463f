"""Tables in Azure's store through its Blob service: exact keys, finished copies, bulk removal.

adlfs provides the session and credentials. This module sends the requests, because adlfs takes ``?`` and ``#`` in a path
for parts of an address, returns before the store has finished a copy, and ends a removal at the first refused key.

An account with a hierarchical namespace is used as a flat one. A directory there is an object without rows, which is
removed after its content.
"""

from __future__ import annotations

import base64
import contextlib
import os
import time
from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import groupby, zip_longest
from typing import Any, TypeVar

from compactor.base.errors import StorageError
from compactor.base.steps import StoreStep, reach
from compactor.storage.capabilities import ABFS, Capabilities, TakenRange, TakingOver, ends_of
from compactor.storage.copy_parts import Part, PartLimits, plan_parts
from compactor.storage.object_store import (
    REFUSED,
    ObjectStorage,
    RefusedKey,
    errors,
    replaced,
    side_files_and_data,
    warn_once,
)
from compactor.storage.protocol import StoredFile

_T = TypeVar("_T")
BULK = 256  #: keys in one request for removal; Azure takes no more
TRANSFERS = 4  #: blocks of one file under way at once, each in memory
COPIES = 16  #: blocks that the store copies at once
#: For a file that takes over ranges. A range below 1 MiB is not worth a request of its own.
BLOCKS = PartLimits(smallest=1 << 20, sent=64 << 20, copied=64 << 20, parts=50_000)
_VALID = timedelta(hours=1)  #: how long the store may read a source: longer than any request takes
COPY_PAUSES = (0.05, 2.0)  #: seconds between two looks at a copy: the first pause, doubled up to the longest
_DIRECTORY = "hdi_isfolder"  #: marks a directory of a hierarchical namespace, or one that Hadoop made


class AbfsStorage(ObjectStorage):
    """The back end for ``abfs://`` and ``abfss://`` locations."""

    EXTRA = "abfs"

    def capabilities(self, path: str) -> Capabilities:
        return ABFS

    def _with_place(self, options: dict[str, Any], place: str) -> dict[str, Any]:
        """Adds the account of a place ``container@account.dfs.core.windows.net``."""
        account = place.partition("@")[2].partition(".")[0]
        return {"account_name": account, **options} if account else options

    def _below(self, path: str) -> list[tuple[str, int]]:
        """Lists keys. The object of a directory ends with a slash, like directory markers in other stores."""
        items = self._items(path)
        return [(f"{name.rstrip('/')}/" if is_directory else name, length) for name, length, is_directory in items]

    def _items(self, path: str) -> list[tuple[str, int, bool]]:
        """Lists the items below ``path`` at once: relative name, length, true for a directory."""
        prefix = _directory(path)

        async def list_names() -> list[tuple[str, int, bool]]:
            blobs = self._container(path).list_blobs(name_starts_with=prefix, include=["metadata"])
            return [(blob.name[len(prefix) :], int(blob.size or 0), _is_directory(blob)) async for blob in blobs]

        return [item for item in self._run(path, list_names) if item[0]]

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        directory = _directory(path)

        async def list_names() -> set[str]:
            blobs = self._container(path).walk_blobs(name_starts_with=f"{directory}{prefix}", delimiter="/")
            return {blob.name[len(directory) :].rstrip("/") async for blob in blobs}

        with errors("list", path):
            return tuple(sorted(self._run(path, list_names) - {""}))

    def exists(self, path: str) -> bool:
        async def is_directory() -> bool:
            prefix = _directory(path)
            async for _ in self._container(path).list_blobs(name_starts_with=prefix, results_per_page=1):
                return True
            return False

        with errors("look at", path):
            return self._is_object(path) or self._run(path, is_directory)

    def _is_object(self, path: str) -> bool:
        return bool(self._run(path, self._blob(path).exists))

    def length(self, path: str) -> int:
        return self.status(path).length

    def status(self, path: str) -> StoredFile:
        with errors("measure", path):
            properties = self._run(path, self._blob(path).get_blob_properties)
            return StoredFile(length=int(properties.size), tag=properties.etag)

    def taking_over(self, path: str) -> TakingOver | None:
        """Returns terms only for a client with the account's key, which signs permissions to read sources."""
        with errors("reach", path):
            return TakingOver(smallest=BLOCKS.smallest) if self._account_key(path) else None

    def read(self, path: str) -> bytes:
        with errors("read", path):
            return self._download(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with errors("read", path):
            return self._download(path, offset=offset, length=length)

    def _download(self, path: str, **span: int) -> bytes:
        async def download() -> bytes:
            stream = await self._blob(path).download_blob(max_concurrency=TRANSFERS, **span)
            return bytes(await stream.readall())

        return self._run(path, download)

    def write(self, path: str, content: bytes) -> None:
        with errors("write", path):
            self._upload(path, content)

    def _put(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        """Uploads a file.

        Its key exists only after its last block; the store drops blocks of a failed upload in time.
        """
        if ranges:
            self._put_blocks(local, path, ranges)
            return
        with open(local, "rb") as file:
            self._upload(path, file)

    def _put_blocks(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        parts = plan_parts(os.stat(local).st_size, ranges, BLOCKS)
        blocks = [(base64.b64encode(b"%06d" % number).decode("ascii"), part) for number, part in enumerate(parts)]
        with ThreadPoolExecutor(COPIES, thread_name_prefix="storage") as pool:
            taken = [(name, part.taken) for name, part in blocks if part.taken is not None]
            copied = {name for name in pool.map(lambda block: self._copy_block(path, *block), taken) if name}
        with ThreadPoolExecutor(TRANSFERS, thread_name_prefix="storage") as pool:
            sent = [block for block in blocks if block[0] not in copied]
            list(pool.map(lambda block: self._send_block(local, path, ranges, *block), sent))
        self._check_tags(ranges)

        async def commit() -> None:
            await self._blob(path).commit_block_list([name for name, _ in blocks])

        self._run(path, commit)
        self._check_ends(path, ends_of(ranges))

    def _send_block(self, local: str, path: str, ranges: Sequence[TakenRange], block: str, part: Part) -> None:
        data = self._content(local, ranges, part.start, part.end)

        async def send() -> None:
            await self._blob(path).stage_block(block, data, length=len(data), validate_content=True)

        self._run(path, send)

    def _copy_block(self, path: str, block: str, taken: TakenRange) -> str | None:
        """Returns the name of the block; None if the store refuses to copy it."""
        from azure.core.exceptions import HttpResponseError

        async def copy() -> None:
            await self._blob(path).stage_block_from_url(
                block,
                self._readable_url(taken.source),
                source_offset=taken.offset,
                source_length=taken.length,
                headers={"x-ms-source-if-match": taken.tag},
            )

        try:
            self._run(path, copy)
        except HttpResponseError as error:
            if error.status_code in (404, 412):
                raise replaced(taken.source) from error
            if error.status_code not in REFUSED:
                raise
            warn_once(path, error)
            return None
        reach(StoreStep.RANGE_TAKEN)
        return block

    def _account_key(self, path: str) -> str | None:
        key: str | None = getattr(self._container(path).credential, "account_key", None)
        return key

    def _readable_url(self, path: str) -> str:
        """Returns the address of a blob with the permission to read it for a while."""
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas

        blob = self._blob(path)
        permission = generate_blob_sas(
            blob.account_name,
            blob.container_name,
            blob.blob_name,
            account_key=self._account_key(path),
            permission=BlobSasPermissions(read=True),
            expiry=datetime.now(UTC) + _VALID,
        )
        return f"{blob.url}?{permission}"

    def _upload(self, path: str, content: Any) -> None:
        async def upload() -> None:
            await self._blob(path).upload_blob(content, overwrite=True, max_concurrency=TRANSFERS)

        self._run(path, upload)

    def _pairs(self, source: str, target: str) -> list[tuple[str, str, int]]:
        """Leaves out the objects of directories: the store creates a directory when a file is written into it."""
        return [pair for pair in super()._pairs(source, target) if not pair[0].endswith("/")]

    def _copy(self, source: str, target: str, length: int) -> None:
        with errors("copy to", target):
            self._copy_whole(source, target)
        copied_length = self.length(target)
        if copied_length != length:
            raise StorageError(f"cannot copy to {target}: {copied_length} bytes arrived of {length}")

    def _copy_whole(self, source: str, target: str) -> None:
        """Copies a blob and waits for the store. Its first answer says whether the copy is already done."""
        blob = self._blob(target)

        async def begin() -> dict[str, Any]:
            return dict(await blob.start_copy_from_url(self._blob(source).url))

        answer = self._run(target, begin)
        status, why = answer["copy_status"], ""
        pause, longest = COPY_PAUSES
        try:
            while status == "pending":
                time.sleep(pause)
                pause = min(2 * pause, longest)
                copy = self._run(target, blob.get_blob_properties).copy
                status, why = copy.status, copy.status_description or ""
        except BaseException:  # also when the process must end: a blob cannot be removed while it is being copied
            with contextlib.suppress(Exception):
                self._run(target, lambda: blob.abort_copy(answer["copy_id"]))
            raise
        if status != "success":
            raise StorageError(f"cannot copy to {target}: the store says {status} {why}")

    def _runs(self, path: str) -> Sequence[Sequence[str]]:
        """Puts the object of a directory after everything in it: the store refuses to remove it earlier."""
        items = self._items(path)
        side, rows = side_files_and_data([f"{path}/{name}" for name, _, is_directory in items if not is_directory], str)
        directories = sorted((name for name, _, is_directory in items if is_directory), key=_depth, reverse=True)
        runs = [[f"{path}/{name}" for name in level] for _, level in groupby(directories, key=_depth)]
        return [side, rows, *runs, [path] if self._is_object(path) else []]

    def _runs_of(self, above: str, paths: Collection[str]) -> Sequence[Mapping[str, str]]:
        of_each = [[dict.fromkeys(run, path) for run in self._runs(path)] for path in paths]
        return [dict(ChainMap(*runs)) for runs in zip_longest(*of_each, fillvalue={})]

    def _remove_keys(self, keys: Sequence[str]) -> list[RefusedKey]:
        return [
            refused for start in range(0, len(keys), BULK) for refused in self._remove_batch(keys[start : start + BULK])
        ]

    def _remove_batch(self, keys: Sequence[str]) -> list[RefusedKey]:
        from azure.core.exceptions import HttpResponseError

        async def remove() -> list[Any]:
            names = [_split(key)[1] for key in keys]
            return [
                answer
                async for answer in await self._container(keys[0]).delete_blobs(*names, raise_on_any_failure=False)
            ]

        try:
            answers = self._run(keys[0], remove)
        except HttpResponseError as error:
            if error.status_code is None or not 400 <= error.status_code < 500:
                raise
            return self._remove_one_by_one(keys)  # no batch requests here, or not for this user
        return [
            RefusedKey(key=key, why=f"{answer.status_code} {answer.headers.get('x-ms-error-code') or answer.reason}")
            for key, answer in zip(keys, answers, strict=True)
            if not 200 <= answer.status_code < 300 and answer.status_code != 404
        ]

    def _remove_key(self, key: str) -> None:
        from azure.core.exceptions import ResourceNotFoundError

        with contextlib.suppress(ResourceNotFoundError):
            self._run(key, self._blob(key).delete_blob)

    def _container(self, path: str) -> Any:
        return self._system(path).service_client.get_container_client(_split(path)[0])

    def _blob(self, path: str) -> Any:
        container, key = _split(path)
        return self._system(path).service_client.get_blob_client(container, key)

    def _run(self, path: str, request: Callable[[], Awaitable[_T]]) -> _T:
        """Runs a request of the asynchronous client in fsspec's loop."""
        from fsspec.asyn import sync

        answer: _T = sync(self._system(path).loop, request)
        return answer


def _is_directory(blob: Any) -> bool:
    metadata = {name.lower(): value for name, value in (blob.metadata or {}).items()}
    return blob.name.endswith("/") or metadata.get(_DIRECTORY) == "true"


def _depth(name: str) -> int:
    return name.rstrip("/").count("/")


def _directory(path: str) -> str:
    """Returns the beginning of all keys below ``path``."""
    key = _split(path)[1]
    return f"{key}/" if key else ""


def _split(path: str) -> tuple[str, str]:
    """Returns container and key: ``abfss://c@account.dfs.core.windows.net/t/f`` is ``c`` and ``t/f``."""
    place, _, key = path.partition("://")[2].partition("/")
    return place.partition("@")[0], key
