"""Tables on a local or mounted file system."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import groupby

from compactor.acid.listing import Listing
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import AccessDenied, FileGone, NotSupported, StorageError, UnsafeDirectory
from compactor.storage import exclusive_rename, file_identity, local_listing, local_tree
from compactor.storage.build_listing import ListingLimits, consistent_listing
from compactor.storage.capabilities import LOCAL, Capabilities, Deferring, TakenRange, TakingOver
from compactor.storage.local_permissions import LocalPermissions, must_be_private
from compactor.storage.no_links import (
    LISTED,
    NEW,
    NOT_TOUCHED,
    below,
    directory,
    has_no_links,
    open_path,
    parent,
    reading,
    regular,
)
from compactor.storage.protocol import NO_FILES, StoredFile
from compactor.storage.store_options import StoreOptions

SHARED_BYTES = 1 << 20  #: a smaller range is not worth a call and up to a block of padding
_SYNCS = 16  #: under way at once: a file system writes waiting syncs together


class LocalStorage:
    """The back end for ``file:`` locations and plain paths.

    ``resolve`` follows the links on the way to a location. Every other method raises ``UnsafeDirectory`` when it meets a
    link (PROTOCOL 11.13).
    """

    options = StoreOptions()
    limits = ListingLimits()

    def __init__(self, limits: ListingLimits | None = None) -> None:
        self.limits = limits or self.limits

    def capabilities(self, path: str) -> Capabilities:
        return LOCAL

    def resolve(self, location: str, within: str | None = None) -> str:
        path = _path_of(location)
        if within is not None:
            table = _path_of(within)
            real = _real(table)
            for start in (table, real):
                names = path[len(start) + 1 :].split("/")
                if path.startswith(f"{start}/") and ".." not in names:
                    return "/".join([real, *(name for name in names if name not in ("", "."))])
        return _real(path)

    def listing(self, path: str) -> Listing:
        with _errors("list", path):
            return consistent_listing(path, lambda: local_listing.list_once(path, self.limits))

    def tree(self, path: str) -> Tree:
        with _errors("list", path):
            if self.anchor(path) is None:
                raise local_listing.missing(path)
            return consistent_listing(path, lambda: local_tree.tree(path, self.limits))

    def anchor(self, path: str) -> Anchor | None:
        with _errors("look at", path):
            try:
                return local_tree.anchor(path)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        with _errors("list", path):
            try:
                with directory(path) as descriptor:
                    return local_listing.children(descriptor, path, self.limits, prefix)
            except FileNotFoundError:
                return ()

    def exists(self, path: str) -> bool:
        with _errors("look at", path):
            try:
                _status(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def local_path(self, path: str) -> str | None:
        return path

    def descriptor(self, path: str) -> int | None:
        try:
            return regular(path)
        except FileNotFoundError as error:
            raise FileGone(f"file {path}: it is gone; list the directory again") from error
        except OSError as error:
            raise StorageError(f"file {path}: cannot be opened: {error.strerror}") from error

    def owner(self, path: str) -> str | None:
        with _errors("look up the owner of", path):
            user = _status(path).st_uid
        try:
            return pwd.getpwuid(user).pw_name
        except KeyError:
            return None

    def deferring(self, path: str) -> Deferring | None:
        return None

    def taking_over(self, path: str) -> TakingOver | None:
        return TakingOver(smallest=SHARED_BYTES)  # the first range shows whether the file system can do it

    def status(self, path: str) -> StoredFile:
        return StoredFile(length=self.length(path))

    def length(self, path: str) -> int:
        with _errors("measure", path):
            return _status(path).st_size

    def version(self, path: str) -> str | None:
        with _errors("look at", path):
            try:
                status = _status(path)
            except FileNotFoundError:
                return None
            return f"{status.st_ino}:{status.st_ctime_ns}"

    def read(self, path: str) -> bytes:
        with _errors("read", path), reading(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return file.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _errors("read", path), reading(path) as descriptor:
            return os.pread(descriptor, length, offset)

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        assert not ranges  # see taking_over
        with _errors("write", path):
            with open(local, "rb") as source, open(open_path(path, NEW, 0o666), "wb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
            _sync(os.path.dirname(path))

    def write(self, path: str, content: bytes) -> None:
        with _errors("write", path), open(open_path(path, NEW, 0o666), "wb") as file:
            file.write(content)

    def make_directories(self, path: str, *, like: str) -> None:
        with _errors("create", path):
            missing: list[str] = []
            current = path
            while not self.exists(current):
                missing.append(current)
                current = os.path.dirname(current)
            if not missing:
                return
            permissions = LocalPermissions.read_from(like)
            for place in reversed(missing):
                with (
                    contextlib.suppress(FileExistsError),
                    parent(place) as (above, name),
                    _make_directory(above, name, place) as created,
                ):
                    permissions.apply_to(created, place)

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        with _errors("create", path), parent(path) as (above, name), _make_directory(above, name, path) as created:
            for subdirectory in inside:
                os.mkdir(subdirectory, 0o700, dir_fd=created)

    def make_inside(self, path: str) -> None:
        with _errors("create", path), parent(path) as (above, name):
            must_be_private(above, os.path.dirname(path))
            os.mkdir(name, 0o700, dir_fd=above)  # nobody else can enter, so nobody can replace it

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        with _errors("change the owner of", path), parent(path) as (above, name):
            must_be_private(above, os.path.dirname(path))
            permissions = LocalPermissions.read_from(like)
            descriptor = below(above, name, LISTED)
            try:
                _add_files(descriptor, path, files)
                return permissions.apply_below(descriptor, path)
            finally:
                os.close(descriptor)

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        places: dict[str, Sequence[str]] = {}
        failed: dict[str, StorageError] = {}
        for path in paths:
            try:
                with _errors("sync", path):
                    places[path] = _list_to_sync(path, self.limits)
            except StorageError as error:
                failed[path] = error
        return failed | _sync_all(places)

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        return _sync_all({path: [os.path.dirname(path)] for path in paths})

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        with (
            _errors("rename to", target),
            parent(source) as (source_directory, old),
            parent(target, synced=durable) as (target_directory, new),
        ):
            _rename(old, source_directory, new, target_directory, target=target)
            if durable:
                os.fsync(target_directory)

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        with parent(f"{path}/.") as (here, _):
            for old, new in names.items():
                target = f"{path}/{new}"
                if "/" in old:
                    self.rename(f"{path}/{old}", target, durable=False)
                else:
                    with _errors("rename to", target):
                        _rename(old, here, new, here, target=target)
                yield old

    def remove(self, path: str, *, durable: bool = True) -> None:
        with _errors("remove", path):
            try:
                with parent(path, synced=durable) as (above, name):
                    local_listing.remove(above, name, path, self.limits)
                    if durable:
                        os.fsync(above)
            except FileNotFoundError:
                return  # the directory that held it is gone too

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for above, of_directory in groupby(paths, os.path.dirname):
            inside = list(of_directory)
            try:
                with _errors("remove from", above):
                    failed |= self._remove_in(above, inside)
            except StorageError as error:
                failed |= dict.fromkeys(inside, error)
        removed = [path for path in paths if path not in failed] if durable else []
        return failed | dict(self.sync_names(removed))

    def _remove_in(self, above: str, paths: Sequence[str]) -> dict[str, StorageError]:
        failed: dict[str, StorageError] = {}
        try:
            with parent(f"{above}/.") as (here, _):
                for path in paths:
                    try:
                        with _errors("remove", path):
                            local_listing.remove(here, path.rpartition("/")[2], path, self.limits)
                    except StorageError as error:
                        failed[path] = error
        except FileNotFoundError:
            pass  # the directory that held them is gone too
        return failed

    def identity(self, path: str) -> str | None:
        with _errors("look at", path):
            try:
                with parent(path) as (above, name):
                    return _identity_in(above, name)
            except FileNotFoundError:
                return None

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        with _errors("look at", path):
            try:
                with parent(f"{path}/.") as (here, _):
                    return {
                        name: self.identity(f"{path}/{name}") if "/" in name else _identity_in(here, name)
                        for name in names
                    }
            except FileNotFoundError:
                return dict.fromkeys(names)

    def may_write(self, path: str) -> bool | None:
        return os.access(path, os.W_OK | os.X_OK)

    def free_bytes(self, path: str) -> int | None:
        with _errors("measure", path), directory(path) as descriptor:
            status = os.fstatvfs(descriptor)
            return status.f_bavail * status.f_frsize


def _path_of(location: str) -> str:
    """Returns the path of a location as the metastore spells it: ``/x/y`` for ``file:///x/y/``."""
    # Hive stores paths unescaped: `%2F` and `#` in them are characters of a partition's directory name.
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return location.rstrip("/") or "/"
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
    return rest.rstrip("/") or "/"


def _real(path: str) -> str:
    try:
        return path if has_no_links(path) else os.path.realpath(path)
    except ValueError as error:
        raise StorageError(f"location {path}: no file system has such a path ({error}); correct it") from error


def _status(path: str) -> os.stat_result:
    """Returns the status of the entry ``path``; a link is not followed."""
    with parent(path) as (above, name):
        return os.stat(name or ".", dir_fd=above, follow_symlinks=False)


def _rename(old: str, source_directory: int, new: str, target_directory: int, *, target: str) -> None:
    """Renames an entry of an open directory to ``target`` in another; refuses an existing target."""
    try:
        exclusive_rename.rename(old, source_directory, new, target_directory)
    except FileExistsError:
        raise StorageError(f"{target}: is there already; {old} is not moved over or into it") from None


@contextlib.contextmanager
def _make_directory(above: int, name: str, place: str) -> Iterator[int]:
    """Creates a directory in an open one for this user alone, and keeps it open until the block ends."""
    os.mkdir(name, 0o700, dir_fd=above)
    created = below(above, name, LISTED)
    try:
        must_be_private(created, place)
        yield created
    finally:
        os.close(created)


def _add_files(directory: int, place: str, files: Mapping[str, str | bytes]) -> None:
    """Moves or writes ``files`` into the open directory ``place``; see ``Storage.adopt``."""
    for folder, of_folder in groupby(files.items(), lambda file: os.path.dirname(file[0])):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder or ".", 0o700, dir_fd=directory)
        inside = below(directory, folder or ".", LISTED)
        try:
            for relative, source in of_folder:
                name, target = os.path.basename(relative), f"{place}/{relative}"
                if isinstance(source, bytes):
                    with _errors("write", target), open(below(inside, name, NEW, 0o666), "wb") as file:
                        file.write(source)
                else:
                    with _errors("rename to", target), parent(source) as (from_directory, old):
                        _rename(old, from_directory, name, inside, target=target)
        finally:
            os.close(inside)


def _identity_in(directory: int, name: str) -> str | None:
    try:
        return file_identity.identity(name, directory)
    except FileNotFoundError:
        return None


class _errors:  # noqa: N801 - a context that is entered too often for a slower generator
    """Turns errors of the system into ``StorageError``."""

    __slots__ = ("_path", "_verb")

    def __init__(self, verb: str, path: str) -> None:
        self._verb, self._path = verb, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno == errno.ELOOP:
            raise UnsafeDirectory(f"{self._path}: is a link, or became one; {NOT_TOUCHED}") from error
        kind = AccessDenied if isinstance(error, PermissionError) else StorageError
        raise kind(f"cannot {self._verb} {self._path}: {error.strerror or error}") from error


def _sync(path: str) -> None:
    descriptor = open_path(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_to_sync(path: str, limits: ListingLimits) -> list[str]:
    """Lists the files and directories at and below ``path``, and the directory that holds its name.

    Raises:
        UnsafeDirectory: ``path`` is too deep or holds too much, so it is not the staged one.
    """
    places, waiting = [os.path.dirname(path), path], [(path, 0)] if _is_directory(path) else []
    while waiting:
        folder, depth = waiting.pop()
        limits.check_depth(folder, depth)
        try:
            with directory(folder) as descriptor, os.scandir(descriptor) as entries:
                inside = [(f"{folder}/{entry.name}", entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (NotADirectoryError, FileNotFoundError):  # syncing it reports the cause
            continue
        places += [path_inside for path_inside, _ in inside]
        waiting += [(path_inside, depth + 1) for path_inside, is_directory in inside if is_directory]
        limits.check_entries(path, len(places))
    return places


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:  # syncing it reports the cause
        return False


def _sync_all(of_each: Mapping[str, Sequence[str]]) -> dict[str, StorageError]:
    """Syncs the files and directories of each path. Returns the paths that failed, with their errors."""
    places = list(dict.fromkeys(place for own in of_each.values() for place in own))
    shares = [places[start::_SYNCS] for start in range(min(_SYNCS, len(places)))]
    others = _threads().map(_sync_each, shares[1:]) if len(shares) > 1 else iter(())
    errors = {place: error for failed in (*map(_sync_each, shares[:1]), *others) for place, error in failed.items()}
    causes = {path: next(filter(None, map(errors.get, own)), None) for path, own in of_each.items()}
    return {path: cause for path, cause in causes.items() if cause is not None}


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Returns the threads that help the calling one to sync.

    They stay, because starting them is slower than a sync.
    """
    return ThreadPoolExecutor(_SYNCS - 1, thread_name_prefix="sync")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of them


def _sync_each(paths: Iterable[str]) -> dict[str, StorageError]:
    """Syncs paths in turn. Returns the paths that failed, with their errors."""
    failed: dict[str, StorageError] = {}
    for path in paths:
        try:
            with _errors("sync", path):
                _sync(path)
        except StorageError as error:
            failed[path] = error
    return failed
