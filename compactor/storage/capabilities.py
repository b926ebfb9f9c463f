"""The guarantees of each store, and what some offer beyond the protocol.

Some offer deferred uploads, and ranges of files.

Callers decide by the guarantees; ``compactor doctor`` and docs/storage.md print them.

A store that completes uploads on request needs no second copy of staged files. An executor begins an ``Upload`` and passes
it as a value to the driver, which completes it. Ranges of a store's files become part of a new file without passing through
this process: an executor collects them while it writes a file, and hands them to its store with the new bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from compactor.base.ids import TxnId


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The guarantees of one kind of store.

    ``renames``: a directory moves with its content in one atomic step. Without it, files get their final names one by one
    (PROTOCOL 5). ``tried`` names what the tests run against.
    """

    store: str
    renames: bool
    refuses_taken_names: bool  #: a rename to a taken name fails in the store itself, not in a check before it
    syncs: bool  #: written data can be forced to disk
    completes_whole: bool  #: a half-written file is never visible under its name
    has_owner: bool  #: owner, group and mode
    has_acl: bool
    bulk_removal: bool  #: many files, or a directory, in one request
    knows_free_bytes: bool
    tried: str
    defers: bool = False  #: naming completes an upload, without a copy

    def needs_exclusive(self, files: int, directories: int) -> bool:
        """Returns true if readers without visibility could see part of the output during naming (PROTOCOL 5)."""
        return directories > 1 or (files > 1 and not self.renames)

    def __str__(self) -> str:
        naming = (
            "a directory is named and taken away by one rename"
            if self.renames
            else "no rename: several files are named, and directories removed, under an exclusive lock"
        )
        kept = (
            "owner, mode and ACL are kept"
            if self.has_owner and self.has_acl
            else "no owner, mode or ACL of a file's own"
        )
        acknowledged = "durable" if self.completes_whole else "as durable as its server makes it"
        durable = "files are synced before the commit" if self.syncs else f"an acknowledged file is {acknowledged}"
        sent = "; uploads are named without a copy" if self.defers else ""
        return f"{self.store}: {naming}{sent}; {kept}; {durable}; tests ran against {self.tried}"

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


LOCAL = Capabilities(
    store="local or mounted directory",
    renames=True,
    refuses_taken_names=False,
    syncs=True,
    completes_whole=False,
    has_owner=True,
    has_acl=True,
    bulk_removal=False,
    knows_free_bytes=True,
    tried="local disks and memory",
)
HDFS = Capabilities(
    store="HDFS",
    renames=True,
    refuses_taken_names=True,
    syncs=True,
    completes_whole=False,
    has_owner=True,
    has_acl=True,
    bulk_removal=True,
    knows_free_bytes=True,
    tried="a NameNode and a DataNode 3.4.1, also with Kerberos",
)
#: It supports neither flags of a new file nor options of a rename.
HTTPFS = replace(
    HDFS,
    store="HDFS through HttpFS",
    refuses_taken_names=False,
    syncs=False,
    tried="HttpFS 3.4.1 in front of both, also with Kerberos",
)
S3 = Capabilities(
    store="S3",
    renames=False,
    refuses_taken_names=False,
    syncs=False,
    completes_whole=True,
    has_owner=False,
    has_acl=False,
    bulk_removal=True,
    knows_free_bytes=False,
    tried="moto's server, not Amazon's",
    defers=True,
)
GCS = replace(S3, store="Google Cloud Storage", defers=False, tried="an emulator, not Google's")
#: A hierarchical namespace could rename directories; it is used as a flat one.
ABFS = replace(GCS, store="Azure Data Lake", tried="Azurite, which has no hierarchical namespace, not Azure's")
EVERY = (LOCAL, HDFS, HTTPFS, S3, GCS, ABFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload that holds all bytes of a file and waits for its completion."""

    path: str
    id: str
    parts: tuple[str, ...]  #: the store's answer for each part
    length: int
    ends: tuple[KnownBytes, ...] = ()  #: compared as soon as the file can be read


class Deferring(Protocol):
    """The additional methods of a store that completes uploads on request.

    Every method raises ``StorageError``.
    """

    def begin(self, local: str, path: str, ranges: Sequence[TakenRange] = ()) -> Upload:
        """Uploads a local file under checksums that the store verifies; the store copies its ``ranges``.

        After a failure nothing is kept.

        Raises:
            BadFile: a file that a range is taken from was replaced.
        """

    def held_bytes(self, upload: Upload) -> int:
        """Returns how many bytes of an upload the store holds; 0 if it no longer knows the upload."""

    def complete(self, staged: str, target: str, uploads: Sequence[Upload]) -> None:
        """Names ``uploads`` in the directory ``target``, and then the other files in ``staged``.

        Refuses a target that exists. Removes all of ``target`` after a failure, or if the end of a range differs from its
        source.
        """

    def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
        """Aborts uploads into directories of ``location`` that are named after a transaction that ``is_gone``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingOver:
    """A store takes over ranges of at least ``smallest`` bytes, and only whole files if ``whole``."""

    smallest: int
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """The ``length`` bytes of the file ``source`` from ``offset`` on, at ``position`` of a new file.

    The store must refuse them if the source's tag is no longer ``tag``. ``last`` holds their last bytes.
    """

    position: int
    length: int
    source: str
    offset: int
    tag: str
    last: bytes = field(default=b"", repr=False)

    @property
    def end(self) -> int:
        """The position after the range."""
        return self.position + self.length

    def part(self, start: int, end: int) -> TakenRange:
        """Returns the part from position ``start`` to before ``end``, both within the range."""
        return replace(
            self,
            position=start,
            length=end - start,
            offset=self.offset + start - self.position,
            last=self.last[-(end - start) :] if end == self.end else b"",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBytes:
    """The bytes ``content`` that a new file must have from ``start`` on, as read from their source."""

    start: int
    content: bytes = field(repr=False)


def ends_of(ranges: Iterable[TakenRange]) -> tuple[KnownBytes, ...]:
    """Returns the last bytes of each range. If they are in the right place, so are the bytes before them."""
    return tuple(KnownBytes(start=taken.end - len(taken.last), content=taken.last) for taken in ranges if taken.last)


def pieces(ranges: Sequence[TakenRange], start: int, end: int) -> Iterator[tuple[int, int, TakenRange | None]]:
    """Divides a new file from ``start`` to before ``end`` into ``ranges`` and the bytes between them.

    Yields start, end and the part of a range, or None between two ranges. ``ranges`` are in the order of their positions.
    """
    for taken in ranges:
        if taken.end <= start:
            continue
        if max(taken.position, start) >= end:
            break
        if taken.position > start:
            yield start, taken.position, None
            start = taken.position
        stop = min(end, taken.end)
        yield start, stop, taken.part(start, stop)
        start = stop
    if start < end:
        yield start, end, None
