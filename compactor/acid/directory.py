"""Listing + snapshot -> what is read, what is obsolete, what is aborted (Hive's ``AcidUtils.getAcidState``).

Pure. The rules, in the order in which they are applied, and where we are stricter than Hive:

* A directory ``..._v<txn>`` counts only when that transaction is valid in the snapshot.
* Of two directories of one kind, range and statement only the one with the highest visible ``_v`` is read (Hive read
  both and doubled the rows: HIVE-29210).
* A compacted base never counts above the high watermark (HIVE-29601).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType

from compactor.acid.names import (
    FLUSH_LENGTH_SUFFIX,
    Base,
    BucketFile,
    Delta,
    DeltaKind,
    OriginalFile,
    is_skipped,
    is_skipped_below,
    parse_directory,
    parse_file,
)
from compactor.acid.write_ids import CleanerWriteIdList, RangeAnswer, ValidTxnList, ValidWriteIdList
from compactor.errors import BadName, NotEnoughHistory
from compactor.ids import ORIGINALS_ONLY, TxnId, WriteId

_PATH = attrgetter("path")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file below the table's or partition's directory: ``path`` relative to it, ``length`` in bytes."""

    path: str
    length: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What stands in a table's or partition's directory.

    ``files`` are all files at any depth; ``directories`` the top-level directories, also those without a file;
    ``data_formats`` gives ``dataFormat`` of each ``_metadata_acid`` by its directory's name (``compacted`` by Hive 3's
    major compaction, ``truncated``/``dropped`` by Hive 4). Skipped names may be present; they are ignored here.
    """

    files: tuple[FileStatus, ...] = ()
    directories: tuple[str, ...] = ()
    data_formats: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file with rows. ``number`` is the file number: rows and delete events meet only within one number.

    ``raw`` says that the name is that of a file without ACID columns (original, or LOAD DATA into a delta).
    ``flush_length`` is set when a streaming writer's side file limits how much of the file is meant.
    """

    path: str
    length: int
    number: int
    raw: bool = False
    has_flush_length: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDir:
    """A base or delta that is read, with its data files in path order and the bytes of all files that aren't hidden.

    ``strangers`` are files whose names say no file number (theirs is -1): some readers read them all the same.
    """

    acid: Base | Delta
    directory: str
    files: tuple[DataFile, ...]
    total_bytes: int
    raw: bool = False
    strangers: tuple[DataFile, ...] = ()

    @property
    def base(self) -> Base:
        assert isinstance(self.acid, Base)
        return self.acid

    @property
    def delta(self) -> Delta:
        assert isinstance(self.acid, Delta)
        return self.acid


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidDirectory:
    """What a snapshot reads in one directory, and what nobody reads any more.

    ``deltas`` are in reading order. ``originals`` are data files without ACID columns in path order, which gives their
    rows their synthetic ROW__IDs; one of 0 bytes, which Hive passes over as well, is only ever obsolete. ``obsolete``
    and ``aborted`` are top-level names (an original file in a sub-directory: its path) that the given snapshot does not
    need. ``left_out`` are directories that hold an open write ID, or reach above the list's high watermark.
    ``unseen`` are ``_v`` directories whose transaction is neither valid nor aborted. ``unparsable`` are names that begin
    like an ACID directory and are none: nothing is decided while there is one.
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
        """Bytes of the base, or of the originals where there is none (Hive's Initiator counts them so)."""
        return self.base.total_bytes if self.base else sum(f.length for f in self.originals)

    @property
    def delta_bytes(self) -> int:
        return sum(d.total_bytes for d in self.deltas)

    def compactable(self) -> tuple[AcidDir, ...]:
        """Deltas that a compaction may read and name its output by.

        An output's range never reaches into the range of a directory that was left out: were it a streaming delta whose
        open write IDs abort later, a range over it would hide its committed rows for ever [seen in Hive and Trino].
        """
        limit = min(
            (d.min_write_id for d in self.left_out if isinstance(d, Delta)),
            default=None,
        )
        if limit is None:
            return self.deltas
        return tuple(d for d in self.deltas if d.delta.max_write_id < limit)

    @property
    def waiting(self) -> int:
        """How many directories a compaction leaves alone: those that hold an open write ID, or lie above one."""
        return len(self.left_out) + len(self.deltas) - len(self.compactable())


def acid_directory(
    listing: Listing,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    *,
    exempt: frozenset[TxnId] = frozenset(),
) -> AcidDirectory:
    """The state of ``listing`` under a snapshot.

    Args:
        write_ids: the reader's, compactor's or cleaner's list of this table.
        txns: decides which ``_v<txn>`` directories count.
        exempt: transactions whose ``_v`` directories are treated as not there (a compaction's own, while it plans).

    Raises:
        NotEnoughHistory: the list is older than the oldest compacted base, so what it saw is gone.
    """
    found = _SortedListing.of(listing, exempt)
    aborted: list[str] = []
    aborted_ids: set[WriteId] = set()
    unseen: list[str] = []

    def visible(name: str, txn: TxnId) -> bool:
        if txn == 0 or txns.is_valid(txn):
            return True
        (aborted if txns.is_aborted(txn) else unseen).append(name)
        return False

    # -- bases
    obsolete: list[str] = []
    left_out: list[Base | Delta] = []
    best: tuple[str, Base] | None = None
    oldest: tuple[str, Base] | None = None
    for name, base in found.bases:
        if not visible(name, base.visibility_txn_id):
            continue
        compacted = base.visibility_txn_id > 0 or listing.data_formats.get(name) == "compacted"
        if oldest is None or base.write_id < oldest[1].write_id:
            oldest = (name, base)
        if not compacted and write_ids.is_aborted(base.write_id):
            aborted.append(name)
            aborted_ids.add(base.write_id)
            continue
        if best is not None and not _beats(base, best[1]):
            obsolete.append(name)
        elif _base_valid(base, compacted, write_ids):
            if best is not None:
                obsolete.append(best[0])
            best = (name, base)
        else:
            left_out.append(base)

    # -- deltas
    working: list[tuple[str, Delta]] = []
    uncompacted = False
    for name, delta in found.deltas:
        if not visible(name, delta.visibility_txn_id):
            continue
        some_aborted = write_ids.range_aborted(delta.min_write_id, delta.max_write_id)
        if some_aborted is RangeAnswer.ALL:
            aborted.append(name)
            aborted_ids.update(WriteId(w) for w in range(delta.min_write_id, delta.max_write_id + 1))
            continue
        uncompacted = uncompacted or some_aborted is RangeAnswer.SOME
        if write_ids.range_valid(delta.min_write_id, delta.max_write_id) is RangeAnswer.NONE:
            left_out.append(delta)
        else:
            working.append((name, delta))

    # A cleaner reads nothing: where a newer compaction's base is above its entry, it still judges what is below.
    if best is None and oldest is not None and not isinstance(write_ids, CleanerWriteIdList):
        name, base = oldest
        compacted = base.visibility_txn_id > 0 or listing.data_formats.get(name) == "compacted"
        if compacted:
            raise NotEnoughHistory(
                f"{write_ids.table}: the snapshot with high watermark {write_ids.high_watermark} and smallest open "
                f"write ID {write_ids.min_open} is older than the oldest base {name}; take a new snapshot"
            )

    current, hidden = _best_deltas(working, best[1] if best else None, write_ids)
    obsolete.extend(hidden)
    originals = tuple(f for f in found.originals if f.length)  # an empty bucket of a plain table is a file of 0 bytes
    if best is not None:
        obsolete.extend(f.path for f in found.originals)
        originals = ()
    return AcidDirectory(
        base=found.acid_dir(best[0], best[1]) if best else None,
        deltas=tuple(found.acid_dir(name, delta) for name, delta in current),
        originals=originals,
        obsolete=tuple(sorted(obsolete)),
        aborted=tuple(sorted(aborted)),
        aborted_write_ids=frozenset(aborted_ids),
        has_uncompacted_aborts=uncompacted,
        left_out=tuple(left_out),
        unseen=tuple(sorted(unseen)),
        unparsable=found.unparsable,
    )


def _beats(challenger: Base, best: Base) -> bool:
    """A larger number wins; of one number the compacted one, of two compacted ones the higher ``_v`` (HIVE-25777)."""
    return (challenger.write_id, challenger.visibility_txn_id) > (best.write_id, best.visibility_txn_id)


def _base_valid(base: Base, compacted: bool, write_ids: ValidWriteIdList) -> bool:
    if base.write_id == ORIGINALS_ONLY:
        return True
    if compacted:
        return write_ids.is_valid_base(base.write_id)
    return write_ids.is_valid(base.write_id)


def _best_deltas(
    working: Iterable[tuple[str, Delta]], base: Base | None, write_ids: ValidWriteIdList
) -> tuple[list[tuple[str, Delta]], list[str]]:
    """Which deltas are read, in order, and which are hidden by larger ones (Hive's ``findBestWorkingDeltas``)."""

    def order(item: tuple[str, Delta]) -> tuple[int, int, int, str, int]:
        d = item[1]
        statement = -1 if d.statement_id is None else d.statement_id
        return (d.min_write_id, -d.max_write_id, statement, d.kind.value, -d.visibility_txn_id)

    current = base.write_id if base is not None and base.write_id != ORIGINALS_ONLY else WriteId(0)
    last_statement = -1
    previous: Delta | None = None
    taken: list[tuple[str, Delta]] = []
    kinds: set[tuple[DeltaKind, int, int, int | None]] = set()
    obsolete: list[str] = []
    for name, delta in sorted(working, key=order):
        key = (delta.kind, delta.min_write_id, delta.max_write_id, delta.statement_id)
        if key in kinds:
            obsolete.append(name)  # a second compaction's twin with a lower _v
        elif delta.max_write_id > current:
            if write_ids.range_valid(WriteId(current + 1), delta.max_write_id) is RangeAnswer.NONE:
                continue  # Hive: neither read nor obsolete
            taken.append((name, delta))
            current = delta.max_write_id
            last_statement = -1 if delta.statement_id is None else delta.statement_id
            previous = delta
            kinds.add(key)
        elif delta.max_write_id == current and last_statement >= 0:
            taken.append((name, delta))
            previous = delta
            kinds.add(key)
        elif previous is not None and key[1:] == (
            previous.min_write_id,
            previous.max_write_id,
            previous.statement_id,
        ):
            taken.append((name, delta))
            kinds.add(key)
        else:
            obsolete.append(name)
    return taken, obsolete


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortedListing:
    """A listing sorted into what its names say."""

    bases: tuple[tuple[str, Base], ...]
    deltas: tuple[tuple[str, Delta], ...]
    originals: tuple[DataFile, ...]
    inside: Mapping[str, tuple[FileStatus, ...]]
    unparsable: tuple[str, ...]

    @classmethod
    def of(cls, listing: Listing, exempt: frozenset[TxnId]) -> _SortedListing:
        inside: dict[str, list[FileStatus]] = {name: [] for name in listing.directories}
        root: list[FileStatus] = []
        for file in listing.files:
            top, slash, _ = file.path.partition("/")
            if slash:
                inside.setdefault(top, []).append(file)
            else:
                root.append(file)
        bases: list[tuple[str, Base]] = []
        deltas: list[tuple[str, Delta]] = []
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
                originals += [f for f in inside[name] if not is_skipped_below(f.path)]  # ``name`` itself is not
            elif acid.visibility_txn_id in exempt and acid.visibility_txn_id:
                continue
            elif isinstance(acid, Base):
                bases.append((name, acid))
            else:
                deltas.append((name, acid))
        return cls(
            bases=tuple(bases),
            deltas=tuple(deltas),
            originals=tuple(_data_file(f) for f in sorted(originals, key=_PATH)),
            inside=MappingProxyType({name: tuple(files) for name, files in inside.items()}),
            unparsable=tuple(unparsable),
        )

    def acid_dir(self, name: str, acid: Base | Delta) -> AcidDir:
        visible = sorted((f for f in self.inside.get(name, ()) if not is_skipped_below(f.path)), key=_PATH)
        flushed = {f.path for f in visible if f.path.endswith(FLUSH_LENGTH_SUFFIX)}
        data: list[DataFile] = []
        strangers: list[DataFile] = []
        for file in visible:
            found = _data_file(file, has_flush_length=file.path + FLUSH_LENGTH_SUFFIX in flushed)
            if found.number >= 0:
                data.append(found)
            elif file.path not in flushed:
                strangers.append(found)
        return AcidDir(
            acid=acid,
            directory=name,
            files=tuple(data),
            total_bytes=sum(f.length for f in visible),
            raw=any(f.raw for f in data),
            strangers=tuple(strangers),
        )


def _data_file(file: FileStatus, *, has_flush_length: bool = False) -> DataFile:
    parsed = parse_file(file.name)
    match parsed:
        case BucketFile(number=number):
            return DataFile(path=file.path, length=file.length, number=number, has_flush_length=has_flush_length)
        case OriginalFile(number=number):
            return DataFile(path=file.path, length=file.length, number=number, raw=True)
        case None:
            return DataFile(path=file.path, length=file.length, number=-1, raw=True)
