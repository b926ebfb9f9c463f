"""The operations that Compactor needs from a file system."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from compactor.acid.listing import Listing
    from compactor.acid.tree import Anchor, Tree
    from compactor.base.errors import StorageError
    from compactor.storage.capabilities import Capabilities, Deferring, TakenRange, TakingOver
    from compactor.storage.store_options import StoreOptions


NO_FILES: Mapping[str, str | bytes] = MappingProxyType({})


class Storage(Protocol):
    """A file system. Paths are results of ``resolve``, extended by ``/name``.

    Every method raises ``StorageError``. Only ``resolve`` follows links; all other methods raise ``UnsafeDirectory`` for a
    link in a path (PROTOCOL 11.13).
    """

    @property
    def options(self) -> StoreOptions:
        """The options with which an executor opens the same stores."""

    def capabilities(self, path: str) -> Capabilities:
        """Returns the guarantees of the store of ``path``."""

    def resolve(self, location: str, within: str | None = None) -> str:
        """Returns the path, without links, of a location such as ``file:/x`` or ``hdfs://nn:8020/x``.

        Args:
            within: the location of the table, if ``location`` is that of a partition. Links are followed up to the table,
                but not below it.

        Raises:
            NotSupported: no back end serves that scheme.
        """

    def listing(self, path: str) -> Listing:
        """Lists everything below ``path``. Starts again if an entry vanishes meanwhile.

        Raises:
            StorageError: a listed name does not exist (PROTOCOL 11.10).
            UnsafeDirectory: an entry is neither a regular file nor a directory, or there are too many entries.
            BadFile: ``path`` does not exist. An object store returns an empty listing instead.
        """

    def tree(self, path: str) -> Tree:
        """Returns all directories below ``path``, including those that readers skip.

        Raises as ``listing`` does.
        """

    def anchor(self, path: str) -> Anchor | None:
        """Returns a value that identifies the directory at ``path``.

        Returns None if ``path`` is a file or does not exist.
        """

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        """Returns the sorted names of the entries of ``path``, hidden ones too; nothing if it does not exist.

        Args:
            prefix: the beginning of the names. An object store sends only these, however many others there are.
        """

    def exists(self, path: str) -> bool: ...

    def local_path(self, path: str) -> str | None:
        """Returns the path at which ORC codecs can write in a directory of ``make_private``.

        Returns None if files must be uploaded.

        Files are never read by this path, but by ``descriptor``.
        """

    def descriptor(self, path: str) -> int | None:
        """Returns a descriptor of the regular file at ``path``, which the caller closes.

        Returns None if files must be read by ranges. Raises ``BadFile`` if the file is gone.
        """

    def owner(self, path: str) -> str | None:
        """Returns the user who owns ``path``; None if the store has no owners."""

    def deferring(self, path: str) -> Deferring | None:
        """Returns the store of ``path`` if it completes uploads on request, else None."""

    def taking_over(self, path: str) -> TakingOver | None:
        """Returns the terms on which new files in ``path`` take over ranges of other files there.

        Local files share blocks; other stores copy ranges in ``upload`` or ``Deferring.begin``. Returns None if every byte
        must be written.
        """

    def length(self, path: str) -> int:
        """Returns the length of the file at ``path`` in bytes."""

    def status(self, path: str) -> StoredFile:
        """Returns the length of the file at ``path``, and its tag where ``taking_over`` needs one."""

    def version(self, path: str) -> str | None:
        """Returns what a file that replaces the one at ``path`` will not share; it need not survive a rename.

        Returns None if there is no file, or the store has no versions.
        """

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Returns ``length`` bytes from ``offset`` on, fewer only at the end of the file."""

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        """Creates ``path`` durably from the local file ``local``, and fills its ``ranges`` from their sources.

        After a failure there is no file, or one under the attempt's own name, which nobody reads (PROTOCOL 3.4).

        Raises:
            BadFile: a file that a range is taken from was replaced.
        """

    def write(self, path: str, content: bytes) -> None:
        """Creates ``path`` with its content; ``sync`` makes it durable.

        Refuses an existing file if the store can (PROTOCOL 11.12).
        """

    def make_directories(self, path: str, *, like: str) -> None:
        """Creates ``path`` and its parents below ``like``, with the owner, group, mode and ACL of ``like``.

        ``sync`` makes them durable.
        """

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        """Creates the new directory ``path`` for this user alone, with the directories ``inside`` it.

        ``adopt`` opens the content of those directories to others.
        """

    def make_inside(self, path: str) -> None:
        """Creates the new directory ``path`` in a directory of ``make_private``.

        Raises:
            UnsafeDirectory: somebody has replaced the directory of ``make_private``.
        """

    def adopt(self, path: str, files: Mapping[str, str | bytes] = NO_FILES, *, like: str) -> Mapping[str, int]:
        """Adds ``files`` to ``path`` and gives all below it the owner, group, mode and ACL of ``like``.

        ``path`` is a directory inside one of ``make_private``.

        Args:
            files: the path of the file that moves there, or the new file's content, by its path relative to ``path``. At
                most one directory is above a file; it is created if it does not exist.

        Returns:
            The length of each file below ``path``, by its relative path; on an object store only of ``files``.
        """

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes ``paths``, everything below them and their names durable, if the store supports that.

        A disk needs as long for one path as for many, so callers pass many at once.

        Returns:
            The paths that could not be made durable, with the errors. They must not be used: a second sync may report
            success although data is lost.
        """

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes only the names of ``paths`` durable, not what is below them; see ``sync``."""

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Renames a file or directory durably.

        Refuses an existing target (HDFS would move the source into it).

        A store without a rename (``capabilities``) copies file by file, data files first, and then removes the source. If a
        copy fails, it removes the copies.

        Args:
            durable: false if ``sync`` or ``sync_names`` follows.
        """

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        """Renames entries of the directory ``path``, each old name in ``names`` to its new one, not durably.

        Yields each old name once it is renamed, in order. Refuses an existing target as ``rename`` does; after an error, the
        names before it stay renamed. Old names may be relative paths.
        """

    def remove(self, path: str, *, durable: bool = True) -> None:
        """Removes a file or directory with its content; does nothing if it does not exist.

        Without ``durable`` it may reappear after a crash of the machine.
        """

    def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
        """Removes files or directories of one directory, with as few requests as possible.

        Args:
            durable: as for ``remove``.

        Returns:
            The paths that were not removed, or not durably, with the errors.
        """

    def identity(self, path: str) -> str | None:
        """Returns an identity that a later file or directory at ``path`` will not share (PROTOCOL 11.8).

        It survives a rename. Returns None if ``path`` does not exist, or the store has no identities.
        """

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        """Returns the identity of each of ``names``, which are relative to ``path``, with few requests."""

    def may_write(self, path: str) -> bool | None:
        """Returns true if this user may create and remove entries of ``path``; None if the store cannot tell."""

    def free_bytes(self, path: str) -> int | None:
        """Returns how many bytes can still be written next to ``path``; None if the store has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """``length`` in bytes.

    ``tag`` changes when the file is replaced, and is None if the store has no tags.
    """

    length: int
    tag: str | None = None
