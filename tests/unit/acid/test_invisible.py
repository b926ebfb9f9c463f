"""Invariant 1 at the level of names: whatever is written, compacted and cleaned, every snapshot reads its rows once.

A model of one table: directories with the write IDs of their rows, and readers that keep their snapshots open.
Compactions and cleanings choose what they read, name and remove by ``acid_directory`` alone. The random walks are the
same in every run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import AcidDir, FileStatus, Listing
from compactor.acid.names import Base, Delta, DeltaKind
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.cleaning import list_removable


@dataclass(frozen=True)
class Reader:
    """A transaction that is still open, and the snapshot it took."""

    txn: int
    write_ids: ValidWriteIdList
    txns: ValidTxnList


class Table:
    """Single writes, streaming batches that end bit by bit, minors, majors, lost workers, cleanings and readers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: dict[str, frozenset[int]] = {}
        self.newest = 0
        self.newest_txn = 0
        self.open: set[int] = set()
        self.aborted: set[int] = set()
        self.open_compaction: int | None = None
        self.aborted_compactions: set[int] = set()
        self.ready: list[tuple[int, int]] = []  # highest write ID, newest transaction at the commit
        self.readers: list[Reader] = []
        self.done: list[str] = []

    def step(self) -> None:
        steps = (self.write, self.write, self.stream, self.end_some, self.minor, self.major, self.lost, self.clean)
        chosen = self.random.choice((*steps, self.clean, self.read, self.close))
        self.done.append(chosen.__name__)
        chosen()

    def _txn(self) -> int:
        self.newest_txn += 1
        return self.newest_txn

    def write(self) -> None:
        self.newest += 1
        self.held[self._delta(self.newest, self.newest, statement=0)] = frozenset({self.newest})
        if self.random.random() < 0.2:
            self.aborted.add(self.newest)

    def stream(self) -> None:
        if self.open:
            return
        batch = range(self.newest + 1, self.newest + self.random.randint(3, 5))
        self.newest = batch[-1]
        self.open |= set(batch)
        self.held[self._delta(batch[0], batch[-1])] = frozenset(batch)

    def end_some(self) -> None:
        for one in sorted(self.open)[: self.random.randint(1, 4)]:
            self.open.remove(one)
            if self.random.random() < 0.4:
                self.aborted.add(one)

    def minor(self) -> None:
        self._compact(major=False)

    def major(self) -> None:
        self._compact(major=True)

    def lost(self) -> None:
        """A compaction that names its output and dies; later its transaction is aborted."""
        if self.open_compaction is not None:
            self.aborted_compactions.add(self.open_compaction)
            self.open_compaction = None
        else:
            self._compact(major=self.random.random() < 0.5, commits=False)

    def _compact(self, *, major: bool, commits: bool = True) -> None:
        """Reads by the compactor's list and names the output by what was read (PROTOCOL 1.1, 1.2), one at a time."""
        if self.open_compaction is not None:
            return
        state = acid_directory(self._listing(), self._write_ids().for_compactor(), self._txns())
        deltas = state.compactable()
        read: list[AcidDir] = [*deltas, *([state.base] if state.base and major else [])]
        if not deltas or len(read) < 2:
            return
        txn = self._txn()
        highest = max(d.delta.max_write_id for d in deltas)
        if major:
            name = Base(write_id=highest, visibility_txn_id=TxnId(txn)).name
        else:
            name = self._delta(min(d.delta.min_write_id for d in deltas), highest, txn=txn)
        self.held[name] = frozenset().union(*(self.held[d.directory] for d in read)) - self.aborted
        if commits:
            self.ready.append((highest, self.newest_txn))
        else:
            self.open_compaction = txn

    def clean(self) -> None:
        """Cleans any entry past the strict gate, including one that a later compaction has overtaken (PROTOCOL 7.1)."""
        lowest = min([r.txn for r in self.readers] + [self.open_compaction or 2**62, self.newest_txn + 1])
        free = [entry for entry in self.ready if entry[1] < lowest]
        if not free:
            return
        entry = self.random.choice(free)
        watermark = TxnId(lowest - 1)
        aborted = frozenset(TxnId(t) for t in self.aborted_compactions if t <= watermark)
        write_ids = self._write_ids().for_cleaner(WriteId(entry[0]))
        txns = ValidTxnList(high_watermark=watermark, aborted=aborted)
        for name in list_removable(acid_directory(self._listing(), write_ids, txns)):
            del self.held[name]
        self.ready.remove(entry)

    def read(self) -> None:
        txns = self._txns()
        self.readers.append(Reader(txn=self._txn(), write_ids=self._write_ids(), txns=txns))

    def close(self) -> None:
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers)))

    def check(self) -> None:
        self._check(self._write_ids(), self._txns())
        for reader in self.readers:
            self._check(reader.write_ids, reader.txns)

    def _check(self, write_ids: ValidWriteIdList, txns: ValidTxnList) -> None:
        state = acid_directory(self._listing(), write_ids, txns)
        seen = sorted(w for d in _read(state) for w in self.held[d.directory] if write_ids.is_valid(WriteId(w)))
        valid = [w for w in range(1, write_ids.high_watermark + 1) if write_ids.is_valid(WriteId(w))]
        assert seen == valid, f"{write_ids} {txns}: {self.done}"

    def _write_ids(self) -> ValidWriteIdList:
        return ValidWriteIdList(
            table="db.t",
            high_watermark=WriteId(self.newest),
            open=frozenset(map(WriteId, self.open)),
            aborted=frozenset(map(WriteId, self.aborted)),
        )

    def _txns(self) -> ValidTxnList:
        compaction = frozenset() if self.open_compaction is None else frozenset({TxnId(self.open_compaction)})
        return ValidTxnList(
            high_watermark=TxnId(self.newest_txn),
            open=compaction,
            aborted=frozenset(map(TxnId, self.aborted_compactions)),
        )

    def _listing(self) -> Listing:
        return Listing(files=tuple(FileStatus(path=f"{name}/bucket_00000", length=1) for name in self.held))

    def _delta(self, low: int, high: int, *, statement: int | None = None, txn: int = 0) -> str:
        return Delta(
            kind=DeltaKind.INSERT,
            min_write_id=WriteId(low),
            max_write_id=WriteId(high),
            statement_id=statement,
            visibility_txn_id=TxnId(txn),
        ).name


def _read(state: AcidDirectory) -> list[AcidDir]:
    return [*([state.base] if state.base else []), *state.deltas]


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_no_snapshot_ever_changes(start: int) -> None:
    """DESIGN 8.1, 8.2; PROTOCOL 1.1, 1.2, 7.1."""
    compacted = cleaned = 0
    for seed in range(start, start + 100):
        table = Table(seed)
        for _ in range(30):
            table.step()
            table.check()
        compacted += table.done.count("minor") + table.done.count("major")
        cleaned += table.done.count("clean")
    assert compacted > 300
    assert cleaned > 300
