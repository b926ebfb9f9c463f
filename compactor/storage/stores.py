"""All stores behind one interface: the scheme of a path decides which of them serves it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from compactor.base.errors import StorageError
from compactor.storage.protocol import NO_FILES
from compactor.storage.store_options import SCHEMES, StoreOptions

if TYPE_CHECKING:
    from compactor.acid.listing import Listing
    from compactor.acid.tree import Anchor, Tree
    from compactor.storage.build_listing import ListingLimits
    from compactor.storage.capabilities import Capabilities, Deferring, TakenRange, TakingOver
    from compactor.storage.protocol import Storage, StoredFile

_LOCAL = "local"


class Stores:
    """All stores of a metastore's tables. A store is imported and opened when it is first used."""

    def __init__(self, options: StoreOptions | None = None, limits: ListingLimits | None = None) -> None:
        self._options = options or StoreOptions()
        self._limits = limits
        self._opened: dict[str, Storage] = {}

    @property
    def options(self) -> StoreOptions:
        return self._options

    def acting_for(self, user: str) -> Stores:
        """Returns the stores for an application of ``user``: it acts for the user in HDFS if ``doas`` is set."""
        options = self._options.acting_for(user)
        return self if options == self._options else Stores(options, self._limits)

    def store_of(self, path: str) -> Storage:
        """Returns the store of ``path``, which may be a location."""
        scheme, colon, _ = path.partition(":")
        kind = SCHEMES[scheme] if colon and "/" not in scheme and scheme in SCHEMES else _LOCAL
        store = self._opened.get(kind)
        # Of several threads one opens the store, so that they share its connections.
        return store if store is not None else self._opened.setdefault(kind, self._open(kind))

    def _open(self, kind: str) -> Storage:
        if kind == "hdfs":
            from compactor.storage.hdfs import HdfsStorage

            return HdfsStorage(self._options, self._limits)
        if kind == "s3":
            from compactor.storage.s3 import S3Storage

            return S3Storage(self._options, self._limits)
        if kind == "abfs":
            from compactor.storage.abfs import AbfsStorage

            return AbfsStorage(self._options, self._limits)
        if kind == "gs":
            from compactor.storage.gcs import GcsStorage

            return GcsStorage(self._options, self._limits)
        from compactor.storage.local import LocalStorage

        return LocalStorage(self._limits)

    def capabilities(self, path: str) -> Capabilities:
        return self.store_of(path).capabilities(path)

    def resolve(self, location: str, within: str | None = None) -> str:
        return self.store_of(location).resolve(location, within)

    def listing(self, path: str) -> Listing:
        return self.store_of(path).listing(path)

    def tree(self, path: str) -> Tree:
        return self.store_of(path).tree(path)

    def anchor(self, path: str) -> Anchor | None:
        return self.store_of(path).anchor(path)

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        return self.store_of(path).children(path, prefix)

    def exists(self, path: str) -> bool:
        return self.store_of(path).exists(path)

    def local_path(self, path: str) -> str | None:
        return self.store_of(path).local_path(path)

    def descriptor(self, path: str) -> int | None:
        return self.store_of(path).descriptor(path)

    def owner(self, path: str) -> str | None:
        return self.store_of(path).owner(path)

    def deferring(self, path: str) -> Deferring | None:
        return self.store_of(path).deferring(path)

    def taking_over(self, path: str) -> TakingOver | None:
        return self.store_of(path).taking_over(path) if self._options.takes_over else None

    def status(self, path: str) -> StoredFile:
        return self.store_of(path).status(path)

    def length(self, path: str) -> int:
        return self.store_of(path).length(path)

    def read(self, path: str) -> bytes:
        return self.store_of(path).read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.store_of(path).read_range(path, offset, length)

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        self.store_of(path).upload(local, path, ranges)

    def write(self, path: str, content: bytes) -> None:
        self.store_of(path).write(path, content)

    def make_directories(self, path: str, *, like: str) -> None:
        self.store_of(path).make_directories(path, like=like)

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        self.store_of(path).make_private(path, inside)

    def make_inside(self, path: str) -> None:
        self.store_of(path).make_inside(path)

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        return self.store_of(path).adopt(path, files, like=like)

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for store, of_store in self._group_by_store(paths):
            failed |= store.sync(of_store)
        return failed

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for store, of_store in self._group_by_store(paths):
            failed |= store.sync_names(of_store)
        return failed

    def _group_by_store(self, paths: Collection[str]) -> list[tuple[Storage, list[str]]]:
        stores = {id(store): store for store in map(self.store_of, paths)}
        return [(store, [path for path in paths if self.store_of(path) is store]) for store in stores.values()]

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        store = self.store_of(source)
        if store is not self.store_of(target):
            raise StorageError(f"cannot rename {source} to {target}: they are in different stores")
        store.rename(source, target, durable=durable)

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        return self.store_of(path).rename_each(path, names)

    def remove(self, path: str, *, durable: bool = True) -> None:
        self.store_of(path).remove(path, durable=durable)

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        failed: dict[str, StorageError] = {}
        for store, of_store in self._group_by_store(paths):
            failed |= store.remove_all(of_store, durable=durable)
        return failed

    def version(self, path: str) -> str | None:
        return self.store_of(path).version(path)

    def identity(self, path: str) -> str | None:
        return self.store_of(path).identity(path)

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        return self.store_of(path).identities(path, names)

    def may_write(self, path: str) -> bool | None:
        return self.store_of(path).may_write(path)

    def free_bytes(self, path: str) -> int | None:
        return self.store_of(path).free_bytes(path)


@lru_cache(maxsize=8)
def open_stores(options: StoreOptions) -> Storage:
    """Returns the stores of this process. An executor opens them once for all units with the same options."""
    return Stores(options)
