"""Proves that hiding a compaction's output loses no row (PROTOCOL 11.5).

The state in TXNS proves little. A restored database may call a compaction aborted although it committed, and the cleaner
may have removed its inputs since. So an output is hidden only if the files prove that its rows are elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing, SortedListing
from compactor.acid.names import Base, Delta, DeltaKind, known_directory, parse_directory, parse_staging
from compactor.base.errors import CompactorError, Disagreement, failing_alone
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.publish.stage import MANIFEST, read_manifest
from compactor.rows.acid_file import open_files, stripe_keys
from compactor.rows.inputs import Input, inputs_of_directory, inputs_of_originals
from compactor.rows.keys import Numbers
from compactor.storage.protocol import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedOutput:
    """A named directory of a compaction that did not commit."""

    name: str
    txn: TxnId

    @property
    def acid(self) -> Base | Delta:
        acid = parse_directory(self.name)
        assert acid is not None
        return acid

    @property
    def highest_write_id(self) -> WriteId:
        return self.acid.highest_write_id


class Evidence:
    """Evidence from the files of one location, read as needed.

    Args:
        uncounted: names in ``listing`` that prove nothing: the outputs in question, and outputs of other transactions
            that did not commit.
        base: write ID of the base that readers use now, or None. It is not one of ``uncounted``.
    """

    def __init__(
        self, storage: Storage, location: str, listing: Listing, *, uncounted: Collection[str], base: WriteId | None
    ) -> None:
        self._storage = storage
        self._location = location
        self._listing = listing
        self._uncounted = frozenset(uncounted)
        self._base = base

    def must_cover(self, name: str, txn: TxnId, *, rebalances: bool = False) -> None:
        """Checks that no row is lost with the directory ``name``, an output of transaction ``txn``.

        Args:
            rebalances: the compaction changed ROW__IDs.

        Raises:
            Disagreement: there is no proof, so nothing may be hidden.
        """
        output = NamedOutput(name=name, txn=txn)
        if rebalances and (later := self._find_later(output)):
            raise self._doubt(output, f"{later} may delete rows by the ROW__IDs that it gave")
        if self._has_its_inputs(output) or self._base_covers(output) or self._rows_are_elsewhere(output):
            return
        raise self._doubt(output, "no other file is proved to hold its rows")

    def _doubt(self, output: NamedOutput, because: str) -> Disagreement:
        return Disagreement(
            f"{self._location}/{output.name}: the metastore says that compaction transaction {output.txn} did not commit, "
            f"and {because}; it may be the only copy, as after a restore of the metastore from a backup. Nothing was "
            "hidden or removed; stop Hive's own cleaner, compare the database with the files, and put right what is wrong"
        )

    def _find_later(self, output: NamedOutput) -> str | None:
        for name in self._listing.directories:
            if name in self._uncounted:
                continue
            acid = known_directory(name)
            if acid is not None and acid.highest_write_id > output.highest_write_id:
                return name
        return None

    def _has_its_inputs(self, output: NamedOutput) -> bool:
        """Returns true if the output's manifest exists and every input that it lists has the listed length."""
        own = [name for name in self._storage.children(self._location) if parse_staging(name) == output.txn]
        return any(self._manifest_agrees(output, f"{self._location}/{name}/{MANIFEST}") for name in own)

    def _manifest_agrees(self, output: NamedOutput, path: str) -> bool:
        manifest = read_manifest(self._storage, path)
        if manifest is None or output.name not in manifest.outputs or not manifest.inputs:
            return False
        lengths = self._listing.lengths
        return all(lengths.get(path) == length for path, length in manifest.inputs.items())

    def _base_covers(self, output: NamedOutput) -> bool:
        """Returns true if the base that readers use holds or replaces everything in the output's range."""
        return self._base is not None and self._base >= output.highest_write_id

    def _rows_are_elsewhere(self, output: NamedOutput) -> bool:
        """Returns true if directories that stay have as many rows and delete events for every write ID.

        Rows that the output left out must be deleted there too, because they would come back when delete deltas are
        removed. Statements of one transaction are added up, since they share no row. Outputs of compactions may repeat
        rows, so they are not added up.
        """
        try:
            with failing_alone(f"{self._location}/{output.name}"):
                needed, others = self._count_directory(output.name, output.acid), self._others
        except CompactorError:  # a file that cannot be read proves nothing
            return False
        deleted = sum((other.deleted for other in others), Counter[int]())
        events = all(any(other.events[w] >= n for other in others) for w, n in needed.events.items())
        return events and all(
            any(0 <= other.rows[w] - n <= deleted[w] for other in others) for w, n in needed.rows.items()
        )

    @cached_property
    def _others(self) -> tuple[_Counts, ...]:
        counts: dict[str, _Counts] = {}
        for name in self._listing.directories:
            acid = known_directory(name)
            if acid is not None and name not in self._uncounted:
                key = _by_transaction(name, acid)
                counts[key] = counts.get(key, _Counts()) + self._count_directory(name, acid)
        originals = inputs_of_originals(AcidDirectory(originals=self._sorted.originals))
        return (*counts.values(), self._count(DeltaKind.INSERT, originals))

    @cached_property
    def _sorted(self) -> SortedListing:
        return SortedListing.from_listing(self._listing, frozenset())

    def _count_directory(self, name: str, acid: Base | Delta) -> _Counts:
        kind = acid.kind if isinstance(acid, Delta) else DeltaKind.INSERT
        return self._count(kind, inputs_of_directory(self._sorted.acid_dir(name, acid)))

    def _count(self, kind: DeltaKind, inputs: Iterable[tuple[int, Input]]) -> _Counts:
        counts = _Counts()
        for number, source in inputs:
            with open_files(self._location, [source], number, self._storage) as files:
                for batch in (
                    batch for file in files for at in range(len(file.tail.stripes)) for batch in stripe_keys(file, at)
                ):
                    if kind is DeltaKind.INSERT:
                        counts += _Counts(rows=_count_of(batch.block["write_id"]))
                    else:
                        counts += _Counts(events=_count_of(batch.current), deleted=_count_of(batch.block["write_id"]))
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Rows by their inserting write ID.

    Delete events by their own write ID, and by that of the deleted row.
    """

    rows: Counter[int] = field(default_factory=Counter)
    events: Counter[int] = field(default_factory=Counter)
    deleted: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: _Counts) -> _Counts:
        return _Counts(
            rows=self.rows + other.rows, events=self.events + other.events, deleted=self.deleted + other.deleted
        )


def _count_of(write_ids: Numbers) -> Counter[int]:
    values, counts = np.unique(write_ids, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _by_transaction(name: str, acid: Base | Delta) -> str:
    """Returns a key that only directories of one transaction's statements share."""
    if isinstance(acid, Base) or acid.visibility_txn_id or acid.min_write_id != acid.max_write_id:
        return name
    return f"{acid.kind.name} {acid.min_write_id}"
