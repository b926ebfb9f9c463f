"""Snapshots: the transactions and write IDs that a reader, a compactor or a cleaner may see.

Text forms and meanings are those of Hive's ``ValidReadTxnList``, ``ValidReaderWriteIdList``,
``ValidCompactorWriteIdList`` and ``ValidCleanerWriteIdList``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from compactor.base.ids import NOTHING_OPEN, TxnId, WriteId


class RangeAnswer(enum.Enum):
    """The part of a range of ids that an answer applies to."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class ValidTxnList:
    """The transactions that a snapshot sees: all up to ``high_watermark`` except open and aborted ones."""

    high_watermark: TxnId
    open: frozenset[TxnId] = frozenset()
    aborted: frozenset[TxnId] = frozenset()

    @property
    def min_open(self) -> TxnId | None:
        return min(self.open, default=None)

    def is_valid(self, txn: TxnId) -> bool:
        return txn <= self.high_watermark and txn not in self.open and txn not in self.aborted

    def is_aborted(self, txn: TxnId) -> bool:
        return txn <= self.high_watermark and txn in self.aborted

    def __str__(self) -> str:
        """``<high watermark>:<smallest open>:<open>:<aborted>``; runs of five or more ids as ``a-b`` (Hive 4)."""
        return ":".join(
            (
                str(self.high_watermark),
                str(NOTHING_OPEN if self.min_open is None else self.min_open),
                _runs(self.open),
                _runs(self.aborted),
            )
        )

    @classmethod
    def parse(cls, text: str) -> ValidTxnList:
        """Parses Hive's text; an empty text is the list in which everything is valid.

        Raises:
            ValueError: ``text`` is not of Hive's form.
        """
        if not text:
            return cls(high_watermark=TxnId(NOTHING_OPEN))
        parts = text.split(":")
        if not 1 <= len(parts) <= 4:
            raise ValueError(f"transaction list {text!r}: expected <high watermark>:<min open>:<open>:<aborted>")
        parts += [""] * (4 - len(parts))
        return cls(
            high_watermark=TxnId(int(parts[0])),
            open=frozenset(map(TxnId, _ids(parts[2]))),
            aborted=frozenset(map(TxnId, _ids(parts[3]))),
        )


@dataclass(frozen=True, kw_only=True)
class ValidWriteIdList:
    """The write IDs of one ``table`` (``db.table``) that a reader sees.

    Write IDs without a row in TXNS count as committed.
    """

    table: str | None
    high_watermark: WriteId
    open: frozenset[WriteId] = frozenset()
    aborted: frozenset[WriteId] = field(default=frozenset())

    @property
    def min_open(self) -> WriteId | None:
        return min(self.open, default=None)

    @cached_property
    def _exceptions(self) -> tuple[WriteId, ...]:
        return tuple(sorted(w for w in self.open | self.aborted if w <= self.high_watermark))

    def is_valid(self, write_id: WriteId) -> bool:
        return write_id <= self.high_watermark and write_id not in self.open and write_id not in self.aborted

    def is_aborted(self, write_id: WriteId) -> bool:
        return write_id <= self.high_watermark and write_id in self.aborted

    def is_valid_base(self, write_id: WriteId) -> bool:
        """Returns true if a compacted base of this number holds only what this list admits.

        The base must also be at or below the high watermark, which Hive's shortcut for ``write_id <= min open`` forgets
        (HIVE-29601).
        """
        return write_id <= self.high_watermark and (self.min_open is None or write_id < self.min_open)

    def range_valid(self, low: WriteId, high: WriteId) -> RangeAnswer:
        """Returns whether none, some or all of ``low..high``, both inclusive, are valid."""
        if low > self.high_watermark:
            return RangeAnswer.NONE
        count = self._count(low, high)
        if count == high - low + 1:
            return RangeAnswer.ALL
        return RangeAnswer.NONE if count <= 0 else RangeAnswer.SOME

    def _count(self, low: WriteId, high: WriteId) -> int:
        """Returns how many of ``low..high``, both inclusive, are valid."""
        return min(high, self.high_watermark) - low + 1 - sum(1 for w in self._exceptions if low <= w <= high)

    def range_aborted(self, low: WriteId, high: WriteId) -> RangeAnswer:
        """Returns whether none, some or all of ``low..high``, both inclusive, are aborted."""
        if not self.aborted:
            return RangeAnswer.NONE
        count = sum(1 for w in self.aborted if low <= w <= high and w <= self.high_watermark)
        if count == 0:
            return RangeAnswer.NONE
        return RangeAnswer.ALL if count == high - low + 1 else RangeAnswer.SOME

    def committed_since(self, earlier: ValidWriteIdList) -> list[WriteId]:
        """Returns the write IDs that this list sees and an older list of the same table did not, in order.

        One that was aborted stays so, even when its transaction has been forgotten.
        """
        new = range(earlier.high_watermark + 1, self.high_watermark + 1)
        return sorted(w for w in (*earlier.open, *map(WriteId, new)) if self.is_valid(w))

    def since(self, earlier: ValidWriteIdList) -> LaterWriteIdList:
        """Returns what this list sees and ``earlier``, an older list of the same table, did not."""
        return LaterWriteIdList(
            table=self.table,
            high_watermark=self.high_watermark,
            open=self.open,
            aborted=self.aborted,
            earlier=earlier,
        )

    def for_compactor(self) -> CompactorWriteIdList:
        """Returns the list of a compaction: nothing from the lowest open write ID on, and nothing aborted."""
        watermark = self.high_watermark if self.min_open is None else WriteId(self.min_open - 1)
        watermark = min(watermark, self.high_watermark)
        return CompactorWriteIdList(
            table=self.table,
            high_watermark=watermark,
            aborted=frozenset(w for w in self.aborted if w <= watermark),
        )

    def for_cleaner(self, highest: WriteId) -> CleanerWriteIdList:
        """Returns the list under which a cleaner judges one entry: nothing above what that entry compacted."""
        return CleanerWriteIdList(
            table=self.table,
            high_watermark=min(self.high_watermark, highest),
            open=self.open,
            aborted=self.aborted,
        )

    def __str__(self) -> str:
        """``<db.table>:<high watermark>:<smallest open>:<open>:<aborted>``, never with runs."""
        return ":".join(
            (
                self.table or "null",
                str(self.high_watermark),
                str(NOTHING_OPEN if self.min_open is None else self.min_open),
                ",".join(map(str, sorted(self.open))),
                ",".join(map(str, sorted(self.aborted))),
            )
        )

    @classmethod
    def parse(cls, text: str) -> ValidWriteIdList:
        """Parses Hive's text; an empty text is the list in which everything is valid.

        Raises:
            ValueError: ``text`` is not of Hive's form.
        """
        if not text:
            return cls(table=None, high_watermark=WriteId(NOTHING_OPEN))
        parts = text.split(":")
        if not 2 <= len(parts) <= 5:
            raise ValueError(f"write-id list {text!r}: expected <table>:<high watermark>:<min open>:<open>:<aborted>")
        parts += [""] * (5 - len(parts))
        return cls(
            table=None if parts[0] == "null" else parts[0],
            high_watermark=WriteId(int(parts[1])),
            open=frozenset(map(WriteId, _ids(parts[3]))),
            aborted=frozenset(map(WriteId, _ids(parts[4]))),
        )


@dataclass(frozen=True, kw_only=True)
class LaterWriteIdList(ValidWriteIdList):
    """A reader's list without the write IDs that ``earlier`` sees.

    It tells which rows have come since. It is not a snapshot, so no base or delta is chosen by it.
    """

    earlier: ValidWriteIdList

    def is_valid(self, write_id: WriteId) -> bool:
        return super().is_valid(write_id) and not self.earlier.is_valid(write_id)

    @cached_property
    def _known(self) -> ValidWriteIdList:
        """The write IDs that both lists see."""
        return ValidWriteIdList(
            table=self.table,
            high_watermark=min(self.high_watermark, self.earlier.high_watermark),
            open=self.open | self.earlier.open,
            aborted=self.aborted | self.earlier.aborted,
        )

    def _count(self, low: WriteId, high: WriteId) -> int:
        return super()._count(low, high) - max(0, self._known._count(low, high))


@dataclass(frozen=True, kw_only=True)
class CompactorWriteIdList(ValidWriteIdList):
    """A compactor's list: a directory counts only if all of it is at or below the high watermark."""

    def range_valid(self, low: WriteId, high: WriteId) -> RangeAnswer:
        return RangeAnswer.ALL if high <= self.high_watermark else RangeAnswer.NONE


@dataclass(frozen=True, kw_only=True)
class CleanerWriteIdList(ValidWriteIdList):
    """A reader's list, except that a directory reaching above the high watermark is left to other entries."""

    def range_valid(self, low: WriteId, high: WriteId) -> RangeAnswer:
        if high > self.high_watermark:
            return RangeAnswer.NONE
        return super().range_valid(low, high)


def _ids(text: str) -> list[int]:
    ids: list[int] = []
    for part in text.split(","):
        if not part:
            continue
        low, dash, high = part.partition("-")
        ids.extend(range(int(low), int(high) + 1) if dash else [int(low)])
    return ids


def _runs(ids: Iterable[int]) -> str:
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(ids), None]:
        if run and (number is None or number != run[-1] + 1):
            parts.extend([f"{run[0]}-{run[-1]}"] if len(run) >= 5 else map(str, run))
            run = []
        if number is not None:
            run.append(number)
    return ",".join(parts)
