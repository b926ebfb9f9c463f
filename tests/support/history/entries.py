"""Invariants of the compaction queue: for each entry some order of the calls must be a valid path through the states.

The states, and who may change them, are written down again here, since those of the product are under test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.support.history.operations import Anomaly, Kind, Operation

#: State and worker of an entry; no state before it is requested.
_State = tuple[str | None, str | None]
_BEFORE: _State = (None, None)
_AFTER = {"i": "wxf", "w": "rifcx", "r": "rsfc"}  #: allowed state changes, as in Hive
_CHANGES = ("withdraw", "record", "committing", "requeue", "finish", "clean")  #: calls that name the entry


def of_entries(operations: Sequence[Operation]) -> Iterator[Anomaly]:
    """Checks each entry of the queue."""
    final = next((operation for operation in operations if operation.name == "entries" and operation.is_ok), None)
    requested: dict[int, Operation] = {}
    for operation in operations:
        if operation.name == "request" and operation.is_ok:
            other = requested.setdefault(operation.value, operation)
            if other is not operation:
                yield Anomaly(kind=Kind.DUPLICATE_ENTRY, about=f"{operation.value}", proof=(other, operation))
    named = _by_entry(operations)
    unknown = [op for op in operations if op.name in ("claim", "request") and not op.is_ok and op.is_possible]
    for entry in sorted(named.keys() | (_in_the_end(final).keys() if final else set())):
        ways = named.get(entry, [])
        if final is not None:
            places = _in_the_end(final).get(entry, [])
            if len(places) > 1:
                yield Anomaly(kind=Kind.DUPLICATE_ENTRY, about=f"{entry}", proof=(*ways, final))
            if entry in requested and not places:
                yield Anomaly(kind=Kind.LOST_ENTRY, about=f"{entry}", proof=(*ways, final))
            if len(places) != 1:
                continue
            ways = [*ways, _look(final, entry, places[0])]
        workers = {worker for op in ways if (worker := _worker(op)) is not None}
        lost = [op for op in unknown if op.name == "request" or op.arguments["worker"] in workers]
        lost = [op for op in lost if op.name == "claim" or entry not in requested]
        if not _has_a_way([*ways, *lost]):
            twice = _claimed_twice(ways)
            kind = Kind.CLAIMED_TWICE if twice else Kind.ILLEGAL_CHANGE
            yield Anomaly(kind=kind, about=f"{entry}", proof=tuple(twice or ways))


def _by_entry(operations: Sequence[Operation]) -> dict[int, list[Operation]]:
    found: dict[int, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.name in ("claim", "request") and operation.is_ok and operation.value is not None:
            found[operation.value].append(operation)
        elif (operation.name in _CHANGES and operation.is_possible) or (operation.name == "look" and operation.is_ok):
            found[operation.arguments["entry"]].append(operation)
    return found


def _in_the_end(final: Operation) -> Mapping[int, list[tuple[str, str | None]]]:
    found: dict[int, list[tuple[str, str | None]]] = defaultdict(list)
    for entry, state, worker in final.value:
        found[entry].append((state, worker))
    return found


def _look(final: Operation, entry: int, seen: tuple[str, str | None]) -> Operation:
    return Operation(
        process=final.process,
        number=final.number,
        name="look",
        arguments={"entry": entry},
        began=final.began,
        ended=final.ended,
        outcome=final.outcome,
        value=seen,
    )


def _worker(operation: Operation) -> str | None:
    if operation.name == "look":
        return operation.value[1] if operation.value and operation.value[0] == "w" else None
    worker: str | None = operation.arguments.get("worker")
    return worker


def _has_a_way(operations: Sequence[Operation]) -> bool:
    """Returns true if some order of the calls fits the times and the states; uncertain calls may be left out."""
    start = frozenset(range(len(operations)))
    open_ways, known = [(start, _BEFORE)], {(start, _BEFORE)}
    while open_ways:
        left, state = open_ways.pop()
        if not any(operations[at].is_ok for at in left):
            return True
        first_end = min(operations[at].latest for at in left)
        for at in left:
            if operations[at].began > first_end:
                continue
            following = _apply(operations[at], state)
            way = (left - {at}, following) if following is not None else None
            if way is not None and way not in known:
                known.add(way)
                open_ways.append(way)
    return False


def _apply(operation: Operation, state: _State) -> _State | None:
    """Returns the state after ``operation``; None where it cannot have happened."""
    return _APPLY[operation.name](operation, state)


def _changed(wanted: _State | str, becomes: str, worker: str | None = None) -> Callable[[_State], _State | None]:
    def change(state: _State) -> _State | None:
        fits = state == wanted if isinstance(wanted, tuple) else state[0] == wanted
        return (becomes, worker) if fits and becomes in _AFTER[state[0] or ""] else None

    return change


def _finished(operation: Operation, state: _State) -> _State | None:
    worker = operation.arguments["worker"]
    wanted: _State = (operation.arguments["from"], worker)
    return _changed(wanted, operation.arguments["state"])(state)


def _looked(operation: Operation, state: _State) -> _State | None:
    if operation.value is None:
        return state if state == _BEFORE else None
    seen, worker = operation.value
    fits = seen == state[0] and (seen != "w" or worker == state[1])
    return state if fits else None


def _recorded(operation: Operation, state: _State) -> _State | None:
    return state if state == ("w", operation.arguments["worker"]) else None


_APPLY: Mapping[str, Callable[[Operation, _State], _State | None]] = {
    "request": lambda operation, state: ("i", None) if state == _BEFORE else None,
    "withdraw": lambda operation, state: _changed("i", "x")(state),
    "claim": lambda operation, state: _changed("i", "w", operation.arguments["worker"])(state),
    "record": _recorded,
    "committing": lambda operation, state: _changed(("w", operation.arguments["worker"]), "r")(state),
    "requeue": lambda operation, state: (
        _changed(("w", operation.arguments["worker"]), "i")(state) if operation.value is not False else state
    ),
    "finish": _finished,
    "clean": lambda operation, state: _changed("r", "s")(state),
    "look": _looked,
}


def _claimed_twice(operations: Sequence[Operation]) -> list[Operation]:
    """Finds more claims than the request and the calls that queued the entry again allow."""
    claims = [operation for operation in operations if operation.name == "claim" and operation.is_ok]
    again = [operation for operation in operations if operation.name == "requeue" and operation.value is not False]
    return [*claims, *again] if len(claims) > len(again) + 1 else []
