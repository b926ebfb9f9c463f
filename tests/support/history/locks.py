"""Invariant of locks: no two that exclude each other are held at the same time, as far as that is certain.

A lock is certainly held from the answer that grants it until the first call that may end it begins. The matrix is written
down again here, since that of the product is under test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.support.history.operations import Anomaly, Kind, Operation
from tests.support.history.transactions import Result

#: Pairs of HL_LOCK_TYPE that exclude each other in Hive 4; in Hive 3, which stores x as w, also w and w.
_EXCLUDES = frozenset(frozenset(pair) for pair in ("ee", "er", "ew", "ex", "xx", "xw"))
_ENDS = ("commit", "committing", "abort")
_MS = 1_000_000
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A lock and the time in which it is certainly held."""

    id: int
    txn: int
    wanted: tuple[tuple[str, str | None, str], ...]
    asked: Operation
    granted: Operation
    start: float
    end: float


def of_locks(operations: Sequence[Operation], known: Mapping[int, Result], *, semi_shared: bool) -> Iterator[Anomaly]:
    """Checks each pair of locks."""
    excludes = _EXCLUDES | ({frozenset("w")} if semi_shared else frozenset())
    asked: dict[int, Operation] = {}
    for operation in operations:
        if operation.name == "acquire" and operation.is_ok:
            other = asked.setdefault(operation.value["lock"], operation)
            if other is not operation:
                yield Anomaly(kind=Kind.DUPLICATE_LOCK, about=f"{operation.value['lock']}", proof=(other, operation))
    active: list[_Held] = []
    held = (lock for lock in _held(operations, asked, known) if lock.end > lock.start)
    for lock in sorted(held, key=lambda lock: lock.start):
        active = [other for other in active if other.end > lock.start]
        for other in active:
            same = lock.txn != 0 and lock.txn == other.txn
            if not same and any(_exclude(a, b, excludes) for a in lock.wanted for b in other.wanted):
                proof = (other.asked, other.granted, lock.asked, lock.granted)
                yield Anomaly(kind=Kind.LOCKED_TWICE, about=f"{other.id} and {lock.id}", proof=proof)
        active.append(lock)


def _exclude(
    a: tuple[str, str | None, str], b: tuple[str, str | None, str], excludes: frozenset[frozenset[str]]
) -> bool:
    apart = a[0] != b[0] or (a[1] is not None and b[1] is not None and a[1] != b[1])
    return not apart and frozenset((a[2], b[2])) in excludes


def _held(
    operations: Sequence[Operation], asked: Mapping[int, Operation], known: Mapping[int, Result]
) -> Iterator[_Held]:
    granted, ends = _grants(operations), _ends(operations)
    time_outs = [operation for operation in operations if operation.name == "time_out"]
    for lock, grant in granted.items():
        if lock not in asked:
            continue
        ask = asked[lock]
        txn, wanted = ask.arguments["txn"], tuple(tuple(each) for each in ask.arguments["wanted"])
        over = [ends.get(("lock", lock), _NEVER)]
        over += [ends.get(("txn", txn), _NEVER), _unknown(ask, time_outs, known[txn])] if txn else []
        over += [] if txn else [_timed_out(ask, time_outs)]
        yield _Held(id=lock, txn=txn, wanted=wanted, asked=ask, granted=grant, start=grant.latest, end=min(over))


def _grants(operations: Sequence[Operation]) -> dict[int, Operation]:
    granted: dict[int, Operation] = {}
    for operation in operations:
        got = operation.value if operation.is_ok and operation.name in ("acquire", "check") else None
        if got is not None and got["acquired"]:
            known = granted.setdefault(got["lock"], operation)
            granted[got["lock"]] = min(known, operation, key=lambda granting: granting.latest)
    return granted


def _ends(operations: Sequence[Operation]) -> dict[tuple[str, int], float]:
    """Returns when the first call began that may have ended a lock or a transaction."""
    found: dict[tuple[str, int], float] = {}
    for operation in operations:
        ended: list[tuple[str, int]] = []
        if operation.name == "release":
            ended = [("lock", operation.arguments["lock"])]
        elif operation.name in _ENDS:
            ended = [("txn", operation.arguments["txn"])]
        elif operation.name == "time_out" and operation.is_ok:
            ended = [("txn", txn) for txn in operation.value]
        for key in ended:
            found[key] = min(operation.began, found.get(key, _NEVER))
    return found


def _timed_out(ask: Operation, time_outs: Sequence[Operation]) -> float:
    """Returns when a lock without a transaction may have been removed: not before its timeout, counted from the request."""
    found = _NEVER
    for operation in time_outs:
        due = ask.began + operation.arguments["timeout_ms"] * _MS
        if operation.latest >= due:
            found = min(found, max(operation.began, due))
    return found


def _unknown(ask: Operation, time_outs: Sequence[Operation], fate: Result) -> float:
    """Returns the first timeout call without an answer that may have ended the transaction; None where its end is known."""
    if fate.committed or fate.aborts or fate.final == "o":
        return _NEVER
    unknown = (op.began for op in time_outs if not op.is_ok and op.is_possible and op.latest > ask.began)
    return min(unknown, default=_NEVER)
