"""Sorts a listing into what is read, obsolete and aborted (Hive's ``AcidUtils.getAcidState``).

Pure. The rules in the order in which they apply, and where they are stricter than Hive's:

* A directory ``..._v<txn>`` counts only when that transaction is valid in the snapshot.
* Of two directories of one kind, range and statement only the one with the highest visible ``_v`` is read (Hive read
  both and doubled the rows: HIVE-29210).
* A compacted base never counts above the high watermark (HIVE-29601).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.acid.listing import AcidDir, DataFile, ListedBase, ListedDelta, Listing, SortedListing
from compactor.acid.names import Base, Delta, DeltaKind
from compactor.acid.write_ids import CleanerWriteIdList, RangeAnswer, ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotEnoughHistory
from compactor.base.ids import ORIGINALS_ONLY, TxnId, WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDirectory:
    """The state of one directory under a snapshot: what is read, and what is no longer needed.

    ``deltas`` are in reading order. ``originals`` are data files without ACID columns in path order, which determines
    their rows' synthetic ROW__IDs; one of 0 bytes, which Hive skips as well, is only ever obsolete. ``obsolete`` and
    ``aborted`` are top-level names (for an original file in a sub-directory, its path) that the given snapshot does not
    need. ``left_out`` are directories that hold an open write ID, or reach above the list's high watermark.
    ``unseen`` are ``_v`` directories whose transaction is neither valid nor aborted. ``unparsable`` are names that begin
    like an ACID directory's but are not valid, and ACID directories below the top level: nothing is decided while there
    is one.
    """

    base: AcidDir | None = None
    deltas: tuple[AcidDir, ...] = ()
    originals: tuple[DataFile, ...] = ()
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    aborted_write_ids: frozenset[WriteId] = frozenset()
    has_uncompacted_aborts: bool = False
    left_out: tuple[Base | Delta, ...] = ()
    unseen: tuple[str, ...] = ()
    unparsable: tuple[str, ...] = ()

    @property
    def insert_deltas(self) -> tuple[AcidDir, ...]:
        return tuple(d for d in self.deltas if d.delta.kind is DeltaKind.INSERT)

    @property
    def delete_deltas(self) -> tuple[AcidDir, ...]:
        return tuple(d for d in self.deltas if d.delta.kind is DeltaKind.DELETE)

    @property
    def base_bytes(self) -> int:
        """Bytes of the base, or of the originals if there is none (as Hive's Initiator counts them)."""
        return self.base.total_bytes if self.base else sum(f.length for f in self.originals)

    @property
    def delta_bytes(self) -> int:
        return sum(d.total_bytes for d in self.deltas)

    def compactable(self) -> tuple[AcidDir, ...]:
        """Returns the deltas that a compaction may read, and whose write IDs name its output.

        An output's range never reaches into the range of a directory that was left out: if that were a streaming delta
        whose open write IDs abort later, its committed rows would be hidden for ever [seen in Hive and Trino].
        """
        limit = min(
            (d.min_write_id for d in self.left_out if isinstance(d, Delta)),
            default=None,
        )
        if limit is None:
            return self.deltas
        return tuple(d for d in self.deltas if d.delta.max_write_id < limit)

    @property
    def misread(self) -> tuple[str, ...]:
        """The directories without ACID columns that Hive takes for ACID files in a full ACID table.

        A compaction wrote them while the table was insert-only. Hive's ``MetaDataFile.isRawFormat`` looks into no compacted
        base, and into no delta of several write IDs.
        """
        base = () if self.base is None or self.base.base.visibility_txn_id == 0 else (self.base,)
        spans = (d for d in self.compactable() if d.delta.min_write_id != d.delta.max_write_id)
        return tuple(directory.directory for directory in (*base, *spans) if directory.raw)

    @property
    def waiting(self) -> int:
        """The number of directories that a compaction leaves alone.

        They hold an open write ID, or lie above one.
        """
        return len(self.left_out) + len(self.deltas) - len(self.compactable())


def acid_directory(
    listing: Listing,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    *,
    exempt: frozenset[TxnId] = frozenset(),
) -> AcidDirectory:
    """Returns the state of ``listing`` under a snapshot.

    Args:
        write_ids: the reader's, compactor's or cleaner's list of this table.
        txns: decides which ``_v<txn>`` directories count.
        exempt: transactions whose ``_v`` directories are ignored (a compaction's own, while it plans).

    Raises:
        NotEnoughHistory: the list is older than the oldest compacted base, so what it saw is gone.
    """
    sorted_listing = SortedListing.from_listing(listing, exempt)
    visible = _visible(sorted_listing, txns)
    bases = _choose_base(visible.bases, write_ids)
    if bases.best is None:
        _check_history(bases.oldest, write_ids)
    best = None if bases.best is None else bases.best.base
    deltas = _sort_deltas(visible.deltas, write_ids)
    current, hidden = _best_deltas(deltas.readable, best, write_ids)
    replaced = () if best is None else tuple(file.path for file in sorted_listing.originals)
    return AcidDirectory(
        base=None if bases.best is None else sorted_listing.acid_dir(bases.best.name, bases.best.base),
        deltas=tuple(sorted_listing.acid_dir(name, delta) for name, delta in current),
        # an empty bucket of a plain table is a file of 0 bytes
        originals=tuple(file for file in sorted_listing.originals if file.length) if best is None else (),
        obsolete=tuple(sorted([*bases.obsolete, *hidden, *replaced])),
        aborted=tuple(sorted([*visible.aborted, *(base.name for base in bases.aborted), *deltas.aborted])),
        aborted_write_ids=deltas.aborted_write_ids.union(aborted.base.write_id for aborted in bases.aborted),
        has_uncompacted_aborts=deltas.has_uncompacted_aborts,
        left_out=(*bases.left_out, *deltas.left_out),
        unseen=tuple(sorted(visible.unseen)),
        unparsable=sorted_listing.unparsable,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visible:
    """The bases and deltas that count in the snapshot.

    Also has the names of those that their ``_v`` transaction excludes.
    """

    bases: tuple[ListedBase, ...]
    deltas: tuple[ListedDelta, ...]
    aborted: tuple[str, ...]
    unseen: tuple[str, ...]


def _visible(found: SortedListing, txns: ValidTxnList) -> _Visible:
    aborted: list[str] = []
    unseen: list[str] = []

    def counts(name: str, txn: TxnId) -> bool:
        if txn == 0 or txns.is_valid(txn):
            return True
        (aborted if txns.is_aborted(txn) else unseen).append(name)
        return False

    return _Visible(
        bases=tuple(item for item in found.bases if counts(item.name, item.base.visibility_txn_id)),
        deltas=tuple(item for item in found.deltas if counts(item.name, item.delta.visibility_txn_id)),
        aborted=tuple(aborted),
        unseen=tuple(unseen),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bases:
    """The ``best`` base, which is read, the base with the smallest write ID, and the fate of the others."""

    best: ListedBase | None
    oldest: ListedBase | None
    obsolete: tuple[str, ...]
    aborted: tuple[ListedBase, ...]
    left_out: tuple[Base, ...]


def _choose_base(bases: Iterable[ListedBase], write_ids: ValidWriteIdList) -> _Bases:
    best: ListedBase | None = None
    oldest: ListedBase | None = None
    obsolete: list[str] = []
    aborted: list[ListedBase] = []
    left_out: list[Base] = []
    for found in bases:
        if oldest is None or found.base.write_id < oldest.base.write_id:
            oldest = found
        if not found.is_compacted and write_ids.is_aborted(found.base.write_id):
            aborted.append(found)
        elif best is not None and not _beats(found.base, best.base):
            obsolete.append(found.name)
        elif _base_valid(found, write_ids):
            if best is not None:
                obsolete.append(best.name)
            best = found
        else:
            left_out.append(found.base)
    return _Bases(best=best, oldest=oldest, obsolete=tuple(obsolete), aborted=tuple(aborted), left_out=tuple(left_out))


def _beats(challenger: Base, best: Base) -> bool:
    """Returns true if the first base is read instead of the second.

    The larger number wins; of one number the compacted base, of two compacted ones the higher ``_v`` (HIVE-25777).
    """
    return (challenger.write_id, challenger.visibility_txn_id) > (best.write_id, best.visibility_txn_id)


def _base_valid(found: ListedBase, write_ids: ValidWriteIdList) -> bool:
    if found.base.write_id == ORIGINALS_ONLY:
        return True
    if found.is_compacted:
        return write_ids.is_valid_base(found.base.write_id)
    return write_ids.is_valid(found.base.write_id)


def _check_history(oldest: ListedBase | None, write_ids: ValidWriteIdList) -> None:
    """Raises NotEnoughHistory if no base is valid and a compaction has replaced what the snapshot saw.

    A cleaner reads nothing: where a newer compaction's base is above its entry, it still judges what is below.
    """
    if oldest is None or not oldest.is_compacted or isinstance(write_ids, CleanerWriteIdList):
        return
    raise NotEnoughHistory(
        f"{write_ids.table}: the snapshot with high watermark {write_ids.high_watermark} and smallest open "
        f"write ID {write_ids.min_open} is older than the oldest base {oldest.name}; take a new snapshot"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deltas:
    """Deltas by their write IDs alone, before larger ones hide smaller ones."""

    readable: tuple[ListedDelta, ...]
    aborted: tuple[str, ...]
    aborted_write_ids: frozenset[WriteId]
    has_uncompacted_aborts: bool
    left_out: tuple[Delta, ...]


def _sort_deltas(deltas: Iterable[ListedDelta], write_ids: ValidWriteIdList) -> _Deltas:
    readable: list[ListedDelta] = []
    aborted: list[str] = []
    aborted_ids: set[WriteId] = set()
    left_out: list[Delta] = []
    uncompacted = False
    for found in deltas:
        low, high = found.delta.min_write_id, found.delta.max_write_id
        some_aborted = write_ids.range_aborted(low, high)
        if some_aborted is RangeAnswer.ALL:
            aborted.append(found.name)
            aborted_ids.update(WriteId(w) for w in range(low, high + 1))
            continue
        uncompacted = uncompacted or some_aborted is RangeAnswer.SOME
        if write_ids.range_valid(low, high) is RangeAnswer.NONE:
            left_out.append(found.delta)
        else:
            readable.append(found)
    return _Deltas(
        readable=tuple(readable),
        aborted=tuple(aborted),
        aborted_write_ids=frozenset(aborted_ids),
        has_uncompacted_aborts=uncompacted,
        left_out=tuple(left_out),
    )


def _best_deltas(
    readable: Iterable[ListedDelta], base: Base | None, write_ids: ValidWriteIdList
) -> tuple[list[ListedDelta], list[str]]:
    """Returns the deltas to read, in order, and the names of those that larger ones hide.

    The rule is that of Hive's ``findBestWorkingDeltas``.
    """

    def order(found: ListedDelta) -> tuple[int, int, int, str, int]:
        d = found.delta
        statement = -1 if d.statement_id is None else d.statement_id
        return (d.min_write_id, -d.max_write_id, statement, d.kind.value, -d.visibility_txn_id)

    current = base.write_id if base is not None and base.write_id != ORIGINALS_ONLY else WriteId(0)
    last_statement = -1
    previous: Delta | None = None
    taken: list[ListedDelta] = []
    kinds: set[tuple[DeltaKind, int, int, int | None]] = set()
    obsolete: list[str] = []
    for found in sorted(readable, key=order):
        delta = found.delta
        key = (delta.kind, delta.min_write_id, delta.max_write_id, delta.statement_id)
        if key in kinds:
            obsolete.append(found.name)  # a second compaction's twin with a lower _v
        elif delta.max_write_id > current:
            if write_ids.range_valid(WriteId(current + 1), delta.max_write_id) is RangeAnswer.NONE:
                continue  # as in Hive, neither read nor obsolete
            taken.append(found)
            current = delta.max_write_id
            last_statement = -1 if delta.statement_id is None else delta.statement_id
            previous = delta
            kinds.add(key)
        elif delta.max_write_id == current and last_statement >= 0:
            taken.append(found)
            previous = delta
            kinds.add(key)
        elif previous is not None and key[1:] == (
            previous.min_write_id,
            previous.max_write_id,
            previous.statement_id,
        ):
            taken.append(found)
            kinds.add(key)
        else:
            obsolete.append(found.name)
    return taken, obsolete
