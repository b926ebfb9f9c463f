"""Finds numbers in directory names that the metastore cannot have allocated (PROTOCOL 11.3).

They appear after a metastore was restored from a backup, after a standby without the last seconds was promoted, and where
files were copied from elsewhere. Such a directory may be the only copy of rows that the metastore knows nothing about.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compactor.acid.names import Base, Delta, known_directory
from compactor.base.errors import Disagreement
from compactor.base.ids import ORIGINALS_ONLY, TxnId, WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that the metastore has allocated, read after the directory was listed.

    ``next_write_id`` is the table's NEXT_WRITE_ID. ``compactions`` maps each transaction with a row in TXNS to true if it is
    a compaction. ``own`` is a transaction that was opened just now: no directory can have its number. ``has_visibility`` is
    false on
    Hive 3.1, where a number in a name is not this metastore's; other rules refuse such a name.
    """

    newest: TxnId
    next_write_id: WriteId
    compactions: Mapping[TxnId, bool] = field(default_factory=dict)
    own: TxnId | None = None
    has_visibility: bool = True


class DoubtKind(enum.Enum):
    """Why a directory is in doubt. All but the last are numbers that the metastore cannot have allocated."""

    WRITE_ID = "write ID never allocated"
    NEVER_OPENED = "transaction never opened"
    OPENED_JUST_NOW = "transaction opened just now"
    NOT_A_COMPACTION = "transaction that is not a compaction"
    ONLY_COPY = "output that did not commit and may be the only copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryDoubt:
    """A directory whose name has a number that the metastore cannot have allocated.

    ``because`` is a clause about it.
    """

    name: str
    kind: DoubtKind
    number: int
    because: str


def find_doubts(names: Iterable[str], numbers: Numbers) -> Iterator[DirectoryDoubt]:
    """Yields a doubt for each number in ``names`` that the metastore cannot have allocated, by name.

    Names that are not those of a base or delta are ignored.
    """
    for name in sorted(names):
        if (acid := known_directory(name)) is not None:
            yield from _doubts_about(name, acid, numbers)


def must_agree(location: str, names: Iterable[str], numbers: Numbers) -> None:
    """Checks that the metastore can have allocated every number in ``names``, directories of ``location``.

    Raises:
        Disagreement: it cannot have allocated one.
    """
    for doubt in find_doubts(names, numbers):
        raise Disagreement(
            f"{location}/{doubt.name}: {doubt.because}; either the metastore is older than the files (restored from a "
            "backup, or a standby without its last commits) or they were copied from elsewhere. Nothing was changed; stop "
            "Hive's own compactor and cleaner until both agree: put the right database back, let MSCK REPAIR TABLE "
            "take copied files in, or decide about each such directory with `compactor resolve`"
        )


def _doubts_about(name: str, acid: Base | Delta, numbers: Numbers) -> Iterator[DirectoryDoubt]:
    highest, txn = acid.highest_write_id, acid.visibility_txn_id
    if highest != ORIGINALS_ONLY and highest >= numbers.next_write_id:
        because = f"write ID {highest} was never allocated (the table's next one is {numbers.next_write_id})"
        yield DirectoryDoubt(name=name, kind=DoubtKind.WRITE_ID, number=highest, because=because)
    if not numbers.has_visibility or not txn:
        return
    if txn > numbers.newest:
        because = f"transaction {txn} was never opened (the newest is {numbers.newest})"
        yield DirectoryDoubt(name=name, kind=DoubtKind.NEVER_OPENED, number=txn, because=because)
    elif txn == numbers.own:
        because = f"transaction {txn} was opened just now, by the process that found this name"
        yield DirectoryDoubt(name=name, kind=DoubtKind.OPENED_JUST_NOW, number=txn, because=because)
    elif numbers.compactions.get(txn) is False:
        because = f"transaction {txn} is not a compaction"
        yield DirectoryDoubt(name=name, kind=DoubtKind.NOT_A_COMPACTION, number=txn, because=because)
