"""Rows that a snapshot shows of a directory, and the result of compacting it: one row after another, nothing clever.

Written from Hive's rules; nothing of the product is used. A directory is a dictionary of what its names say.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.model.files import DELETE, INSERT, Event, Key, Row, canonical, read_file

_DIRECTORY = re.compile(
    r"(?:base_(?P<base>-?\d+)|(?P<kind>delta|delete_delta)_(?P<low>\d+)_(?P<high>\d+)(?:_(?P<statement>\d+))?)(?:_v(?P<txn>\d+))?"
)
_FILE = re.compile(r"bucket_(?P<bucket>\d+)(?:_\d+)?|(?P<raw>\d+)_\d+(?:_copy_\d+)?")
_ORIGINALS = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Transactions and write IDs up to a watermark, but for the open and the aborted ones; from Hive's texts."""

    txn_watermark: int
    txns_not: frozenset[int]
    watermark: int
    open: frozenset[int]
    aborted: frozenset[int]

    @classmethod
    def of(cls, txns: str, write_ids: str) -> Snapshot:
        watermark, _, opened, aborted = txns.split(":")
        _, ids_watermark, _, ids_open, ids_aborted = write_ids.split(":")
        return cls(
            txn_watermark=int(watermark),
            txns_not=_ids(opened) | _ids(aborted),
            watermark=int(ids_watermark),
            open=_ids(ids_open),
            aborted=_ids(ids_aborted),
        )

    def sees(self, write_id: int) -> bool:
        return write_id <= self.watermark and write_id not in self.open and write_id not in self.aborted

    def shows(self, directory: Directory) -> bool:
        """Tells if a compaction's directory counts: its transaction is committed here."""
        return directory.txn == 0 or (directory.txn <= self.txn_watermark and directory.txn not in self.txns_not)

    def for_compaction(self) -> Snapshot:
        """Nothing at or above the lowest open write ID."""
        below = min(self.open, default=self.watermark + 1) - 1
        return Snapshot(
            txn_watermark=self.txn_watermark,
            txns_not=self.txns_not,
            watermark=min(below, self.watermark),
            open=frozenset(),
            aborted=frozenset(w for w in self.aborted if w <= below),
        )


def _ids(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """The parsed name of a base, delta or delete delta."""

    path: Path
    kind: str
    low: int
    high: int
    statement: int | None
    txn: int


def directories(location: Path) -> list[Directory]:
    """Every ACID directory of a table's directory."""
    found = []
    for path in sorted(location.iterdir()):
        match = _DIRECTORY.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        base = match["base"]
        found.append(
            Directory(
                path=path,
                kind="base" if base else match["kind"],
                low=int(base or match["low"]),
                high=int(base or match["high"]),
                statement=int(match["statement"]) if match["statement"] else None,
                txn=int(match["txn"] or 0),
            )
        )
    return found


def chosen(location: Path, snapshot: Snapshot) -> tuple[Directory | None, list[Directory]]:
    """The base, and the deltas and delete deltas, that a reader with this snapshot reads."""
    everything = [d for d in directories(location) if snapshot.shows(d)]
    bases = [d for d in everything if d.kind == "base" and _usable(d, snapshot)]
    base = max(bases, key=lambda d: (d.high, d.txn), default=None)
    above = base.high if base else 0
    deltas = [
        d
        for d in everything
        if d.kind != "base"
        and d.high > above
        and any(snapshot.sees(w) for w in range(max(d.low, above + 1), d.high + 1))
    ]
    return base, [d for d in deltas if not any(_hides(other, d) for other in deltas)]


def _usable(base: Directory, snapshot: Snapshot) -> bool:
    if base.high == _ORIGINALS:
        return True
    if base.txn == 0:  # INSERT OVERWRITE and TRUNCATE
        return snapshot.sees(base.high)
    return base.high <= snapshot.watermark and all(base.high < w for w in snapshot.open)


def _hides(larger: Directory, smaller: Directory) -> bool:
    """Returns true if one range hides the other. A range hides every smaller range of both kinds; of one range and kind the
    newer compaction hides the older, and what is merged hides the statements that it was merged from.
    """
    a, b = (larger.low, larger.high), (smaller.low, smaller.high)
    if a == b:
        merged = larger.statement is None and larger.txn > 0
        if merged and smaller.statement is not None:
            return True
        return merged and smaller.statement is None and larger.kind == smaller.kind and larger.txn > smaller.txn
    return a[0] <= b[0] and b[1] <= a[1]


def _data_files(directory: Path) -> list[tuple[int, Path]]:
    """File number and path of each data file, in path order."""
    found = []
    for path in sorted(directory.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match is not None and path.is_file():
            found.append((int(match["bucket"] or match["raw"]), path))
    return found


@lru_cache(maxsize=2000)
def _content(path: Path, length: int | None, _identity: tuple[int, int]) -> tuple[bool, list[Event] | list[Row]]:
    return read_file(path, length)


def _events(directory: Path, low: int, high: int, statement: int, txn: int) -> Iterator[tuple[int, Event]]:
    """File number and event of each line of a directory; raw rows get the keys that readers give them."""
    raw_rows: defaultdict[int, int] = defaultdict(int)
    for number, path in _data_files(directory):
        side = path.with_name(path.name + "_flush_length")
        length = None
        if low != high and txn == 0 and side.exists():
            (length,) = struct.unpack(">q", side.read_bytes()[-8:])
        status = path.stat()
        is_acid, lines = _content(path, length, (status.st_ino, status.st_mtime_ns))
        for line in lines:
            if is_acid:
                assert isinstance(line, Event)
                yield number, line
            else:
                key = (low, 1 << 29 | number << 16 | statement, raw_rows[number])
                raw_rows[number] += 1
                assert isinstance(line, tuple)
                yield number, Event(operation=INSERT, key=key, current=low, row=line)


def _of(directory: Directory) -> Iterator[tuple[int, Event]]:
    yield from _events(directory.path, directory.low, directory.high, directory.statement or 0, directory.txn)


def _inputs(location: Path, base: Directory | None, deltas: Sequence[Directory]) -> list[tuple[int, Event]]:
    found = list(_of(base)) if base else list(_events(location, 0, 0, 0, 0))
    for delta in deltas:
        found += _of(delta)
    return found


def read_rows(location: Path, snapshot: Snapshot, columns: Sequence[str]) -> list[tuple[Key, Row]]:
    """Every row that the snapshot shows, with its ROW__ID, sorted by it."""
    found = [
        (event.key, canonical(event.row or (), columns))
        for _, event in _survivors(_inputs(location, *chosen(location, snapshot)), snapshot)
    ]
    return sorted(found, key=repr)


def _survivors(events: Sequence[tuple[int, Event]], snapshot: Snapshot) -> Iterator[tuple[int, Event]]:
    """Visible rows without a visible delete event in a file of the same number."""
    gone = {(number, e.key) for number, e in events if e.operation == DELETE and snapshot.sees(e.current)}
    for number, event in events:
        if event.operation != DELETE and snapshot.sees(event.current) and (number, event.key) not in gone:
            yield number, event


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Name of a directory without its visibility -> file number -> events in key order."""

    directories: dict[str, dict[int, list[Event]]]


def compacted(location: Path, snapshot: Snapshot, *, major: bool, within: tuple[int, int] | None = None) -> Compacted:
    """The rows that a compaction under this reader's snapshot has to write; ``within`` a range of write IDs alone."""
    view = snapshot.for_compaction()
    base, deltas = chosen(location, view)
    # never into a range that holds an open write ID
    all_deltas = [d for d in directories(location) if d.kind != "base" and snapshot.shows(d)]
    not_yet = [d.low for d in all_deltas if d.high > view.watermark and not _aborted(d, view)]
    read = [d for d in deltas if d.high <= view.watermark and d.high < min(not_yet, default=2**63)]
    if within is not None:
        read = [d for d in read if within[0] <= d.low and d.high <= within[1]]
    low = min((d.low for d in read), default=_ORIGINALS)
    high = max([d.high for d in read] + ([base.high] if base and major else []), default=_ORIGINALS)
    if major:
        events = list(_survivors(_inputs(location, base, read), view))
        name = f"base_{high:07d}" if high != _ORIGINALS else f"base_{high}"
        return Compacted(directories={name: _by_number(events) or {}})
    found = [item for delta in read for item in _of(delta)]
    survivors = _by_number(list(_survivors(found, view)))
    kept = _by_number([(n, e) for n, e in found if e.operation == DELETE and view.sees(e.current) and e.key[0] < low])
    result = {f"delta_{low:07d}_{high:07d}": survivors, f"delete_delta_{low:07d}_{high:07d}": kept}
    return Compacted(
        directories={name: files for name, files in result.items() if files} or {f"delta_{low:07d}_{high:07d}": {}}
    )


def _aborted(delta: Directory, view: Snapshot) -> bool:
    return all(w in view.aborted for w in range(delta.low, delta.high + 1))


def _by_number(events: Sequence[tuple[int, Event]]) -> dict[int, list[Event]]:
    found: defaultdict[int, list[Event]] = defaultdict(list)
    for number, event in events:
        found[number].append(event)
    return {number: sorted(part, key=lambda e: (e.key, e.current)) for number, part in found.items()}


def written(directory: Path) -> dict[int, list[Event]]:
    """The rows of a directory, file number by file number, in file order."""
    found: dict[int, list[Event]] = {}
    for number, path in _data_files(directory):
        is_acid, lines = read_file(path)
        assert is_acid, path
        if lines:
            found[number] = lines
    return found
