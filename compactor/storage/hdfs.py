"""Tables in HDFS through WebHDFS or HttpFS, without a JVM in any Compactor process.

fsspec's client provides the session (Kerberos, tokens, proxies of data nodes). This module sends the requests, because
answers must be checked: after a RENAME that failed, HDFS may answer 200 with ``false``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from compactor.acid.listing import Listing
from compactor.acid.names import is_skipped
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import BadFile, StorageError, UnsafeDirectory
from compactor.storage.build_listing import ListedButAbsent, ListingLimits, build_listing_from, consistent_listing
from compactor.storage.capabilities import HDFS, HTTPFS, Capabilities, Deferring, TakenRange, TakingOver
from compactor.storage.hdfs_client import HdfsClient, RemoteError, hdfs_errors, split_location
from compactor.storage.protocol import NO_FILES, StoredFile
from compactor.storage.store_options import StoreOptions

log = logging.getLogger(__name__)
_NEVER_ENTERED = ".snapshot"  #: where a snapshottable directory shows its past


class HdfsStorage:
    """The back end for ``hdfs://`` locations. Paths keep their scheme and authority."""

    def __init__(self, options: StoreOptions | None = None, limits: ListingLimits | None = None) -> None:
        self.options = options or StoreOptions()
        self.limits = limits or ListingLimits()
        self._local = threading.local()

    def capabilities(self, path: str) -> Capabilities:
        return HTTPFS if self.options.of_place("hdfs", split_location(path)[0]).get("httpfs") else HDFS

    def resolve(self, location: str, within: str | None = None) -> str:
        scheme, _, rest = location.partition(":")
        if not rest.startswith("//"):
            rest = f"//{rest}"
        return f"{scheme}:{rest.rstrip('/')}"

    def listing(self, path: str) -> Listing:
        return consistent_listing(path, lambda: self._list_location(path))

    def _list_location(self, path: str) -> Listing:
        files: list[tuple[str, int]] = []
        directories: list[str] = []
        with hdfs_errors("list", path):
            for status in self._top(path):
                name = str(status["pathSuffix"])
                if is_skipped(name):
                    if status["type"] == "DIRECTORY":
                        directories.append(name)
                    else:
                        files.append((name, 0))
                elif status["type"] == "DIRECTORY":
                    directories.append(name)
                    for file in self._walk(path, name, 1):
                        files.append(file)
                        self.limits.check_entries(path, len(files))
                else:
                    files.append((name, _length(f"{path}/{name}", status)))
        return build_listing_from(path, files, directories, self.read, self.limits)

    def tree(self, path: str) -> Tree:
        return consistent_listing(path, lambda: self._list_tree(path))

    def _list_tree(self, path: str) -> Tree:
        with hdfs_errors("list", path):
            before, top = self.anchor(path), self._top(path)
            if before is None:
                raise ListedButAbsent(path)
            tree = build_tree(before, lambda at: self._below(f"{path}/{at}") if at else top)
            if self.anchor(path) != before:
                raise ListedButAbsent(path)
            return tree

    def anchor(self, path: str) -> Anchor | None:
        with hdfs_errors("look at", path):
            status = self._status(path)
        if status is None or status["type"] != "DIRECTORY":
            return None
        number = status.get("fileId")  # an older HttpFS has none
        return Anchor(volume=f"hdfs://{split_location(path)[0]}", identity=str(number) if number else None)

    def _top(self, path: str) -> list[Mapping[str, Any]]:
        try:
            return self._list(path)
        except RemoteError as error:
            if error.kind == "FileNotFoundException":
                raise BadFile(
                    f"directory {path}: the metastore names it and it does not exist; restore it, or drop the partition"
                ) from error
            raise

    def _below(self, path: str) -> list[Mapping[str, Any]]:
        try:
            return self._list(path)
        except RemoteError as error:
            if error.kind == "FileNotFoundException":
                raise ListedButAbsent(path) from None
            raise

    def _walk(self, root: str, relative: str, depth: int) -> Iterator[tuple[str, int]]:
        self.limits.check_depth(f"{root}/{relative}", depth)
        for status in self._below(f"{root}/{relative}"):
            path = f"{relative}/{status['pathSuffix']}"
            if status["type"] != "DIRECTORY":
                yield path, _length(f"{root}/{path}", status)
            elif not is_skipped(str(status["pathSuffix"])):
                yield from self._walk(root, path, depth + 1)

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        with hdfs_errors("list", path):
            names = (str(status["pathSuffix"]) for status in self._list_if_there(path))
            return tuple(sorted(name for name in names if name.startswith(prefix)))

    def exists(self, path: str) -> bool:
        with hdfs_errors("look at", path):
            return self._status(path) is not None

    def local_path(self, path: str) -> str | None:
        return None

    def descriptor(self, path: str) -> int | None:
        return None

    def owner(self, path: str) -> str | None:
        with hdfs_errors("look up the owner of", path):
            return str(self._json("GETFILESTATUS", path)["FileStatus"]["owner"]) or None

    def deferring(self, path: str) -> Deferring | None:
        return None

    def taking_over(self, path: str) -> TakingOver | None:
        """Returns None: HDFS does not copy ranges, and CONCAT takes the blocks away from its sources."""
        return None

    def status(self, path: str) -> StoredFile:
        return StoredFile(length=self.length(path))

    def length(self, path: str) -> int:
        with hdfs_errors("measure", path):
            return int(self._json("GETFILESTATUS", path)["FileStatus"]["length"])

    def version(self, path: str) -> str | None:
        with hdfs_errors("look at", path):
            status = self._status(path)
            return None if status is None else f"{status.get('fileId', '')}:{status['modificationTime']}"

    def read(self, path: str) -> bytes:
        with hdfs_errors("read", path):
            return bytes(self._ask("OPEN", "GET", path).content)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with hdfs_errors("read", path):
            try:
                return bytes(self._ask("OPEN", "GET", path, offset=offset, length=length).content)
            except RemoteError as error:
                if error.kind == "EOFException" or "out of the range" in str(error):
                    return b""
                raise

    def write(self, path: str, content: bytes) -> None:
        self._create(path, content, len(content))

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        assert not ranges  # see taking_over
        with open(local, "rb") as file:
            self._create(path, file, os.fstat(file.fileno()).st_size)

    def _create(self, path: str, content: bytes | IO[bytes], length: int) -> None:
        """Writes a file in one stream and checks its length.

        If the stream breaks, HDFS closes a truncated file. That file is removed if possible, and its length shows that it
        is not whole.
        """
        with hdfs_errors("write", path):
            # CREATE alone refuses a file that exists; SYNC_BLOCK makes closed blocks durable (HttpFS has no flags)
            created = self._ask(
                "CREATE", "PUT", path, redirect=False, overwrite="false", createflag="CREATE,SYNC_BLOCK"
            )
            try:
                client = self._client(split_location(path)[0])
                target = client.proxied(created.headers.get("Location", created.url))
                client.send("PUT", target, data=content, headers={"Content-Type": "application/octet-stream"})
                written_length = int(self._json("GETFILESTATUS", path)["FileStatus"]["length"])
                if written_length != length:
                    raise RemoteError("Length", f"{written_length} bytes arrived of {length}")
            except BaseException as error:  # also when the process is asked to end
                if not (isinstance(error, RemoteError) and error.kind == "FileAlreadyExistsException"):
                    with contextlib.suppress(RemoteError):
                        self._ask("DELETE", "DELETE", path)
                raise

    def make_directories(self, path: str, *, like: str) -> None:
        with hdfs_errors("create", path):
            missing: list[str] = []
            current = path
            while current != like and self._status(current) is None:
                missing.append(current)
                current = current.rpartition("/")[0]
            permissions = _Permissions.read_from(self, like)
            for directory in reversed(missing):
                self._must("MKDIRS", "PUT", directory)
                permissions.apply_to(directory, self._json("GETFILESTATUS", directory)["FileStatus"])

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        with hdfs_errors("create", path):
            if self._status(path) is not None:  # MKDIRS would succeed
                raise StorageError(f"{path}: is there already; the directory of a compaction is made by it alone")
            for name in ("", *(f"/{name}" for name in inside)):
                self._must("MKDIRS", "PUT", f"{path}{name}", permission="700")

    def make_inside(self, path: str) -> None:
        self.make_private(path)

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        with hdfs_errors("create", path):
            for folder in dict.fromkeys(name.rpartition("/")[0] for name in files):
                if folder and self._status(f"{path}/{folder}") is None:
                    self._must("MKDIRS", "PUT", f"{path}/{folder}", permission="700")
        for name, source in files.items():
            if isinstance(source, bytes):
                self.write(f"{path}/{name}", source)
            else:
                self.rename(source, f"{path}/{name}")
        lengths: dict[str, int] = {}
        with hdfs_errors("change the owner of", path):
            permissions = _Permissions.read_from(self, like)
            permissions.apply_to(path, self._json("GETFILESTATUS", path)["FileStatus"])
            for child, status in self._tree(path):
                permissions.apply_to(child, status)
                if status["type"] != "DIRECTORY":
                    lengths[child.removeprefix(f"{path}/")] = int(status["length"])
        return lengths

    def _tree(self, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for status in self._list_if_there(path):
            child = f"{path}/{status['pathSuffix']}"
            yield child, status
            if status["type"] == "DIRECTORY":
                yield from self._tree(child)

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Does nothing: blocks are synced as they are closed, and the NameNode's journal before it answers."""
        return {}

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Does nothing: the NameNode's journal is synced before it answers."""
        return {}

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        with hdfs_errors("rename to", target):
            if self._status(target) is not None:  # HttpFS has no renameoptions, and would move the source into it
                raise StorageError(f"{target}: is there already; {source} is not moved over or into it")
            destination = split_location(target)[1]
            try:
                answer = self._ask("RENAME", "PUT", source, destination=destination, renameoptions="NONE")
            except RemoteError as error:
                if error.kind == "FileAlreadyExistsException":
                    raise StorageError(f"{target}: is there already; {source} is not moved over or into it") from error
                raise
            if answer.content.strip() and answer.json().get("boolean") is False:
                raise StorageError(f"cannot rename to {target}: HDFS refused to move {source} and does not say why")

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        for old, new in names.items():
            self.rename(f"{path}/{old}", f"{path}/{new}")
            yield old

    def remove(self, path: str, *, durable: bool = True) -> None:
        with hdfs_errors("remove", path):
            self._json("DELETE", path, method="DELETE", recursive="true")  # answers false if it did not exist
            if self._status(path) is not None:
                raise StorageError(f"cannot remove {path}: it is still there after its removal")

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for path in paths:
            try:
                self.remove(path)
            except StorageError as error:
                failed[path] = error
        return failed

    def identity(self, path: str) -> str | None:
        with hdfs_errors("look at", path):
            status = self._status(path)
            return None if status is None or not status.get("fileId") else str(status["fileId"])

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        above = {f"{path}/{name}".rpartition("/")[0] for name in names}
        if len(above) >= len(names):
            return {name: self.identity(f"{path}/{name}") for name in names}
        with hdfs_errors("look at", path):
            ids = {
                f"{place}/{status['pathSuffix']}": str(status["fileId"])
                for place in above
                for status in self._list_if_there(place)
                if status.get("fileId")
            }
        return {name: ids.get(f"{path}/{name}") for name in names}

    def may_write(self, path: str) -> bool | None:
        try:
            self._ask("CHECKACCESS", "GET", path, fsaction="-wx")
        except RemoteError as error:
            return False if error.kind == "AccessControlException" else None
        return True

    def free_bytes(self, path: str) -> int | None:
        try:
            return int(self._json("GETSTATUS", path)["FsStatus"]["remaining"])
        except (RemoteError, KeyError):  # before Hadoop 3.4
            return None

    def _status(self, path: str) -> Mapping[str, Any] | None:
        try:
            status: Mapping[str, Any] = self._json("GETFILESTATUS", path)["FileStatus"]
        except RemoteError as error:
            if error.kind == "FileNotFoundException":
                return None
            raise
        return status

    def _list_if_there(self, path: str) -> list[Mapping[str, Any]]:
        try:
            return self._list(path)
        except RemoteError as error:
            if error.kind == "FileNotFoundException":  # vanished while we listed
                return []
            raise

    def _list(self, path: str) -> list[Mapping[str, Any]]:
        """Lists the entries of a directory."""
        statuses: list[Mapping[str, Any]] = list(self._json("LISTSTATUS", path)["FileStatuses"]["FileStatus"])
        if len(statuses) == 1 and not statuses[0]["pathSuffix"]:
            raise StorageError(f"cannot list {path}: expected a directory, found a file")
        return statuses

    def _must(self, op: str, method: str, path: str, **parameters: Any) -> None:
        if self._json(op, path, method=method, **parameters).get("boolean") is False:
            raise RemoteError(op, f"{op} was refused without a reason")

    def _json(self, op: str, path: str, method: str = "GET", **parameters: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(op, method, path, **parameters).json()
        return answer

    def _ask(self, op: str, method: str, path: str, *, redirect: bool = True, **parameters: Any) -> Any:
        authority, inside = split_location(path)
        return self._client(authority).ask(op, method, inside, redirect=redirect, **parameters)

    def _client(self, authority: str) -> HdfsClient:
        """Returns the client of this process and thread for one cluster."""
        clients: dict[tuple[int, str], HdfsClient] = self._local.__dict__.setdefault("clients", {})
        key = (os.getpid(), authority)
        if key not in clients:
            clients[key] = HdfsClient(authority, self.options.admitted("hdfs", authority))
        return clients[key]


def _length(path: str, status: Mapping[str, Any]) -> int:
    """Returns the length of a listed file.

    Raises:
        UnsafeDirectory: it is a link (some clusters have links switched on).
    """
    if status["type"] != "FILE":
        raise UnsafeDirectory(
            f"{path}: is a {str(status['type']).lower()}; only files and directories are read below a location, and nothing "
            "is done next to anything else; find out who put it there and remove it"
        )
    return int(status["length"])


def build_tree(anchor: Anchor, entries: Callable[[str], Iterable[Mapping[str, Any]]]) -> Tree:
    """Returns everything below the directory ``anchor``. ``entries`` lists one directory, relative to it."""
    directories: list[str] = []
    links: list[str] = []
    files: Counter[str] = Counter()
    waiting = [""]
    while waiting:
        at = waiting.pop()
        for status in entries(at):
            name = str(status["pathSuffix"])
            relative = f"{at}/{name}" if at else name
            if status["type"] == "SYMLINK":
                links.append(relative)
            elif status["type"] != "DIRECTORY":
                files[at] += not is_skipped(name)
            elif name != _NEVER_ENTERED:
                directories.append(relative)
                waiting.append(relative)
    return Tree(anchor=anchor, directories=tuple(sorted(directories)), files=dict(+files), links=tuple(sorted(links)))


class _Permissions:
    """Owner, group, mode and ACL of a directory, which can be applied to others."""

    def __init__(self, storage: HdfsStorage, path: str, status: Mapping[str, Any], entries: list[str]) -> None:
        self._storage, self._path, self._status, self._entries = storage, path, status, entries

    @classmethod
    def read_from(cls, storage: HdfsStorage, path: str) -> _Permissions:
        status = storage._json("GETFILESTATUS", path)["FileStatus"]
        entries: list[str] = []
        if status.get("aclBit"):
            entries = list(storage._json("GETACLSTATUS", path)["AclStatus"]["entries"])
        return cls(storage, path, status, entries)

    def apply_to(self, path: str, status: Mapping[str, Any]) -> None:
        is_directory = status["type"] == "DIRECTORY"
        self._own(path, status)
        mode = int(str(self._status["permission"]), 8)
        mode = mode if is_directory else mode & 0o666
        if self._entries:
            entries = self._entries if is_directory else [e for e in self._entries if not e.startswith("default:")]
            self._storage._ask("SETACL", "PUT", path, aclspec=",".join([*_base_entries(mode), *entries]))
        if int(str(status["permission"]), 8) != mode or self._entries:
            self._storage._ask("SETPERMISSION", "PUT", path, permission=f"{mode:o}")

    def _own(self, path: str, status: Mapping[str, Any]) -> None:
        for key in ("group", "owner"):
            if status[key] == self._status[key]:
                continue
            try:
                arguments: dict[str, Any] = {key: self._status[key]}
                self._storage._ask("SETOWNER", "PUT", path, **arguments)
            except RemoteError as error:
                if error.kind not in ("AccessControlException", "SecurityException"):
                    raise
                log.warning("%s: the %s of %s cannot be given to it by this user", path, key, self._path)


def _base_entries(mode: int) -> list[str]:
    """Returns the entries for user and others, which every ACL needs.

    The named entries include the group's.
    """
    return [f"user::{_letters(mode >> 6)}", f"other::{_letters(mode)}"]


def _letters(bits: int) -> str:
    return "".join(letter if bits & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
