"""Invariants of transactions and write IDs: each id once, one fate each, nothing after it, first committer wins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tests.support.history.operations import Anomaly, Kind, Operation, Outcome

_COMMITS = ("commit", "committing")
_NEEDS_OPEN = ("allocate", "component", "acquire", "heartbeat", "record", *_COMMITS)


@dataclass(slots=True)
class Result:
    """The recorded fate of a transaction."""

    txn: int
    type: str = "default"
    opened: Operation | None = None
    commits: list[Operation] = field(default_factory=list)  #: all calls that may have committed it
    aborts: list[Operation] = field(default_factory=list)  #: all calls that surely aborted it
    final: str | None = None  #: its final state, where somebody looked

    @property
    def committed(self) -> bool:
        """True if it surely committed."""
        return any(operation.is_ok for operation in self.commits) or (bool(self.commits) and self.final == "c")

    @property
    def may_have_committed(self) -> bool:
        return self.committed or (bool(self.commits) and self.final is None)

    @property
    def committed_from(self) -> float:
        """The time before which it surely was not committed."""
        return min((operation.began for operation in self.commits), default=float("inf"))

    @property
    def committed_by(self) -> float:
        """The time from which it surely was committed."""
        return min((operation.latest for operation in self.commits if operation.is_ok), default=float("inf"))

    @property
    def commit(self) -> Operation:
        """The operation that best proves that it committed."""
        return min(self.commits, key=lambda operation: (operation.latest, operation.began))


def fates(operations: Sequence[Operation]) -> dict[int, Result]:
    """Returns the fate of every transaction mentioned in the history."""
    found: dict[int, Result] = {}
    for operation in operations:
        for txn in _mentioned(operation):
            found.setdefault(txn, Result(txn))
        if operation.name == "open" and operation.is_ok:
            for txn in operation.value:
                fate = found[txn]
                fate.opened = fate.opened or operation
                fate.type = operation.arguments.get("type", "default")
        elif operation.name in _COMMITS and operation.is_possible:
            found[operation.arguments["txn"]].commits.append(operation)
        elif operation.name == "abort" and operation.is_ok and operation.value:
            found[operation.arguments["txn"]].aborts.append(operation)
        elif operation.name == "time_out" and operation.is_ok:
            for txn in operation.value:
                found[txn].aborts.append(operation)
        elif operation.name == "states" and operation.is_ok:
            states, gone = operation.value["states"], operation.value["gone"]
            for txn, fate in found.items():
                fate.final = states.get(str(txn), gone)
    return found


def _mentioned(operation: Operation) -> Iterator[int]:
    txn = operation.arguments.get("txn")
    if txn:
        yield txn
    if operation.is_ok and operation.name in ("open", "time_out"):
        yield from operation.value
    if operation.is_ok and operation.name == "states":
        yield from map(int, operation.value["states"])


def of_transactions(operations: Sequence[Operation], known: Mapping[int, Result]) -> Iterator[Anomaly]:
    """Checks identity and fate."""
    yield from _ids(operations)
    for fate in known.values():
        yield from _one_fate(fate)
    final = next((operation for operation in operations if operation.name == "states" and operation.is_ok), None)
    for fate in known.values() if final is not None else ():
        assert final is not None
        if fate.committed and fate.final != "c":
            yield Anomaly(kind=Kind.LOST_TRANSACTION, about=f"{fate.txn}", proof=(fate.commit, final))
        elif fate.opened is not None and fate.final is None:
            yield Anomaly(kind=Kind.LOST_TRANSACTION, about=f"{fate.txn}", proof=(fate.opened, final))
        elif fate.final == "c" and not fate.commits and fate.opened is not None:
            yield Anomaly(kind=Kind.TWO_FATES, about=f"{fate.txn}", proof=(fate.opened, final))
    yield from _after_end(operations, known)


def _ids(operations: Sequence[Operation]) -> Iterator[Anomaly]:
    opened = [operation for operation in operations if operation.name == "open" and operation.is_ok]
    seen: dict[int, Operation] = {}
    for operation in opened:
        for txn in operation.value:
            if txn in seen:
                proof = (seen[txn], operation)
                yield Anomaly(kind=Kind.DUPLICATE_TRANSACTION, about=f"{txn}", proof=proof)
            seen[txn] = operation
    yield from _grows(Kind.TRANSACTION_ORDER, [(operation, operation.value) for operation in opened])


def _grows(kind: Kind, given: Sequence[tuple[Operation, Sequence[int]]]) -> Iterator[Anomaly]:
    """Checks that an id handed out after another answer is higher than the id in that answer."""
    by_end = sorted(given, key=lambda pair: pair[0].latest)
    at, highest, holder = 0, -1, None
    for operation, ids in sorted(given, key=lambda pair: pair[0].began):
        while at < len(by_end) and by_end[at][0].latest < operation.began:
            if max(by_end[at][1]) > highest:
                highest, holder = max(by_end[at][1]), by_end[at][0]
            at += 1
        if holder is not None and min(ids) < highest:
            yield Anomaly(kind=kind, about=f"{min(ids)} after {highest}", proof=(holder, operation))


def _one_fate(fate: Result) -> Iterator[Anomaly]:
    committed = [operation for operation in fate.commits if operation.is_ok]
    if committed and fate.aborts:
        yield Anomaly(kind=Kind.TWO_FATES, about=f"{fate.txn}", proof=(committed[0], fate.aborts[0]))
    if len(fate.aborts) > 1:
        yield Anomaly(kind=Kind.TWO_FATES, about=f"{fate.txn} aborted twice", proof=tuple(fate.aborts))


def _after_end(operations: Sequence[Operation], known: Mapping[int, Result]) -> Iterator[Anomaly]:
    locks = {
        operation.value["lock"]: operation.arguments["txn"]
        for operation in operations
        if operation.name == "acquire" and operation.is_ok
    }
    for operation in operations:
        txn = operation.arguments.get("txn") if operation.name in _NEEDS_OPEN else None
        if operation.name == "check":
            txn = locks.get(operation.arguments["lock"])
        if not txn or not operation.is_ok:
            continue
        fate = known[txn]
        ends = [*fate.aborts, *(end for end in fate.commits if end.is_ok and operation.name not in _COMMITS)]
        over = next((end for end in ends if end.precedes(operation)), None)
        if over is not None:
            yield Anomaly(kind=Kind.WORK_AFTER_END, about=f"{txn}", proof=(over, operation))


def of_write_ids(operations: Sequence[Operation]) -> Iterator[Anomaly]:
    """Checks that each write ID of a table has one transaction, that they grow, and that none is forgotten."""
    first: dict[tuple[str, int], Operation] = {}
    owner: dict[tuple[str, int], Operation] = {}
    for operation in operations:
        if operation.name != "allocate" or not operation.is_ok:
            continue
        table, txn = operation.arguments["table"], operation.arguments["txn"]
        earlier = first.setdefault((table, txn), operation)
        other = owner.setdefault((table, operation.value), operation)
        about = f"{operation.value} of {table}"
        if earlier.value != operation.value:
            yield Anomaly(kind=Kind.DUPLICATE_WRITE_ID, about=about, proof=(earlier, operation))
        if other.arguments["txn"] != txn:
            yield Anomaly(kind=Kind.DUPLICATE_WRITE_ID, about=about, proof=(other, operation))
    by_table: dict[str, list[tuple[Operation, Sequence[int]]]] = defaultdict(list)
    for (table, _), operation in first.items():
        by_table[table].append((operation, (operation.value,)))
    for given in by_table.values():
        yield from _grows(Kind.WRITE_ID_ORDER, given)
    final = next((operation for operation in operations if operation.name == "mappings" and operation.is_ok), None)
    for (table, txn), operation in first.items() if final is not None else ():
        assert final is not None
        if [txn, operation.value] not in final.value.get(table, []):
            about = f"{operation.value} of {table}"
            yield Anomaly(kind=Kind.LOST_WRITE_ID, about=about, proof=(operation, final))


def of_conflicts(operations: Sequence[Operation], known: Mapping[int, Result]) -> Iterator[Anomaly]:
    """Checks that the first committer wins: of two that updated the same row and were open together only one commits."""
    updates: dict[tuple[str, str], dict[int, Operation]] = defaultdict(dict)
    for operation in operations:
        changes = operation.name == "component" and operation.arguments["operation"] in ("u", "d")
        if changes and operation.is_ok and known[operation.arguments["txn"]].committed:
            place = (operation.arguments["table"], operation.arguments["partition"])
            updates[place].setdefault(operation.arguments["txn"], operation)
    for place, writers in updates.items():
        for a, b in combinations([known[txn] for txn in writers], 2):
            if _open_before_commit(a, b) and _open_before_commit(b, a):
                proof = (writers[a.txn], writers[b.txn], a.commit, b.commit)
                yield Anomaly(kind=Kind.BOTH_COMMITTED, about=f"{a.txn} and {b.txn} in {place}", proof=proof)
    yield from _lost_updates(operations, known)


def _open_before_commit(a: Result, b: Result) -> bool:
    """Returns true if ``a`` was surely open before ``b`` can have been committed."""
    return a.opened is not None and a.opened.latest < b.committed_from


def _lost_updates(operations: Sequence[Operation], known: Mapping[int, Result]) -> Iterator[Anomaly]:
    made: dict[tuple[str, str, int], Operation] = {}
    for operation in operations:
        if operation.name != "write" or operation.outcome is not Outcome.OK:
            continue
        count = operation.arguments["count"]
        if count is None or not known[operation.arguments["txn"]].committed:
            continue
        place = (operation.arguments["table"], operation.arguments["partition"], count)
        other = made.setdefault(place, operation)
        if other.arguments["txn"] != operation.arguments["txn"]:
            yield Anomaly(kind=Kind.LOST_UPDATE, about=f"{place}", proof=(other, operation))
