"""Invariants of snapshots and of what is read under them, in real time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.support.history.operations import Anomaly, Kind, Operation
from tests.support.history.transactions import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A snapshot as the metastore returned it."""

    operation: Operation
    own: int | None
    high: int
    exceptions: frozenset[int]

    def is_valid(self, txn: int) -> bool:
        return txn <= self.high and txn not in self.exceptions


def _seen(operation: Operation) -> _Seen:
    value = operation.value
    return _Seen(
        operation=operation,
        own=operation.arguments["own"],
        high=value["high"],
        exceptions=frozenset(value["open"]) | frozenset(value["aborted"]),
    )


def of_snapshots(operations: Sequence[Operation], known: Mapping[int, Result]) -> Iterator[Anomaly]:
    """Checks snapshot isolation."""
    taken = {op.key: _seen(op) for op in operations if op.name == "snapshot" and op.is_ok}
    writers = [fate for fate in known.values() if fate.type != "read_only"]
    for snapshot in taken.values():
        yield from _uncommitted(snapshot, writers)
        yield from _missed(snapshot, writers)
    yield from _reads(operations, taken)


def _uncommitted(snapshot: _Seen, writers: Sequence[Result]) -> Iterator[Anomaly]:
    for fate in writers:
        if fate.txn == snapshot.own or not snapshot.is_valid(fate.txn):
            continue
        if fate.opened is None and not fate.commits:
            # Whoever opened it died before it heard its number, so nothing was ever written under it. Where an id is drawn
            # early and its row comes late, on a busy server, a snapshot has taken it for one without a row by then.
            continue
        if fate.may_have_committed and fate.committed_from <= snapshot.operation.latest:
            continue
        proof = (*((fate.opened,) if fate.opened else ()), *fate.aborts, *fate.commits, snapshot.operation)
        yield Anomaly(kind=Kind.SEES_UNCOMMITTED, about=f"{fate.txn}", proof=proof)


def _missed(snapshot: _Seen, writers: Sequence[Result]) -> Iterator[Anomaly]:
    seen = [f for f in writers if f.committed and f.txn != snapshot.own and snapshot.is_valid(f.txn)]
    newest = max(seen, key=lambda fate: fate.committed_from, default=None)
    for fate in writers:
        # Hive ends a snapshot at its own transaction, whatever committed after it
        beyond = snapshot.own is not None and fate.txn > snapshot.own
        if not fate.committed or snapshot.is_valid(fate.txn) or beyond:
            continue
        if fate.committed_by < snapshot.operation.began:
            proof: tuple[Operation, ...] = (fate.commit, snapshot.operation)
            yield Anomaly(kind=Kind.MISSES_COMMITTED, about=f"{fate.txn}", proof=proof)
        elif newest is not None and fate.committed_by < newest.committed_from:
            about = f"{fate.txn} is missed, {newest.txn} is seen"
            proof = (fate.commit, newest.commit, snapshot.operation)
            yield Anomaly(kind=Kind.NOT_ONE_INSTANT, about=about, proof=proof)


def _reads(operations: Sequence[Operation], taken: Mapping[str, _Seen]) -> Iterator[Anomaly]:
    written: dict[tuple[str, str], dict[int, Operation]] = defaultdict(dict)
    for operation in operations:
        if operation.name == "write" and operation.is_ok:
            written[_place(operation)][operation.arguments["txn"]] = operation
    first: dict[tuple[str, tuple[str, str]], tuple[Operation, frozenset[int]]] = {}
    for operation in operations:
        if operation.name != "read" or not operation.is_ok:
            continue
        snapshot, place = taken[operation.arguments["snapshot"]], _place(operation)
        found = frozenset(row[0] for row in operation.value) - {snapshot.own}
        for txn in sorted(txn for txn in found if not snapshot.is_valid(txn)):
            proof = (snapshot.operation, *_if_any(written[place].get(txn)), operation)
            yield Anomaly(kind=Kind.WRONG_READ, about=f"{txn} is not visible", proof=proof)
        for txn, write in written[place].items():
            if txn not in found and txn != snapshot.own and snapshot.is_valid(txn) and write.precedes(operation):
                proof = (snapshot.operation, write, operation)
                yield Anomaly(kind=Kind.WRONG_READ, about=f"{txn} is not found", proof=proof)
        earlier, before = first.setdefault((snapshot.operation.key, place), (operation, found))
        if before != found:
            proof = (snapshot.operation, earlier, operation)
            yield Anomaly(kind=Kind.NOT_REPEATABLE, about=f"{sorted(before ^ found)}", proof=proof)


def _place(operation: Operation) -> tuple[str, str]:
    return operation.arguments["table"], operation.arguments["partition"]


def _if_any(operation: Operation | None) -> tuple[Operation, ...]:
    return () if operation is None else (operation,)
