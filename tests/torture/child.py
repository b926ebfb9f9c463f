"""The process that works on damaged files and may die of it: ``python -m tests.torture.child <folder> <seed>...``.

Prints one line of JSON at each step, so that the parent knows what was going on when it died.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
from pyorc.converters import ORCConverter

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import CompactorError
from compactor.base.ids import TxnId, WriteId
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource
from compactor.rewrite.plan.plan import PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import stage
from compactor.storage.local import LocalStorage
from demo.snapshot_reader import read_snapshot
from tests.support.units import run_units
from tests.torture import victims
from tests.torture.mutations import mutate

LIMIT = 2 << 30  #: bytes that a damaged file may cost
WRITE_IDS = ValidWriteIdList(table="default.t", high_watermark=WriteId(10))
TXNS = ValidTxnList(high_watermark=TxnId(10))
ROWS, MORE, DELETES = "delta_0000001_0000003", "delta_0000004_0000004_0000", "delete_delta_0000005_0000005_0000"


class _Moment(ORCConverter):  # type: ignore[misc]
    """A timestamp as nanoseconds: decoders split a damaged one differently."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> int:
        return seconds * 10**9 + nanoseconds

    @staticmethod
    def to_orc(value: int, timezone: Any) -> Any:
        raise AssertionError("nothing is written")


class _Days(ORCConverter):  # type: ignore[misc]
    """A date as the 32 bits of days that every reader makes of it, however many a damaged stream holds."""

    @staticmethod
    def from_orc(days: int) -> int:
        return (days + 2**31) % 2**32 - 2**31

    @staticmethod
    def to_orc(days: int) -> int:
        raise AssertionError("nothing is written")


class _Raw(ORCConverter):  # type: ignore[misc]
    @staticmethod
    def from_orc(value: Any) -> Any:
        return value

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise AssertionError("nothing is written")


_RAW = {
    pyorc.TypeKind.TIMESTAMP: _Moment,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Moment,
    pyorc.TypeKind.DATE: _Days,
    pyorc.TypeKind.DECIMAL: _Raw,
}

Events = list[tuple[Any, ...]]


def by_pyorc(path: Path, *, keys_only: bool = False) -> Events:
    """All events of a file; of delete events nothing but the keys is ever read."""
    with path.open("rb") as file:
        columns = {"column_indices": [0, 1, 2, 3, 4]} if keys_only else {}
        return [(*event[:5], repr(event[5:])) for event in pyorc.Reader(file, converters=_RAW, **columns)]


def by_arrow(path: Path, *, keys_only: bool = False) -> Events:
    """The same by another release of the ORC library with decompressors of its own."""
    file = po.ORCFile(path)
    table = file.read(columns=file.schema.names[:5] if keys_only else None)
    columns = [column.to_pylist() for column in table.columns]
    return [(*event[:5], repr(event[5:])) for event in zip(*columns, strict=True)]


def events_of(path: Path, reader: Callable[..., Events], *, keys_only: bool = False) -> Events | None:
    """The events of a file, None where a reader cannot read them."""
    try:
        return reader(path, keys_only=keys_only)
    except (
        pyorc.errors.ORCError,
        ValueError,
        OSError,
        MemoryError,
        RuntimeError,
        TypeError,
        OverflowError,
        pa.ArrowException,
    ):
        return None


@cache
def _row_type(victim: victims.Victim) -> str:
    return schema_text(read_tail(BytesSource(victim.data)).types.row)


@cache
def _deletes(victim: victims.Victim) -> bytes:
    """Delete events of write ID 5 for some rows of a victim."""
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"victim{os.getpid()}"
    file.write_bytes(victim.data)
    keys = [event[1:4] for event in by_pyorc(file)]
    file.unlink()
    return victims.deletes_of(_row_type(victim), keys[::7] if len(keys) < 2000 else keys[100:104])


def lay_out(table: Path, victim: victims.Victim, damaged: bytes) -> Path:
    """A table with the damaged file in it; its path."""
    content = {ROWS: victim.data, DELETES: _deletes(victim)}
    if victim.deletes:
        content = {ROWS: victims.rows_file("ZLIB"), DELETES: victim.data}
    if _row_type(victim) == victims.ROW_TYPE:
        content[MORE] = victims.second_file()
    hit = DELETES if victim.deletes else ROWS
    for name, data in (content | {hit: damaged}).items():
        (table / name).mkdir(parents=True)
        (table / name / "bucket_00000").write_bytes(data)
    return table / hit / "bucket_00000"


def compact(table: Path, row_type: str, dice: random.Random) -> list[Path]:
    """The output files of a compaction of some kind."""
    storage = LocalStorage()
    planned = plan(
        acid_directory(storage.listing(str(table)), WRITE_IDS, TXNS),
        dice.choice((Shape.MAJOR, Shape.MINOR)),
        PlanContext(
            location=str(table),
            txn=TxnId(11),
            write_ids=WRITE_IDS.for_compactor(),
            row_type=row_type,
            small_stripe_bytes=dice.choice((0, 1 << 20)),
            full_verify=dice.random() < 0.25,
        ),
    )
    stage.prepare(storage, planned)
    staged = stage.accept(storage, planned, run_units(planned.units))
    stage.check_staged(storage, planned, staged)
    return [Path(d.staged) / file.name for d in staged.directories for file in d.files]


def read(table: Path, row_type: str) -> int:
    """Counts the rows that our reader shows."""
    directory = acid_directory(LocalStorage().listing(str(table)), WRITE_IDS, TXNS)
    return sum(batch.num_rows for batch in read_snapshot(str(table), directory, WRITE_IDS, row_type))


def wanted_of(table: Path, reader: Callable[..., Events]) -> Counter[Any] | None:
    """The rows that a compaction must write; None where the input cannot be read."""
    events: Events = []
    for name in (ROWS, MORE, DELETES):
        path = table / name / "bucket_00000"
        if path.exists():
            found = events_of(path, reader, keys_only=name == DELETES)
            if found is None:
                return None
            events += found
    seen = [event for event in events if event[4] <= WRITE_IDS.high_watermark]
    gone = {event[1:4] for event in seen if event[0] == 2}
    return Counter(event for event in seen if event[0] != 2 and event[1:4] not in gone)


def written_by(files: list[Path], reader: Callable[..., Events]) -> Counter[Any] | None:
    """The rows that a compaction wrote; None where they cannot be read."""
    rows: Counter[Any] = Counter()
    for path in files:
        found = events_of(path, reader)
        if found is None:
            return None
        rows.update(event for event in found if event[0] != 2)
    return rows


def say(seed: int, **what: Any) -> None:
    print(json.dumps({"seed": seed, **what}), flush=True)


def peak() -> int:
    """The most memory that this process had since the last ``forget_peak``, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def one(folder: Path, seed: int) -> None:
    """Damages a file, compacts and reads the table, and compares."""
    dice = random.Random(seed)
    victim = dice.choice(victims.victims())
    mutation = mutate(victim.data, seed)
    say(seed, step="engine", victim=victim.name, where=mutation.where, how=mutation.how)
    table = folder / f"t{seed}"
    path = lay_out(table, victim, mutation.data)
    row_type = _row_type(victim)
    forget_peak()
    begun = time.monotonic()
    written: list[Path] | None = None
    messages = []
    for work in (lambda: compact(table, row_type, dice), lambda: read(table, row_type)):
        try:
            result = work()
            written = result if isinstance(result, list) else written
        except CompactorError as error:
            messages.append(f"{type(error).__name__}: {error}")
    seconds, memory = time.monotonic() - begun, peak()
    say(
        seed,
        step="compare",
        messages=messages,
        seconds=round(seconds, 3),
        memory=memory,
        names=[_names(message, path) for message in messages],
    )
    say(seed, step="done", verdict=_verdict(table, written, victim))
    shutil.rmtree(table)


def _names(message: str, path: Path) -> bool:
    """True if an error says which file it is about; one about the output of a compaction, or about rows that are in two
    files, cannot know which input is to blame."""
    return str(path) in message or message.startswith("VerificationFailed") or "a ROW__ID occurs twice" in message


def _verdict(table: Path, written: list[Path] | None, victim: victims.Victim) -> str:
    """Refused; or the same rows as in the damaged input, by one reader or the other; or those of the whole file."""
    if written is None:
        return "refused"
    pairs = [(wanted_of(table, reader), written_by(written, reader)) for reader in (by_pyorc, by_arrow)]
    if any(wanted is not None and wanted == found for wanted, found in pairs):
        return "same"
    whole = table.with_name(table.name + "_whole")
    lay_out(whole, victim, victim.data)
    undamaged = wanted_of(whole, by_pyorc)
    shutil.rmtree(whole)
    if pairs[0][1] == undamaged:
        return "as before the damage"
    if all(wanted is None or found is None for wanted, found in pairs):
        return "unreadable" if all(found is None for _, found in pairs) else "unreadable before, readable after"
    return "other rows"


def main() -> None:
    folder = Path(sys.argv[1])
    start = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (start + 2 * LIMIT, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in sys.argv[2:]:
        one(folder, int(seed))


if __name__ == "__main__":
    main()
