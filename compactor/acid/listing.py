"""A directory's listing, sorted by Hive's names.

It has bases, deltas, original files, and unnumbered or unparsable names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from compactor.acid.names import (
    FLUSH_LENGTH_SUFFIX,
    Base,
    BucketFile,
    Delta,
    OriginalFile,
    is_skipped,
    is_skipped_below,
    parse_directory,
    parse_file,
)
from compactor.base.errors import BadName
from compactor.base.ids import TxnId

_PATH = attrgetter("path")


class FileStatus(NamedTuple):
    """A file below the table's or partition's directory: ``path`` relative to it, ``length`` in bytes."""

    path: str
    length: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The contents of a table's or partition's directory.

    ``files`` are all files at any depth; ``directories`` the top-level directories, including empty ones;
    ``data_formats`` gives the ``dataFormat`` of each ``_metadata_acid`` by its directory's name (``compacted`` by Hive 3's
    major compaction, ``truncated``/``dropped`` by Hive 4). Names that readers skip may be present; they are ignored.
    ``claims`` are the names of the claims in the directory itself (PROTOCOL 11.13); ``skipped`` are all names in it that
    readers skip, such as claims and staging directories.
    """

    files: tuple[FileStatus, ...] = ()
    directories: tuple[str, ...] = ()
    data_formats: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    claims: tuple[str, ...] = field(default=(), compare=False)  #: one may appear between two listings of the same files
    skipped: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of everything in the directory itself, sorted."""
        files = (file.path for file in self.files if "/" not in file.path)
        return tuple(sorted((*files, *self.directories, *self.skipped)))

    @property
    def lengths(self) -> dict[str, int]:
        """The length of each file by its path."""
        return {file.path: file.length for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file with rows.

    ``number`` is the file number: rows and delete events meet only within one number.

    ``raw`` is set if the name is that of a file without ACID columns (original, or LOAD DATA into a delta),
    ``has_flush_length`` if a streaming writer's side file gives the file's logical length.
    """

    path: str
    length: int
    number: int
    raw: bool = False
    has_flush_length: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDir:
    """A base or delta that is read, with its data files in path order.

    ``total_bytes`` counts all files that are not hidden.

    ``unnumbered`` are files without a file number in their name (theirs is -1): some readers read them all the same.
    """

    acid: Base | Delta
    directory: str
    files: tuple[DataFile, ...]
    total_bytes: int
    raw: bool = False
    unnumbered: tuple[DataFile, ...] = ()

    @property
    def base(self) -> Base:
        assert isinstance(self.acid, Base)
        return self.acid

    @property
    def delta(self) -> Delta:
        assert isinstance(self.acid, Delta)
        return self.acid


class ListedBase(NamedTuple):
    """A base in a listing; ``is_compacted`` if a compaction wrote it, not INSERT OVERWRITE or TRUNCATE."""

    name: str
    base: Base
    is_compacted: bool


class ListedDelta(NamedTuple):
    """A delta or delete delta in a listing."""

    name: str
    delta: Delta


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedListing:
    """A listing sorted by the names in it; ``inside`` gives the files of each top-level directory.

    ``unparsable`` are names that begin like a base or delta and are none, and those of bases and deltas that lie deeper.
    """

    bases: tuple[ListedBase, ...]
    deltas: tuple[ListedDelta, ...]
    originals: tuple[DataFile, ...]
    inside: Mapping[str, tuple[FileStatus, ...]]
    unparsable: tuple[str, ...]

    @classmethod
    def from_listing(cls, listing: Listing, exempt: frozenset[TxnId]) -> SortedListing:
        """Sorts ``listing``; ``_v`` directories of the transactions ``exempt`` are ignored."""
        inside: dict[str, list[FileStatus]] = {name: [] for name in listing.directories}
        root: list[FileStatus] = []
        for file in listing.files:
            top, slash, _ = file.path.partition("/")
            if slash:
                inside.setdefault(top, []).append(file)
            else:
                root.append(file)
        bases: list[ListedBase] = []
        deltas: list[ListedDelta] = []
        unparsable: list[str] = []
        originals = [f for f in root if not is_skipped(f.name)]
        for name in sorted(inside):
            if is_skipped(name):
                continue
            try:
                acid = parse_directory(name)
            except BadName:
                unparsable.append(name)
                continue
            if acid is None:
                for file in inside[name]:
                    if (nested := _nested(file.path)) is not None:
                        unparsable.append(nested)
                    elif not is_skipped_below(file.path):  # ``name`` itself is not skipped
                        originals.append(file)
                continue
            unparsable.extend(
                nested
                for file in inside[name]
                if file.path.count("/") > 1 and not is_skipped_below(file.path) and (nested := _nested(file.path))
            )
            if acid.visibility_txn_id in exempt and acid.visibility_txn_id:
                continue
            if isinstance(acid, Base):
                is_compacted = acid.visibility_txn_id > 0 or listing.data_formats.get(name) == "compacted"
                bases.append(ListedBase(name, acid, is_compacted))
            else:
                deltas.append(ListedDelta(name, acid))
        return cls(
            bases=tuple(bases),
            deltas=tuple(deltas),
            originals=tuple(_data_file(f) for f in sorted(originals, key=_PATH)),
            inside=MappingProxyType({name: tuple(files) for name, files in inside.items()}),
            unparsable=tuple(dict.fromkeys(unparsable)),
        )

    def acid_dir(self, name: str, acid: Base | Delta) -> AcidDir:
        """Returns the directory ``name`` with its data files."""
        visible = sorted((f for f in self.inside.get(name, ()) if not is_skipped_below(f.path)), key=_PATH)
        flushed = {f.path for f in visible if f.path.endswith(FLUSH_LENGTH_SUFFIX)}
        data: list[DataFile] = []
        unnumbered: list[DataFile] = []
        for file in visible:
            found = _data_file(file, has_flush_length=file.path + FLUSH_LENGTH_SUFFIX in flushed)
            if found.raw and not found.length:
                continue  # how Hive writes an empty bucket, and LOAD DATA brings it here
            if found.number >= 0:
                data.append(found)
            elif file.path not in flushed:
                unnumbered.append(found)
        return AcidDir(
            acid=acid,
            directory=name,
            files=tuple(data),
            total_bytes=sum(f.length for f in visible),
            raw=any(f.raw for f in data),
            unnumbered=tuple(unnumbered),
        )


def describe_unparsable(names: Sequence[str]) -> str:
    """Returns what is wrong with the first of ``AcidDirectory.unparsable``, and how many more there are."""
    parent, slash, _ = names[0].rpartition("/")
    wrong = f"is a base or delta inside {parent!r}" if slash else "begins like a base or delta but is not one"
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{names[0]!r} {wrong}{more}"


def _nested(path: str) -> str | None:
    """Returns the base or delta below the top level that ``path`` lies in, None where there is none.

    It is another table's, or a copy: in ``base_5/base_5/bucket_00000``, left by a copy that ran twice, our readers would
    find every row a second time, and Hive's would not (PROTOCOL 11.13). No writer makes a folder ``BASE_5`` there, either,
    and readers would take it for a plain folder of the base.
    """
    parts = path.split("/")
    for depth, part in enumerate(parts[1:-1], start=2):
        try:
            if parse_directory(part.lower()) is None:
                continue
        except BadName:
            pass
        return "/".join(parts[:depth])
    return None


def _data_file(file: FileStatus, *, has_flush_length: bool = False) -> DataFile:
    parsed = parse_file(file.name)
    match parsed:
        case BucketFile(number=number):
            return DataFile(path=file.path, length=file.length, number=number, has_flush_length=has_flush_length)
        case OriginalFile(number=number):
            return DataFile(path=file.path, length=file.length, number=number, raw=True)
        case None:
            return DataFile(path=file.path, length=file.length, number=-1, raw=True)
