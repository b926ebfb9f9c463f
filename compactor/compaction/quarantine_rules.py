"""Decides what goes into quarantine, how it is recorded, and when it is erased (PROTOCOL 11.15).

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from compactor.acid.listing import Listing
from compactor.acid.names import Base, parse_directory
from compactor.acid.write_ids import RangeAnswer, ValidWriteIdList
from compactor.base.errors import BadFile
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedObsolete:
    """Obsolete names to ``keep``, and the others with the reason why each is ``removed``."""

    keep: tuple[str, ...]
    removed: Mapping[str, str]


def sort_obsolete(names: Iterable[str], write_ids: ValidWriteIdList, rebalanced: WriteId | None) -> SortedObsolete:
    """Sorts obsolete ``names`` into those that may be kept and those that may not.

    A compaction's output (``_v``) spans aborted write IDs without holding their rows; any other directory may hold them.

    Args:
        write_ids: the list under which they were found obsolete.
        rebalanced: write ID of the last rebalance of the table or partition, None if there was none.
    """
    keep: list[str] = []
    removed: dict[str, str] = {}
    for name in names:
        if (reason := _why_removed(name, write_ids, rebalanced)) is None:
            keep.append(name)
        else:
            removed[name] = reason
    return SortedObsolete(keep=tuple(keep), removed=MappingProxyType(removed))


def list_names(content: Listing) -> tuple[str, ...]:
    """Returns the names, as in ``AcidDirectory.obsolete``, that move one by one.

    They are bases and deltas, such as ``delta_0000003_0000003_0000``, and the paths of original files.
    """
    acid = {name for name in content.directories if parse_directory(name) is not None}
    originals = {file.path for file in content.files if file.path.partition("/")[0] not in acid}
    return tuple(sorted(acid | originals))


def _why_removed(name: str, write_ids: ValidWriteIdList, rebalanced: WriteId | None) -> str | None:
    acid = parse_directory(name)
    if rebalanced is not None and (acid is None or acid.highest_write_id < rebalanced):
        return f"is from before the rebalance with write ID {rebalanced}, which changed ROW__IDs"
    if acid is None or acid.visibility_txn_id or isinstance(acid, Base):
        return None
    if write_ids.range_aborted(acid.min_write_id, acid.max_write_id) is not RangeAnswer.NONE:
        return "may hold rows of an aborted write ID, which would commit once it is forgotten"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record of one quarantine, written next to its content once that is complete.

    Files are recorded with their lengths, by paths relative to the location of the table or partition.

    Attributes:
        txn: the compaction's transaction; None if Hive recorded none.
        partition_id: None for an unpartitioned table.
        columns: the table's columns, as the type of a row.
        since: epoch ms at which it was taken.
        until: epoch ms at which it may be erased.
        names: the directories and original files that were taken.
        kept: the files in them.
        stays: every file that was left in the location.
        removed: obsolete names that were not kept, each with the reason.
        inputs: the files that the compaction read; None if its manifest was gone.
        outputs: the directories that it published.
    """

    entry_id: int
    txn: int | None
    table_id: int
    partition_id: int | None
    columns: str
    since: int
    until: int
    names: tuple[str, ...]
    kept: Mapping[str, int]
    stays: Mapping[str, int]
    removed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, int] | None = None
    outputs: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Returns the record as JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: _plain(value) for name, value in plain.items()}).encode()

    @classmethod
    def parse(cls, content: bytes, path: str) -> Record:
        """Parses the result of ``to_bytes``; ``path`` is for the message.

        Raises:
            BadFile: ``content`` is something else.
        """
        try:
            document = json.loads(content)
            inputs = document["inputs"]
            return cls(
                entry_id=int(document["entry_id"]),
                txn=None if document["txn"] is None else int(document["txn"]),
                table_id=int(document["table_id"]),
                partition_id=None if document["partition_id"] is None else int(document["partition_id"]),
                columns=str(document["columns"]),
                since=int(document["since"]),
                until=int(document["until"]),
                names=tuple(map(str, document["names"])),
                kept=_lengths(document["kept"]),
                stays=_lengths(document["stays"]),
                removed={str(name): str(reason) for name, reason in document["removed"].items()},
                inputs=None if inputs is None else _lengths(inputs),
                outputs=tuple(map(str, document["outputs"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadFile(
                f"{path}: expected the record of a quarantine, found something else ({type(error).__name__}: {error}); "
                "nothing is put back from there, and it is erased when it is due"
            ) from error


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _lengths(lengths: Mapping[str, object]) -> Mapping[str, int]:
    return {str(path): int(str(length)) for path, length in lengths.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One quarantine as our state lists it.

    ``since`` and ``until`` are epoch ms, ``location`` is as storage spells it.
    """

    entry_id: int
    entity: Entity
    location: str
    since: int
    until: int
    bytes: int = 0
    names: tuple[str, ...] = ()


def choose_due(kept: Iterable[Quarantined], now_ms: int, limit: int) -> tuple[Quarantined, ...]:
    """Returns the quarantines to erase now.

    These are the expired ones, then the oldest while the rest exceeds ``limit``.

    Args:
        limit: ``compactor.quarantine.bytes``; 0 means no limit.
    """
    oldest_first = sorted(kept, key=lambda quarantine: (quarantine.since, quarantine.entry_id))
    expired = [quarantine for quarantine in oldest_first if quarantine.until <= now_ms]
    rest = [quarantine for quarantine in oldest_first if quarantine.until > now_ms]
    total = sum(quarantine.bytes for quarantine in rest)
    while limit and rest and total > limit:
        oldest = rest.pop(0)
        total -= oldest.bytes
        expired.append(oldest)
    return tuple(expired)
