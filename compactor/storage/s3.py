"""Tables in S3 and compatible stores: exact keys, checked bulk removal, no half-finished upload.

s3fs provides the session, credentials and retries. This module sends the requests, because s3fs does not report keys that
it could not delete, and takes ``[`` and ``*`` in paths for patterns.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from compactor.acid.names import known_directory
from compactor.base.errors import StorageError
from compactor.base.ids import TxnId
from compactor.base.steps import StoreStep, reach
from compactor.storage.capabilities import S3, Capabilities, Deferring, TakenRange, TakingOver, Upload, ends_of
from compactor.storage.copy_parts import Part, PartLimits, plan_parts
from compactor.storage.object_store import REFUSED, ObjectStorage, RefusedKey, errors, replaced, warn_once
from compactor.storage.protocol import StoredFile

BULK = 1000  #: keys in one request for removal
WHOLE_COPY_BYTES = 5 << 30  #: up to this size one request copies an object; larger ones are copied in parts
UPLOAD_PART_BYTES = 64 << 20  #: files of twice this size and more are uploaded in parts, several at a time
UPLOADS = 4  #: parts of one file under way at once, each in memory
COPY_PART_BYTES = 512 << 20
COPIES = 16  #: parts that the store copies at once
PARTS = PartLimits(smallest=5 << 20, sent=UPLOAD_PART_BYTES, copied=UPLOAD_PART_BYTES)

#: For each listing: the arguments that ask for the next page, and the keys of an answer that hold their values.
_NEXT_PAGE = {
    "list_objects_v2": {"ContinuationToken": "NextContinuationToken"},
    "list_parts": {"PartNumberMarker": "NextPartNumberMarker"},
    "list_multipart_uploads": {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"},
}


class S3Storage(ObjectStorage):
    """The back end for ``s3://`` and ``s3a://`` locations."""

    EXTRA = "s3"

    def capabilities(self, path: str) -> Capabilities:
        return S3

    def _below(self, path: str) -> list[tuple[str, int]]:
        prefix = _directory(path)
        return [
            (item["Key"][len(prefix) :], int(item["Size"]))
            for item in self._items(path, prefix)
            if item["Key"] != prefix
        ]

    def _items(self, path: str, prefix: str) -> Iterator[dict[str, Any]]:
        for page in self._pages(path, "list_objects_v2", Prefix=prefix):
            yield from page.get("Contents", ())

    def _pages(self, path: str, listing: str, **named: object) -> Iterator[dict[str, Any]]:
        """Yields the pages of a listing; each says where the next one begins (``_NEXT_PAGE``)."""
        more: dict[str, object] = {}
        while True:
            page = self._call(path, listing, **named, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {begin: page[end] for begin, end in _NEXT_PAGE[listing].items()}

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        directory = _directory(path)
        names: set[str] = set()
        with errors("list", path):
            for page in self._pages(path, "list_objects_v2", Prefix=f"{directory}{prefix}", Delimiter="/"):
                names.update(item["Key"][len(directory) :] for item in page.get("Contents", ()))
                names.update(item["Prefix"][len(directory) : -1] for item in page.get("CommonPrefixes", ()))
        return tuple(sorted(names - {""}))

    def exists(self, path: str) -> bool:
        with errors("look at", path):
            return self._is_object(path) or bool(
                self._call(path, "list_objects_v2", Prefix=_directory(path), MaxKeys=1).get("Contents")
            )

    def _is_object(self, path: str) -> bool:
        try:
            self._call(path, "head_object", Key=_split(path)[1])
        except FileNotFoundError:
            return False
        return True

    def length(self, path: str) -> int:
        return self.status(path).length

    def status(self, path: str) -> StoredFile:
        with errors("measure", path):
            head = self._call(path, "head_object", Key=_split(path)[1])
            return StoredFile(length=int(head["ContentLength"]), tag=head.get("ETag"))

    def taking_over(self, path: str) -> TakingOver | None:
        return TakingOver(smallest=PARTS.smallest)

    def _put(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        if ranges:
            self._complete(self.begin(local, path, ranges))
        else:
            self._system(path).put_file(local, path, chunksize=UPLOAD_PART_BYTES)

    def _copy(self, source: str, target: str, length: int) -> None:
        origin = {"Bucket": _split(source)[0], "Key": _split(source)[1]}
        with errors("copy to", target):
            if length <= WHOLE_COPY_BYTES:
                self._call(target, "copy_object", Key=_split(target)[1], CopySource=origin)
            else:
                self._copy_parts(origin, target, length)
        copied_length = self.length(target)
        if copied_length != length:
            raise StorageError(f"cannot copy to {target}: {copied_length} bytes arrived of {length}")

    def _copy_parts(self, origin: dict[str, str], target: str, length: int) -> None:
        key = _split(target)[1]
        upload = self._call(target, "create_multipart_upload", Key=key)["UploadId"]
        try:
            parts: list[dict[str, Any]] = []
            for number, start in enumerate(range(0, length, COPY_PART_BYTES), 1):
                span = f"bytes={start}-{min(start + COPY_PART_BYTES, length) - 1}"
                part = self._call(
                    target,
                    "upload_part_copy",
                    Key=key,
                    UploadId=upload,
                    PartNumber=number,
                    CopySource=origin,
                    CopySourceRange=span,
                )
                parts.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
            self._call(target, "complete_multipart_upload", Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
        except BaseException:  # also when the process is asked to end: parts cost money until they are aborted
            with contextlib.suppress(Exception):
                self._call(target, "abort_multipart_upload", Key=key, UploadId=upload)
            raise

    def deferring(self, path: str) -> Deferring | None:
        return self

    def begin(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> Upload:
        """See ``Deferring``. S3 refuses a part with the wrong MD5; an ETag is not always an MD5 (encryption)."""
        key, length = _split(path)[1], os.stat(local).st_size
        with errors("write", path):
            upload = self._call(path, "create_multipart_upload", Key=key)["UploadId"]
            try:
                named = {"Key": key, "UploadId": upload}
                parts = plan_parts(length, ranges, PARTS)
                copied = self._copy_ranges(path, parts, named)
                sent = [(n, part) for n, part in enumerate(parts, 1) if n not in copied]
                with ThreadPoolExecutor(UPLOADS, thread_name_prefix="storage") as pool:
                    tags = copied | dict(
                        pool.map(lambda numbered: self._send(local, path, ranges, named, *numbered), sent)
                    )
                self._check_tags(ranges)
            except BaseException:  # also when the process is asked to end: parts cost money until they are aborted
                self._abort(path, key, upload)
                raise
        parts_held = tuple(tags[number] for number in sorted(tags))
        return Upload(path=path, id=upload, parts=parts_held, length=length, ends=ends_of(ranges))

    def _send(
        self, local: str, path: str, ranges: Sequence[TakenRange], named: dict[str, str], number: int, part: Part
    ) -> tuple[int, str]:
        data = self._content(local, ranges, part.start, part.end)
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")
        sent = self._call(path, "upload_part", Body=data, ContentMD5=digest, PartNumber=number, **named)
        return number, str(sent["ETag"])

    def _copy_ranges(self, path: str, parts: Sequence[Part], named: dict[str, str]) -> dict[int, str]:
        """Has the store copy the parts that are ranges of other files.

        Returns:
            The store's answers by part number. The store refused to copy the missing parts, so they must be sent.
        """
        taken = [(number, part.taken) for number, part in enumerate(parts, 1) if part.taken is not None]
        with ThreadPoolExecutor(COPIES, thread_name_prefix="storage") as pool:
            answers = pool.map(
                lambda numbered: (numbered[0], self._copy_range(path, numbered[1], numbered[0], named)), taken
            )
            return {number: tag for number, tag in answers if tag is not None}

    def _copy_range(self, path: str, taken: TakenRange, number: int, named: dict[str, str]) -> str | None:
        bucket, key = _split(taken.source)
        try:
            answer = self._call(
                path,
                "upload_part_copy",
                CopySource={"Bucket": bucket, "Key": key},
                CopySourceRange=f"bytes={taken.offset}-{taken.offset + taken.length - 1}",
                CopySourceIfMatch=taken.tag,
                PartNumber=number,
                **named,
            )
        except OSError as error:
            status, code = _answer(error)
            if status in REFUSED:
                warn_once(path, error)
                return None
            if status == 412 or code == "NoSuchKey":
                raise replaced(taken.source) from error
            raise
        reach(StoreStep.RANGE_TAKEN)
        return str(answer["CopyPartResult"]["ETag"])

    def held_bytes(self, upload: Upload) -> int:
        key = _split(upload.path)[1]
        with errors("look at the upload to", upload.path):
            try:
                pages = list(self._pages(upload.path, "list_parts", Key=key, UploadId=upload.id))
            except FileNotFoundError:
                return 0
        parts = [part for page in pages for part in page.get("Parts", ())]
        # Ozone's gateway quotes the tag of a part that it receives, and not that of a part that it lists.
        known = [(int(part["PartNumber"]), part["ETag"].strip('"')) for part in parts]
        sent = [etag.strip('"') for etag in upload.parts]
        if any(number > len(sent) or sent[number - 1] != etag for number, etag in known):
            raise StorageError(f"cannot write {upload.path}: the store holds other parts than were sent")
        return sum(int(part["Size"]) for part in parts)

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        """See ``Deferring``; side files come after data files."""
        if self.exists(target):
            raise StorageError(f"{target}: is there already; {staged} is not moved over or into it")
        try:
            self._each(self._complete, uploads)
            self._each(lambda pair: self._copy(*pair), self._pairs(staged, target))
        except BaseException:  # also when the process is asked to end
            self._take_back(target)
            raise
        self.remove(staged)

    def _complete(self, upload: Upload) -> None:
        key = _split(upload.path)[1]
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(upload.parts, 1)]
        named = {"Key": key, "UploadId": upload.id, "MultipartUpload": {"Parts": parts}}
        with errors("complete", upload.path):
            try:
                self._call(upload.path, "complete_multipart_upload", **named)
            except Exception as error:
                # after a lost answer the client repeats the request, and the upload is already complete
                if not self._is_object(upload.path):
                    if not isinstance(error, FileNotFoundError):
                        raise
                    raise StorageError(
                        f"cannot complete {upload.path}: its upload is gone; perhaps a rule of the bucket aborts uploads "
                        "too soon. Nothing is named; request the compaction again"
                    ) from error
        completed_length = self.length(upload.path)
        if completed_length != upload.length:
            raise StorageError(f"cannot complete {upload.path}: {completed_length} bytes arrived of {upload.length}")
        reach(StoreStep.COMPLETED)
        self._check_ends(upload.path, upload.ends)

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        prefix = _directory(location)
        with errors("abort uploads to", location):
            for upload in self._uploads(location, prefix):
                txn = _transaction(upload["Key"][len(prefix) :])
                if txn and is_gone(txn):
                    self._abort(location, upload["Key"], upload["UploadId"])

    def _abort(self, path: str, key: str, upload: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._call(path, "abort_multipart_upload", Key=key, UploadId=upload)

    def _uploads(self, path: str, prefix: str) -> Iterator[dict[str, Any]]:
        for page in self._pages(path, "list_multipart_uploads", Prefix=prefix):
            yield from page.get("Uploads", ())

    def remove(self, path: str, *, durable: bool = True) -> None:
        super().remove(path)
        with errors("abort uploads to", path):
            self._abort_uploads(path)

    def _abort_uploads(self, path: str) -> None:
        """Aborts unfinished uploads to keys below ``path``, whose writer has ended."""
        key = _split(path)[1]
        for upload in self._uploads(path, key):
            if upload["Key"] == key or upload["Key"].startswith(f"{key}/"):
                self._abort(path, upload["Key"], upload["UploadId"])

    def _remove_keys(self, keys: Sequence[str]) -> list[RefusedKey]:
        refused: list[RefusedKey] = []
        for start in range(0, len(keys), BULK):
            paths = {_split(key)[1]: key for key in keys[start : start + BULK]}
            request = {"Objects": [{"Key": name} for name in paths], "Quiet": True}
            refused += [
                RefusedKey(
                    key=paths.get(error["Key"], error["Key"]), why=f"{error.get('Code')} {error.get('Message', '')}"
                )
                for error in self._call(keys[0], "delete_objects", Delete=request).get("Errors", ())
            ]
        return refused

    def _call(self, path: str, method: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._system(path).call_s3(method, Bucket=_split(path)[0], **arguments)
        return answer


def _answer(error: OSError) -> tuple[int, str]:
    """Returns the HTTP status and S3's code of a client's error.

    0 and an empty text if the store did not answer.
    """
    response = getattr(error.__cause__, "response", None) or {}
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)), str(
        response.get("Error", {}).get("Code")
    )


def _transaction(key: str) -> TxnId | None:
    """Returns the transaction in a key's directory: 17 for ``base_0000005_v0000017/bucket_00000``.

    ``key`` is relative to the location of a table or partition.
    """
    acid = known_directory(key.partition("/")[0])
    return acid.visibility_txn_id if acid is not None and acid.visibility_txn_id else None


def _directory(path: str) -> str:
    """Returns the beginning of all keys below ``path``."""
    key = _split(path)[1]
    return f"{key}/" if key else ""


def _split(path: str) -> tuple[str, str]:
    """Returns bucket and key: ``s3a://bucket/t/f`` is ``bucket`` and ``t/f``."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key
