"""Versions of a table, and whether its directories still prove the rows of one (PROTOCOL 16).

A version is a write ID below which every write has ended. The rows of a version are those that the committed writes up to it
left. Only directories that the present snapshot reads are used as evidence: a cleaner may have removed a part of all others.

Example: of ``base_10_v40``, ``delta_11_14_v44`` and ``delta_15_15_0000`` the versions 10, 14 and 15 are proved. Rows that
version 9 showed may be missing from the base. Rows that version 12 showed may be missing from the minor's delta, if a write
up to 14 deleted them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from compactor.acid.directory import AcidDirectory
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import ChangesGone, Refused, SnapshotExpired
from compactor.base.ids import ORIGINALS_ONLY, WriteId
from compactor.metastore.catalog.values import Table
from compactor.tables.transactions.transaction import Transaction


def parse_version(version: int) -> WriteId:
    """Returns a version that a program has given.

    Raises:
        Refused: it is not a whole number.
    """
    try:
        return WriteId(operator.index(version))
    except TypeError:
        raise Refused(f"version {version!r} is not available: expected a whole number, as version() returns") from None


def find_version(write_ids: ValidWriteIdList, own: WriteId | None = None) -> WriteId:
    """Returns the current version: the highest write ID with no open write at or below it.

    So a write that commits late belongs to a later version than all that anybody has seen.

    Args:
        own: the write ID of the reader's transaction, which the list admits.
    """
    unfinished = [*write_ids.open, *(() if own is None else (own,))]
    return min(write_ids.high_watermark, WriteId(min(unfinished, default=write_ids.high_watermark + 1) - 1))


def current_version(txn: Transaction, table: Table) -> WriteId:
    """Returns the current version of ``table`` in the snapshot of ``txn``, without its own writes."""
    name = (table.database.lower(), table.name.lower())
    allocated = txn.site.metastore.write_ids.allocated_to(txn.id)
    own = next((write_id for *place, write_id in allocated if tuple(place) == name), None)
    return find_version(txn.write_ids(table), own)


def write_ids_up_to(write_ids: ValidWriteIdList, version: WriteId) -> ValidWriteIdList:
    """Returns the list of ``version``, at or below which nothing is open in ``write_ids``."""
    aborted = frozenset(write_id for write_id in write_ids.aborted if write_id <= version)
    return ValidWriteIdList(table=write_ids.table, high_watermark=version, aborted=aborted)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """The versions that a reader asks for.

    Without ``since`` it reads the rows of version ``until``, else the changes after ``since``, up to ``until``. None stands
    for the current version. With ``is_net``, rows that were inserted and deleted within the range may be missing.
    """

    since: WriteId | None = None
    until: WriteId | None = None
    is_net: bool = False

    def with_end(self, txn: Transaction, table: Table) -> VersionRange:
        """Returns the range with its end, once the snapshot of ``txn`` is fixed.

        Raises:
            Refused: a version does not exist, or is not final; or the range ends before it begins.
        """
        current = current_version(txn, table)
        until = current if self.until is None else self.until
        for version in (until, *(() if self.since is None else (self.since,))):
            if not 0 <= version <= current:
                raise Refused(f"{table}: version {version} is not available: {_explain(txn, table, current)}")
        if self.since is not None and until < self.since:
            raise Refused(
                f"{table}: the changes since version {self.since} cannot end with version {until}; expected an ending "
                f"version from {self.since} to {current}"
            )
        return replace(self, until=until)

    def must_be_whole(
        self, table: Table, directories: Iterable[tuple[str, AcidDirectory]], write_ids: ValidWriteIdList
    ) -> None:
        """Checks that ``directories``, by location, prove every row and change of the range.

        Args:
            write_ids: the list of the reader's snapshot.

        Raises:
            SnapshotExpired: rows of the version may be missing.
            ChangesGone: changes of the range may be missing.
        """
        assert self.until is not None
        merged = [item for location, directory in directories for item in _merged(location, directory)]
        if self.since is None:
            if (at := _find(merged, self.until)) is not None:
                first = first_proved(merged, self.until)
                raise SnapshotExpired(
                    f"{table}: version {self.until} can no longer be read: {at.explain()}; the oldest version "
                    f"after it that can be read is {first}{_after_open(write_ids, first)}"
                )
            return
        # rows that came and went within a merged range have left no trace, which only a net feed does not miss
        gone = merged if self.is_net else [item if item.is_base else replace(item, first=WriteId(0)) for item in merged]
        lost = [item for item, range_ in zip(gone, merged, strict=True) if item.is_base or range_.first <= self.until]
        if (at := _find(lost, self.since)) is not None:
            first = first_proved(gone, self.since)
            raise ChangesGone(
                f"{table}: the changes since version {self.since} are no longer complete: {at.explain()}; they are complete "
                f"since version {first}: read the table as of version {first}{_after_open(write_ids, first)}, and continue "
                "from there",
                first,
            )
        if (at := _find(merged, self.until)) is not None:
            first = first_proved(merged, self.until)
            raise ChangesGone(
                f"{table}: the changes up to version {self.until} are no longer complete: {at.explain()}; let them end with "
                f"version {first}{_after_open(write_ids, first)}",
                first,
            )


def _after_open(write_ids: ValidWriteIdList, version: WriteId) -> str:
    """Returns when ``version`` becomes final; nothing if it is."""
    if write_ids.min_open is None or write_ids.min_open > version:
        return ""
    return f", once write {write_ids.min_open} has ended"


def _explain(txn: Transaction, table: Table, current: WriteId) -> str:
    write_ids = txn.write_ids(table)
    if current == write_ids.high_watermark:
        return f"expected a version from 0 to {current}, the current one"
    return (
        f"expected a version from 0 to {current}, the current one; write {current + 1} has not ended yet, and the table's "
        f"last write ID is {write_ids.high_watermark}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedVersions:
    """Versions ``first..last`` of which ``name`` in ``location`` may have lost rows or delete events."""

    first: WriteId
    last: WriteId
    location: str
    name: str
    is_base: bool

    def explain(self) -> str:
        """Returns what became of the directories that showed these versions."""
        return f"{self.location}/{self.name} has {'replaced' if self.is_base else 'merged'} what showed it"


def _merged(location: str, directory: AcidDirectory) -> Iterator[MergedVersions]:
    base = directory.base
    if base is not None and base.base.write_id != ORIGINALS_ONLY:
        last = WriteId(base.base.write_id - 1)
        yield MergedVersions(first=WriteId(0), last=last, location=location, name=base.directory, is_base=True)
    for delta in directory.deltas:
        low, high = delta.delta.min_write_id, delta.delta.max_write_id
        if low < high:
            yield MergedVersions(
                first=low, last=WriteId(high - 1), location=location, name=delta.directory, is_base=False
            )


def _find(merged: Iterable[MergedVersions], version: WriteId) -> MergedVersions | None:
    return next((item for item in merged if item.first <= version <= item.last), None)


def first_proved(merged: Iterable[MergedVersions], version: WriteId) -> WriteId:
    """Returns the first version from ``version`` on that is in none of the ranges."""
    for item in sorted(merged, key=lambda item: item.first):
        if item.first <= version <= item.last:
            version = WriteId(item.last + 1)
    return version
