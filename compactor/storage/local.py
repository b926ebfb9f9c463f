"""Tables on a local or mounted file system."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from types import MappingProxyType

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import METADATA_FILE, is_skipped
from compactor.acid.tree import Anchor, Tree
from compactor.errors import BadFile, NotSupported, StorageError
from compactor.storage import exclusive_rename, file_identity, local_tree
from compactor.storage.build_listing import data_format
from compactor.storage.capabilities import LOCAL, Capabilities
from compactor.storage.consistent_listing import ListedButAbsent, consistent_listing
from compactor.storage.deferred_uploads import Deferring
from compactor.storage.local_permissions import LocalPermissions
from compactor.storage.options import StoreOptions

_SYNCS = 16  #: under way at once: a file system writes waiting syncs together


class LocalStorage:
    """The back end for ``file:`` locations and plain paths."""

    options = StoreOptions()

    def capabilities(self, path: str) -> Capabilities:
        return LOCAL

    def resolve(self, location: str) -> str:
        # Hive stores paths unescaped: `%2F` and `#` in them are characters of a partition's directory name.
        scheme, colon, rest = location.partition(":")
        if not colon or "/" in scheme:
            return location.rstrip("/")
        if scheme != "file":
            raise NotSupported(
                f"location {location!r}: storage {scheme!r} is not supported by this release; supported are local and "
                "mounted file systems (file:/… or a path), hdfs, s3, s3a, abfs, abfss and gs"
            )
        if rest.startswith("//"):
            host, _, path = rest[2:].partition("/")
            if host not in ("", "localhost"):
                raise NotSupported(f"location {location!r}: a file on host {host!r} cannot be reached from here")
            rest = f"/{path}"
        return rest.rstrip("/")

    def listing(self, path: str) -> Listing:
        with _errors("list", path):
            return consistent_listing(path, lambda: self._listed(path))

    def _listed(self, path: str) -> Listing:
        files: list[FileStatus] = []
        directories: list[str] = []
        for entry in _entries(path):
            if is_skipped(entry.name):
                continue
            if entry.is_dir():
                directories.append(entry.name)
                _walk(path, entry.name, files)
            else:
                files.append(_status(entry, entry.name))
        files.sort(key=_path)
        directories.sort()
        formats = {
            file.path.partition("/")[0]: data_format(f"{path}/{file.path}", self.read(f"{path}/{file.path}"))
            for file in files
            if file.path.endswith(METADATA_FILE) and file.path.partition("/")[2] == METADATA_FILE
        }
        return Listing(files=tuple(files), directories=tuple(directories), data_formats=MappingProxyType(formats))

    def tree(self, path: str) -> Tree:
        _entries(path)
        with _errors("list", path):
            return consistent_listing(path, lambda: local_tree.tree(path))

    def anchor(self, path: str) -> Anchor | None:
        with _errors("look at", path):
            try:
                return local_tree.anchor(path)
            except FileNotFoundError:
                return None

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(entry.name for entry in _scan(path)))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def local_path(self, path: str) -> str | None:
        return path

    def owner(self, path: str) -> str | None:
        with _errors("look up the owner of", path):
            user = os.stat(path).st_uid
        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:
            return None

    def deferring(self, path: str) -> Deferring | None:
        return None

    def length(self, path: str) -> int:
        with _errors("measure", path):
            return os.stat(path).st_size

    def read(self, path: str) -> bytes:
        with _errors("read", path), open(path, "rb") as file:
            return file.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _errors("read", path), open(path, "rb") as file:
            return os.pread(file.fileno(), length, offset)

    def upload(self, local: str, path: str) -> None:
        with _errors("write", path):
            with open(local, "rb") as source, open(path, "xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
            _sync(os.path.dirname(path))

    def write(self, path: str, content: bytes) -> None:
        with _errors("write", path), open(path, "xb") as file:
            file.write(content)

    def make_directories(self, path: str, *, like: str) -> None:
        missing: list[str] = []
        current = path
        while not os.path.isdir(current):
            missing.append(current)
            current = os.path.dirname(current)
        if not missing:
            return
        with _errors("create", path):
            permissions = LocalPermissions.of(like)
            for directory in reversed(missing):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory)
                permissions.apply_to(directory)

    def adopt(self, path: str, *, like: str) -> None:
        with _errors("change the owner of", path):
            permissions = LocalPermissions.of(like)
            permissions.apply_to(path)
            for root, directories, files in os.walk(path):
                for name in (*directories, *files):
                    permissions.apply_to(f"{root}/{name}")

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        return _all_synced({path: _to_sync(path) for path in paths})

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        return _all_synced({path: [os.path.dirname(path)] for path in paths})

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        with _errors("rename to", target):
            try:
                exclusive_rename.rename(source, target)
            except FileExistsError:
                raise StorageError(f"{target}: is there already; {source} is not moved over or into it") from None
            if durable:
                _sync(os.path.dirname(target))

    def remove(self, path: str, *, durable: bool = True) -> None:
        with _errors("remove", path):
            try:
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
            except FileNotFoundError:
                if os.path.lexists(path):  # another process removes the same tree: an entry vanished meanwhile
                    shutil.rmtree(path, ignore_errors=True)
            except OSError as error:
                if error.errno != errno.EROFS or os.path.lexists(path):
                    raise
                return  # mounted read-only: the system reports that even for a path that does not exist
            if durable:
                with contextlib.suppress(FileNotFoundError):  # the parent is gone too
                    _sync(os.path.dirname(path))

    def identity(self, path: str) -> str | None:
        with _errors("look at", path):
            try:
                return file_identity.identity(path)
            except FileNotFoundError:
                return None

    def may_write(self, path: str) -> bool | None:
        return os.access(path, os.W_OK | os.X_OK)

    def free_bytes(self, path: str) -> int | None:
        with _errors("measure", path):
            return shutil.disk_usage(path).free


@contextlib.contextmanager
def _errors(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {verb} {path}: {error.strerror or error}") from error


_path = attrgetter("path")


def _entries(path: str) -> list[os.DirEntry[str]]:
    """Returns the entries of the directory of a table or partition, which must exist."""
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        raise BadFile(
            f"directory {path}: the metastore names it and it is not there; restore it, or drop the partition"
        ) from None
    except OSError as error:
        raise _unlisted(path, error) from error


def _scan(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:  # vanished while we listed
        return []
    except OSError as error:
        raise _unlisted(path, error) from error


def _unlisted(path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot list {path}: {error.strerror or error}")


def _walk(root: str, relative: str, files: list[FileStatus]) -> None:
    """Adds every file below ``relative`` to ``files``."""
    try:
        with os.scandir(f"{root}/{relative}") as found:
            entries = list(found)
    except FileNotFoundError:
        raise ListedButAbsent(f"{root}/{relative}") from None
    except OSError as error:
        raise _unlisted(f"{root}/{relative}", error) from error
    for entry in entries:
        path = f"{relative}/{entry.name}"
        if entry.is_dir():
            if not is_skipped(entry.name):
                _walk(root, path, files)
        else:
            files.append(_status(entry, path))


def _status(entry: os.DirEntry[str], path: str) -> FileStatus:
    try:
        return FileStatus(path=path, length=entry.stat().st_size)
    except FileNotFoundError:
        raise ListedButAbsent(entry.path) from None
    except OSError as error:
        raise StorageError(f"cannot measure {entry.path}: {error.strerror or error}") from error


def _sync(path: str) -> None:
    fd = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _to_sync(path: str) -> list[str]:
    """Returns the files and directories at and below ``path``, and the directory that holds its name."""
    below = [place for root, _, files in os.walk(path) for place in (*(f"{root}/{name}" for name in files), root)]
    return [*(below or [path]), os.path.dirname(path)]


def _all_synced(of_each: Mapping[str, Sequence[str]]) -> dict[str, StorageError]:
    """Syncs files and directories, given by the path they belong to. Returns the paths that failed, with their errors."""
    places = list(dict.fromkeys(place for found in of_each.values() for place in found))
    shares = [places[start::_SYNCS] for start in range(min(_SYNCS, len(places)))]
    with ThreadPoolExecutor(max(1, len(shares)), thread_name_prefix="sync") as pool:
        errors = {place: error for found in pool.map(_synced, shares) for place, error in found.items()}
    causes = {path: next(filter(None, map(errors.get, found)), None) for path, found in of_each.items()}
    return {path: cause for path, cause in causes.items() if cause is not None}


def _synced(paths: Iterable[str]) -> dict[str, StorageError]:
    """Syncs paths one after the other and returns those that failed, with their errors."""
    failed: dict[str, StorageError] = {}
    for path in paths:
        try:
            _sync(path)
        except OSError as error:
            failed[path] = StorageError(f"cannot sync {path}: {error.strerror or error}")
    return failed
