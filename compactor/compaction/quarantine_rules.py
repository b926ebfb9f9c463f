"""Decides what a cleaner keeps in quarantine, what is recorded of it, and when it is erased (PROTOCOL 11.15). Pure."""

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
from compactor.compaction.entry import Entity


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Obsolete names: those to ``keep``, and for each of the others the reason why it is ``removed``."""

    keep: tuple[str, ...]
    removed: Mapping[str, str]


def sort_obsolete(names: Iterable[str], write_ids: ValidWriteIdList, rebalanced: WriteId | None) -> Sorted:
    """Sorts obsolete ``names``, as in ``AcidDirectory.obsolete``, into those that may be kept and those that may not.

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
    return Sorted(keep=tuple(keep), removed=MappingProxyType(removed))


def names_of(content: Listing) -> tuple[str, ...]:
    """Returns the names, as in ``AcidDirectory.obsolete``, of what was moved one by one: bases and deltas, and the paths of
    original files."""
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
    """The record of one quarantine, written beside its content once that is complete.

    Files are given with their lengths, by paths relative to the location of the table or partition.

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
        outputs: the directories that it named.
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
        """Parses what ``to_bytes`` returned; ``path`` is for the message.

        Raises:
            BadFile: ``content`` is nothing of that form.
        """
        try:
            found = json.loads(content)
            inputs = found["inputs"]
            return cls(
                entry_id=int(found["entry_id"]),
                txn=None if found["txn"] is None else int(found["txn"]),
                table_id=int(found["table_id"]),
                partition_id=None if found["partition_id"] is None else int(found["partition_id"]),
                columns=str(found["columns"]),
                since=int(found["since"]),
                until=int(found["until"]),
                names=tuple(map(str, found["names"])),
                kept=_lengths(found["kept"]),
                stays=_lengths(found["stays"]),
                removed={str(name): str(reason) for name, reason in found["removed"].items()},
                inputs=None if inputs is None else _lengths(inputs),
                outputs=tuple(map(str, found["outputs"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadFile(
                f"{path}: expected the record of a quarantine, found something else ({type(error).__name__}: {error}); "
                "nothing is put back from there, and it is erased when it is due"
            ) from error


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _lengths(found: Mapping[str, object]) -> Mapping[str, int]:
    return {str(path): int(str(length)) for path, length in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One quarantine as our state lists it. ``since`` and ``until`` are epoch ms, ``location`` is as storage spells it."""

    entry_id: int
    entity: Entity
    location: str
    since: int
    until: int
    bytes: int = 0
    names: tuple[str, ...] = ()


def due(kept: Iterable[Quarantined], now_ms: int, limit: int) -> tuple[Quarantined, ...]:
    """Returns those to erase now: all whose time is over, then the oldest while the others exceed ``limit`` bytes.

    Args:
        limit: ``compactor.quarantine.bytes``; 0 is no limit.
    """
    oldest_first = sorted(kept, key=lambda one: (one.since, one.entry_id))
    over = [one for one in oldest_first if one.until <= now_ms]
    rest = [one for one in oldest_first if one.until > now_ms]
    total = sum(one.bytes for one in rest)
    while limit and rest and total > limit:
        oldest = rest.pop(0)
        total -= oldest.bytes
        over.append(oldest)
    return tuple(over)
