"""What Compactor asks of a file system, and nothing more."""

from __future__ import annotations

from typing import Protocol

from compactor.acid.directory import Listing


class Storage(Protocol):
    """Paths are those that ``resolve`` returned, extended by ``/name``. Every method raises ``StorageError``."""

    def resolve(self, location: str) -> str:
        """The path of a location as the metastore spells it (``file:/x``, ``file:///x``, ``/x``)."""

    def listing(self, path: str) -> Listing:
        """Everything below ``path``; survives entries that vanish meanwhile. ``BadFile`` when ``path`` is not there."""

    def children(self, path: str) -> tuple[str, ...]:
        """Names of what stands directly in ``path``, hidden ones too, sorted; nothing when it is not there."""

    def exists(self, path: str) -> bool: ...

    def local_path(self, path: str) -> str:
        """A path that the ORC codecs can open."""

    def length(self, path: str) -> int:
        """Bytes of the file at ``path``."""

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, content: bytes) -> None:
        """Creates ``path`` with its content, durably (fsynced where the store has that)."""

    def make_directories(self, path: str, *, like: str) -> None:
        """Creates ``path`` and its parents below ``like``, with the owner, group, mode and ACL of ``like``."""

    def adopt(self, path: str, *, like: str) -> None:
        """Gives everything below ``path`` the owner, group, mode and ACL that ``like`` has."""

    def sync(self, path: str) -> None:
        """Makes everything below ``path``, and its own name, durable."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory; refuses a target that exists (HDFS would move into it)."""

    def remove(self, path: str) -> None:
        """Removes a file or directory with all it holds; nothing happens when it is not there."""

    def free_bytes(self, path: str) -> int | None:
        """Bytes that can still be written beside ``path``, None where the store knows no bound."""
