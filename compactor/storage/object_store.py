"""The common part of object stores, which have only keys, but neither directories nor a rename.

A file appears when its upload is complete. A directory exists as long as a key below it exists.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from compactor.acid.listing import Listing
from compactor.acid.names import is_skipped
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import AccessDenied, BadFile, CompactorError, NotSupported, StorageError, VerificationFailed
from compactor.base.redaction import redact
from compactor.storage.build_listing import ListingLimits, build_listing_from, build_tree_from
from compactor.storage.capabilities import Capabilities, Deferring, KnownBytes, TakenRange, TakingOver, pieces
from compactor.storage.protocol import NO_FILES, StoredFile
from compactor.storage.store_options import SCHEMES, StoreOptions

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_R = TypeVar("_R")
#: HTTP statuses of a store that does not copy ranges, or not for this user or these keys. The bytes are sent instead.
REFUSED = (400, 401, 403, 405, 501)
#: Codes of S3 and Azure for a request that the user may not make.
_DENIED = frozenset(
    ["AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch", "InsufficientAccountPermissions"]
)
FILLED = 64 << 20  #: bytes of a range that are read at a time
PARALLEL = 8  #: requests at a time when files are copied or removed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedKey:
    """A key that the store refused to remove."""

    key: str
    why: str


class ObjectStorage:
    """The base of the back ends for object stores. Paths keep their scheme and bucket."""

    EXTRA: ClassVar[str]  #: of the package, which installs the client

    def __init__(self, options: StoreOptions | None = None, limits: ListingLimits | None = None) -> None:
        self.options = options or StoreOptions()
        self.limits = limits or ListingLimits()
        self._opening = threading.Lock()
        self._systems: dict[tuple[int, str], Any] = {}

    def capabilities(self, path: str) -> Capabilities:
        raise NotImplementedError

    def resolve(self, location: str, within: str | None = None) -> str:
        return location.rstrip("/")

    def listing(self, path: str) -> Listing:
        with errors("list", path):
            below = self._below(path)
        # clients create an object "x/" to show an empty directory x; readers see it too
        markers = [name.partition("/")[0] for name, _ in below if name.endswith("/")]
        files = [(name, length) for name, length in below if not name.endswith("/")]
        return build_listing_from(path, files, markers, self.read, self.limits)

    def tree(self, path: str) -> Tree:
        with errors("list", path):
            return build_tree_from(self._anchor(path), (name for name, _ in self._below(path)))

    def anchor(self, path: str) -> Anchor | None:
        return self._anchor(path) if self.children(path) else None

    def _anchor(self, path: str) -> Anchor:
        scheme, _, rest = path.partition("://")
        return Anchor(volume=f"{SCHEMES[scheme]}://{rest.partition('/')[0]}")

    def _below(self, path: str) -> list[tuple[str, int]]:
        """Returns all keys below ``path`` from one listing, relative to it, with their lengths."""
        system = self._system(path)
        prefix = system._strip_protocol(path)
        listed: Mapping[str, Mapping[str, Any]] = system.find(path, detail=True, withdirs=False)
        return [
            (name[len(prefix) + 1 :], int(info["size"] or 0))
            for name, info in listed.items()
            if name.startswith(f"{prefix}/") and info["type"] == "file"
        ]

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        with errors("list", path):
            system = self._system(path)
            directory = system._strip_protocol(path)
            try:
                listed = system.ls(path, detail=False, prefix=prefix)
            except FileNotFoundError:
                return ()
            names = {
                name.rstrip("/")[len(directory) + 1 :] for name in listed if name.startswith(f"{directory}/{prefix}")
            }
            return tuple(sorted(name for name in names if name))

    def exists(self, path: str) -> bool:
        with errors("look at", path):
            return bool(self._system(path).exists(path))

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def owner(self, path: str) -> str | None:
        return None

    def deferring(self, path: str) -> Deferring | None:
        return None

    def taking_over(self, path: str) -> TakingOver | None:
        return None

    def status(self, path: str) -> StoredFile:
        return StoredFile(length=self.length(path))

    def length(self, path: str) -> int:
        with errors("measure", path):
            return int(self._system(path).info(path)["size"])

    def version(self, path: str) -> str | None:
        try:
            return self.status(path).tag
        except StorageError:
            if self.exists(path):
                raise
            return None

    def read(self, path: str) -> bytes:
        with errors("read", path):
            return bytes(self._system(path).cat_file(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with errors("read", path):
            return bytes(self._system(path).cat_file(path, start=offset, end=offset + length))

    def write(self, path: str, content: bytes) -> None:
        with errors("write", path):
            self._system(path).pipe_file(path, content)

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        """Uploads in one request or in parts. The client aborts the upload if a part fails."""
        with errors("write", path):
            self._put(local, path, ranges)
        length, expected = self.length(path), os.stat(local).st_size
        if length != expected:
            raise StorageError(f"cannot write {path}: {length} bytes arrived of {expected}")

    def _put(self, local: str, path: str, ranges: Sequence[TakenRange]) -> None:
        assert not ranges  # see taking_over
        self._system(path).put_file(local, path)

    def _content(self, local: str, ranges: Sequence[TakenRange], start: int, end: int) -> bytes:
        """Returns bytes of a new file; reads those of its ranges from their sources."""
        chunks: list[bytes] = []
        with open(local, "rb") as file:
            for begin, stop, taken in pieces(ranges, start, end):
                file.seek(begin)
                chunks.append(
                    file.read(stop - begin)
                    if taken is None
                    else self.read_range(taken.source, taken.offset, taken.length)
                )
        data = b"".join(chunks)
        if len(data) != end - start:
            raise StorageError(
                f"{local}: {len(data)} bytes at {start} with those of its sources, expected {end - start}"
            )
        return data

    def _fill(self, local: str, ranges: Sequence[TakenRange]) -> None:
        """Writes the bytes of the ranges into the local file, after the store has refused to take them over."""
        with open(local, "r+b") as file:
            for taken in ranges:
                for start in range(taken.position, taken.end, FILLED):
                    part = taken.part(start, min(start + FILLED, taken.end))
                    file.seek(start)
                    file.write(self._content(local, ranges, part.position, part.end))

    def _check_ends(self, path: str, ends: Sequence[KnownBytes]) -> None:
        def check(end: KnownBytes) -> None:
            if self.read_range(path, end.start, len(end.content)) != end.content:
                raise VerificationFailed(
                    f"{path}: the store copied the wrong bytes: from {end.start} on they differ from their source; "
                    "nothing was changed; set compactor.copy.within.store to false there, and report it to whoever runs "
                    "the store"
                )

        self._each(check, ends)

    def _check_tags(self, ranges: Sequence[TakenRange]) -> None:
        """Checks that no source was replaced meanwhile: not every store compares the tag in a request to copy."""

        def check(source: tuple[str, str]) -> None:
            path, tag = source
            if self.status(path).tag != tag:
                raise replaced(path)

        self._each(check, sorted({(taken.source, taken.tag) for taken in ranges}))

    def make_directories(self, path: str, *, like: str) -> None:
        """Does nothing: there are no directories."""

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        """Does nothing: there are no directories."""

    def make_inside(self, path: str) -> None:
        """Does nothing: there are no directories."""

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        """Adds ``files``; permissions are those of the bucket."""
        lengths: dict[str, int] = {}
        for name, source in files.items():
            target = f"{path}/{name}"
            if isinstance(source, bytes):
                self.write(target, source)
                lengths[name] = len(source)
            else:
                self.rename(source, target)
                lengths[name] = self.length(target)
        return lengths

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Does nothing: an acknowledged object is durable."""
        return {}

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Does nothing: an acknowledged object is durable."""
        return {}

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        if self.exists(target):
            raise StorageError(f"{target}: is there already; {source} is not moved over or into it")
        files = self._pairs(source, target)
        if not files:
            raise StorageError(f"cannot rename to {target}: there is nothing at {source}")
        side, data = side_files_and_data(files, lambda pair: pair[0])
        try:
            # side files such as _metadata_acid come last: alone they would look like a directory without rows
            self._each(lambda pair: self._copy(*pair), data)
            self._each(lambda pair: self._copy(*pair), side)
        except BaseException:  # also when the process is asked to end
            self._take_back(target)
            raise
        self.remove(source)

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        for old, new in names.items():
            self.rename(f"{path}/{old}", f"{path}/{new}")
            yield old

    def _pairs(self, source: str, target: str) -> list[tuple[str, str, int]]:
        with errors("list", source):
            below = self._below(source)
            if below:
                return [(f"{source}/{name}", f"{target}/{name}", length) for name, length in sorted(below)]
            return [(source, target, self.length(source))] if self._system(source).exists(source) else []

    def _copy(self, source: str, target: str, length: int) -> None:
        """Copies a file within the store, as a whole or not at all."""
        with errors("copy to", target):
            self._system(source).cp_file(source, target)
        copied_length = self.length(target)
        if copied_length != length:
            raise StorageError(f"cannot copy to {target}: {copied_length} bytes arrived of {length}")

    def _take_back(self, target: str) -> None:
        with contextlib.suppress(CompactorError):
            self.remove(target)

    def remove(self, path: str, *, durable: bool = True) -> None:
        """Removes as many keys as the store admits.

        The error names a refused key; a later removal tries it again.
        """
        with errors("remove", path):
            runs = self._runs(path)
            for error in self._remove_runs([dict.fromkeys(run, path) for run in runs]).values():
                raise error
            if any(runs) and (remaining := self._below(path)):
                raise _still_there(path, f"{path}/{remaining[0][0]}")

    def _runs(self, path: str) -> Sequence[Sequence[str]]:
        """Returns the keys to remove in runs. Each run is removed after the one before it."""
        below = [f"{path}/{name}" for name, _ in self._below(path)]
        if not below and self.exists(path):
            below = [path]
        # in the reverse order of naming: side files must not stay in a directory alone
        return side_files_and_data(below, str)

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        """See ``Storage.remove_all``. Removes the keys of all paths in bulk."""
        if not paths:
            return {}
        above = next(iter(paths)).rpartition("/")[0]
        with errors("remove from", above):
            failed = self._remove_runs(self._runs_of(above, paths))
            for key, path in self._owners(above, paths).items():
                failed.setdefault(path, _still_there(path, key))
            return failed

    def _runs_of(self, above: str, paths: Collection[str]) -> Sequence[Mapping[str, str]]:
        """Returns the merged ``_runs`` of ``paths`` in the directory ``above``, each key with its path."""
        owners = self._owners(above, paths)
        return [{key: owners[key] for key in run} for run in side_files_and_data(sorted(owners), str)]

    def _remove_runs(self, runs: Sequence[Mapping[str, str]]) -> dict[str, StorageError]:
        """Removes keys, each of which belongs to a path.

        Returns the paths that keep some keys, with the errors.
        """
        failed: dict[str, StorageError] = {}
        for run in runs:
            keys = [key for key, path in run.items() if path not in failed]
            of_each = Counter(run[key] for key in keys)
            stay: defaultdict[str, list[RefusedKey]] = defaultdict(list)
            for refusal in self._remove_keys(keys) if keys else ():
                stay[run[refusal.key]].append(refusal)
            for path, refused in stay.items():
                failed[path] = StorageError(
                    f"cannot remove {path}: {len(refused)} of {of_each[path]} keys stay, the first is {refused[0].key}: "
                    f"{refused[0].why}"
                )
        return failed

    def _owners(self, above: str, paths: Collection[str]) -> dict[str, str]:
        """Maps keys in the directory ``above`` to the one of ``paths`` that they equal or are below."""
        owners: dict[str, str] = {}
        for name, _ in self._below(above):
            parts = name.split("/")
            ways = (f"{above}/{'/'.join(parts[:depth])}" for depth in range(1, len(parts) + 1))
            owner = next((way for way in ways if way in paths), None)
            if owner is not None:
                owners[f"{above}/{name}"] = owner
        return owners

    def _remove_keys(self, keys: Sequence[str]) -> list[RefusedKey]:
        """Removes ``keys`` of one bucket, each even if others fail. A missing key counts as removed."""
        raise NotImplementedError

    def _remove_one_by_one(self, keys: Sequence[str]) -> list[RefusedKey]:
        refused: list[RefusedKey] = []

        def remove(key: str) -> None:
            try:
                self._remove_key(key)
            except FileNotFoundError:
                return
            except Exception as error:  # noqa: BLE001 - each client has errors of its own
                refused.append(RefusedKey(key=key, why=str(error) or type(error).__name__))

        self._each(remove, keys)
        return sorted(refused, key=lambda refusal: refusal.key)

    def _remove_key(self, key: str) -> None:
        self._system(key).rm_file(key)

    @staticmethod
    def _each(act: Callable[[_T], _R], many: Sequence[_T]) -> list[_R]:
        if len(many) < 2:
            return [act(item) for item in many]
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="storage") as pool:
            return list(pool.map(act, many))

    def identity(self, path: str) -> str | None:
        return None

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        return dict.fromkeys(names)

    def may_write(self, path: str) -> bool | None:
        return None

    def free_bytes(self, path: str) -> int | None:
        return None

    def _system(self, path: str) -> Any:
        """Returns this process's fsspec file system for one bucket, without caches of listings."""
        scheme, _, rest = path.partition("://")
        place = rest.partition("/")[0]
        key = (os.getpid(), f"{scheme}://{place}")
        with self._opening:
            if key not in self._systems:
                self._systems[key] = self._open(SCHEMES[scheme], scheme, place)
            return self._systems[key]

    def _open(self, kind: str, scheme: str, place: str) -> Any:
        options = self._with_place(self.options.admitted(kind, place), place)
        try:
            client = self._client(scheme)
        except ImportError as error:
            raise NotSupported(
                f"{scheme}://{place}: needs the extra: pip install 'hive-compactor[{self.EXTRA}]' ({error})"
            ) from error
        with errors("reach", f"{scheme}://{place}"):
            return client(skip_instance_cache=True, use_listings_cache=False, **options)

    def _client(self, scheme: str) -> Any:
        """Returns fsspec's class for ``scheme``; raises ``ImportError`` if the extra is not installed."""
        import fsspec

        return fsspec.get_filesystem_class(scheme)

    def _with_place(self, options: dict[str, Any], place: str) -> dict[str, Any]:
        return options


@lru_cache(maxsize=256)
def _warn(place: str, why: str) -> None:
    log.warning("%s: the store does not copy ranges, so every byte is read and sent: %s", place, why)


def warn_once(path: str, error: Exception) -> None:
    """Warns once for each bucket and reason that a store refused to copy."""
    _warn("/".join(path.split("/", 3)[:3]), redact(str(error)))


def replaced(path: str) -> BadFile:
    """Returns the error for a file that was replaced while it was read."""
    return BadFile(f"file {path}: it was replaced while it was read; list the directory again")


def _still_there(path: str, key: str) -> StorageError:
    return StorageError(f"cannot remove {path}: files are still there after their removal, one is {key}")


def side_files_and_data(many: Sequence[_T], key: Callable[[_T], str]) -> tuple[list[_T], list[_T]]:
    """Separates side files such as ``_metadata_acid``, recognised by their names, from data files."""
    is_side = [is_skipped(key(item).rpartition("/")[2]) for item in many]
    return (
        [item for item, side in zip(many, is_side, strict=True) if side],
        [item for item, side in zip(many, is_side, strict=True) if not side],
    )


@contextlib.contextmanager
def errors(verb: str, path: str) -> Iterator[None]:
    """Turns any error of a client into ``StorageError``: not all clients raise an ``OSError``."""
    try:
        yield
    except CompactorError:
        raise
    except Exception as error:
        kind = AccessDenied if _is_denial(error) else StorageError
        raise kind(f"cannot {verb} {path}: {str(error) or type(error).__name__}") from error


def _is_denial(error: Exception) -> bool:
    """Returns true if the store knows the user but denies the request.

    Wrong keys or a wrong clock cause a 403, too.
    """
    response = getattr(error.__cause__, "response", None)  # of botocore
    code = (
        response.get("Error", {}).get("Code") if isinstance(response, Mapping) else getattr(error, "error_code", None)
    )
    return code in _DENIED or (type(error) is OSError and str(error).startswith("Forbidden: "))  # the latter of gcsfs
