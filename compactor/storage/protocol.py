"""What Compactor asks of a file system, and nothing more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from compactor.acid.listing import Listing
from compactor.errors import StorageError
from compactor.storage.capabilities import Capabilities
from compactor.storage.deferred import Deferring
from compactor.storage.options import StoreOptions


class Storage(Protocol):
    """Paths are those that ``resolve`` returned, extended by ``/name``. Every method raises ``StorageError``."""

    @property
    def options(self) -> StoreOptions:
        """What an executor needs to open the same stores."""

    def capabilities(self, path: str) -> Capabilities:
        """What the store that ``path`` is in guarantees."""

    def resolve(self, location: str) -> str:
        """The path of a location as the metastore spells it (``file:/x``, ``/x``, ``hdfs://nn:8020/x``, ``s3a://b/x``).

        Raises:
            NotSupported: no store of ours is of that scheme.
        """

    def listing(self, path: str) -> Listing:
        """Everything below ``path``. What vanishes meanwhile starts it again; a name that is listed and does not answer is
        a ``StorageError`` (PROTOCOL 11.10). ``BadFile`` when ``path`` is not there (an object store knows no empty
        directory: there it is empty)."""

    def children(self, path: str) -> tuple[str, ...]:
        """Names of what stands directly in ``path``, hidden ones too, sorted; nothing when it is not there."""

    def exists(self, path: str) -> bool: ...

    def local_path(self, path: str) -> str | None:
        """A path that the ORC codecs can open; None where there is none and files are read by ranges and uploaded."""

    def owner(self, path: str) -> str | None:
        """The user whom ``path`` belongs to; None where the store knows none."""

    def deferring(self, path: str) -> Deferring | None:
        """The store of ``path``, where it completes uploads on request."""

    def length(self, path: str) -> int:
        """Bytes of the file at ``path``."""

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on, fewer only where the file ends."""

    def upload(self, local: str, path: str) -> None:
        """Creates ``path`` with the content of the local file ``local``, durably. When it fails nothing is published: no
        file, or one under the attempt's own name that nobody reads (PROTOCOL 3.4)."""

    def write(self, path: str, content: bytes) -> None:
        """Creates ``path`` with its content and refuses a file that exists, where the store can (PROTOCOL 11.12); ``sync``
        makes it durable."""

    def make_directories(self, path: str, *, like: str) -> None:
        """Creates ``path`` and its parents below ``like``, with the owner, group, mode and ACL of ``like``; ``sync``
        makes them durable."""

    def adopt(self, path: str, *, like: str) -> None:
        """Gives everything below ``path`` the owner, group, mode and ACL that ``like`` has."""

    def sync(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes ``paths`` with all that is below them, and their names, durable where the store has that: many at once,
        since a disk waits for one as long as for many.

        Returns:
            what could not be made durable, and why. It must not be used: asked again, a system may say that all is well.
        """

    def sync_names(self, paths: Collection[str]) -> Mapping[str, StorageError]:
        """Makes the names of ``paths`` durable, and nothing below them; see ``sync``."""

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Renames a file or directory; refuses a target that exists (HDFS would move into it). The new name is durable
        then, unless ``sync`` or ``sync_names`` is to see to that.

        Where the store has no rename (``capabilities``), copies file by file within the store, data files first, and
        then removes the source; when copying fails, what was copied is removed again.
        """

    def remove(self, path: str, *, durable: bool = True) -> None:
        """Removes a file or directory with all it holds; nothing happens when it is not there. Without ``durable`` it may
        be there again after a crash of the machine."""

    def may_write(self, path: str) -> bool | None:
        """Whether this user may make and remove entries of the directory ``path``, None where the store doesn't tell."""

    def free_bytes(self, path: str) -> int | None:
        """Bytes that can still be written beside ``path``, None where the store knows no bound."""
