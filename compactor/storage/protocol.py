"""The operations that Compactor needs of a file system, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from compactor.acid.listing import Listing
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import StorageError
from compactor.storage.capabilities import Capabilities
from compactor.storage.deferred_uploads import Deferring
from compactor.storage.file_status import FileStatus
from compactor.storage.store_options import StoreOptions
from compactor.storage.taking_over import TakenRange, TakingOver


class Storage(Protocol):
    """Paths are those that ``resolve`` returned, extended by ``/name``. Every method raises ``StorageError``, and
    ``UnsafeDirectory`` for a link in a path: only ``resolve`` follows links (PROTOCOL 11.13)."""

    @property
    def options(self) -> StoreOptions:
        """The options with which an executor opens the same stores."""

    def capabilities(self, path: str) -> Capabilities:
        """Returns the guarantees of the store that ``path`` is in."""

    def resolve(self, location: str, within: str | None = None) -> str:
        """Returns the path of a location as the metastore spells it (``file:/x``, ``hdfs://nn:8020/x``, ``s3a://b/x``),
        without links.

        Args:
            within: the location of the table, if ``location`` is that of a partition. Links are followed to the table, and
                none below it.

        Raises:
            NotSupported: no back end serves that scheme.
        """

    def listing(self, path: str) -> Listing:
        """Lists everything below ``path``, again from the start if an entry vanishes meanwhile. Raises ``StorageError`` for
        a name that is listed and does not answer (PROTOCOL 11.10), ``UnsafeDirectory`` for anything but regular files and
        directories and for too many of them, and ``BadFile`` if ``path`` does not exist (in an object store, which has no
        empty directories, the listing is then empty)."""

    def tree(self, path: str) -> Tree:
        """Returns all directories below ``path``, those included that readers skip. Raises as ``listing`` does."""

    def anchor(self, path: str) -> Anchor | None:
        """Returns the directory at ``path`` as what can be compared later; None if none is there, even if a file is."""

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        """Returns the names of the entries of ``path``, hidden ones too, sorted; an empty tuple if it does not exist.

        Args:
            prefix: with which a name begins. An object store sends only such names, however many others there are.
        """

    def exists(self, path: str) -> bool: ...

    def local_path(self, path: str) -> str | None:
        """Returns the path of a directory of ``make_private`` that the ORC codecs can write to; None if files must be
        uploaded. Nothing is read by it: see ``descriptor``."""

    def descriptor(self, path: str) -> int | None:
        """Returns a descriptor of the regular file at ``path``, which the caller closes; None if files must be read by
        ranges. Raises ``BadFile`` if the file is gone."""

    def owner(self, path: str) -> str | None:
        """Returns the user who owns ``path``; None where the store has no owners."""

    def deferring(self, path: str) -> Deferring | None:
        """Returns the store of ``path`` if it completes uploads on request, else None."""

    def taking_over(self, path: str) -> TakingOver | None:
        """Returns the terms on which new files in the directory ``path`` take over ranges of other files there: locally by
        sharing their blocks, elsewhere by ``upload`` or ``Deferring.begin``; None if every byte must be written."""

    def length(self, path: str) -> int:
        """Returns the length of the file at ``path`` in bytes."""

    def status(self, path: str) -> FileStatus:
        """Returns the length of the file at ``path``, and its tag where ``taking_over`` needs one."""

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Returns ``length`` bytes from ``offset`` on, fewer only at the end of the file."""

    def upload(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> None:
        """Creates ``path`` with the content of the local file ``local``, durably; where that has ``ranges``, with theirs. A
        failure publishes nothing: it leaves no file, or one under the attempt's own name that nobody reads (PROTOCOL 3.4).

        Raises:
            BadFile: a file that a range is taken from was replaced.
        """

    def write(self, path: str, content: bytes) -> None:
        """Creates ``path`` with its content and refuses a file that exists, where the store can (PROTOCOL 11.12); ``sync``
        makes it durable."""

    def make_directories(self, path: str, *, like: str) -> None:
        """Creates ``path`` and its parents below ``like``, with the owner, group, mode and ACL of ``like``; ``sync``
        makes them durable."""

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        """Creates the directory ``path``, which must not exist, for this user alone, with the directories ``inside`` it;
        ``adopt`` opens what is below those to others."""

    def make_inside(self, path: str) -> None:
        """Creates the directory ``path``, which must not exist, in one that ``make_private`` made: ``UnsafeDirectory`` if
        another one is there now."""

    def adopt(self, path: str, *, like: str) -> None:
        """Gives everything below ``path``, a directory that ``make_private`` made in another one, the owner, group, mode and
        ACL of ``like``."""

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes ``paths``, everything below them and their names durable where the store supports that: many at once, since
        a disk needs as long for one as for many.

        Returns:
            The paths that could not be made durable, with the errors. They must not be used: a second sync may report
            success although data is lost.
        """

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes the names of ``paths`` durable, and nothing below them; see ``sync``."""

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Renames a file or directory; refuses a target that exists (HDFS would move into it). The new name is then durable,
        unless ``durable`` is false and ``sync`` or ``sync_names`` follows.

        Where the store has no rename (``capabilities``), copies file by file within the store, data files first, and then
        removes the source; if copying fails, the copies are removed again.
        """

    def remove(self, path: str, *, durable: bool = True) -> None:
        """Removes a file or directory with its content; does nothing if it does not exist. Without ``durable`` it may exist
        again after a crash of the machine."""

    def remove_all(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Removes files or directories of one directory with as few requests as the store can, durably; returns those that
        cannot be removed, or not durably, with the errors."""

    def identity(self, path: str) -> str | None:
        """Returns what tells the file or directory at ``path`` from another one created there later (PROTOCOL 11.8); it
        survives a rename. None where nothing is there, or the store knows no such thing."""

    def identities(self, path: str, names: Collection[str]) -> dict[str, str | None]:
        """Returns the identity of each of ``names``, relative to the directory ``path``, with few requests."""

    def may_write(self, path: str) -> bool | None:
        """Returns true if this user may create and remove entries of the directory ``path``, None if the store can't say."""

    def free_bytes(self, path: str) -> int | None:
        """Returns the number of bytes that can still be written beside ``path``, None where the store has no limit."""
