"""Judges what programs read of their tables: each transaction whole or not at all, from its commit on, and once.

A commit took effect between the beginning and the end of its call; one without an answer at any later time, or never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from tests.support.history.operations import Anomaly, Kind, Operation

_WRITES = ("append", "remove", "count_up", "put", "replace")


def judged(history: Sequence[Operation], batch: int) -> Iterator[Anomaly]:
    """Yields every anomaly.

    Args:
        batch: rows that a call appends to a table, or overwrites it with.
    """
    by_name: dict[str, list[Operation]] = {name: [] for name in (*_WRITES, "read", "hidden")}
    for operation in history:
        by_name.setdefault(operation.name, []).append(operation)
        if operation.error.startswith("BUG"):
            yield Anomaly(kind=Kind.BUG, proof=(operation,))
    yield from _one_winner(by_name["count_up"])
    yield from _removed_once(by_name["remove"])
    for read in by_name["read"]:
        if read.is_ok:
            yield from _of_read(read, by_name, batch)
    for look in by_name["hidden"]:
        if look.value:
            yield Anomaly(kind=Kind.WRONG_READ, proof=(look,), about="what the dead have staged is still there")


def _of_read(read: Operation, writes: Mapping[str, Sequence[Operation]], batch: int) -> Iterator[Anomaly]:
    first, *others = read.value
    if any(other != first for other in others):
        yield Anomaly(kind=Kind.NOT_REPEATABLE, proof=(read,))
    yield from _batches(read, first, writes["append"], writes["remove"], batch)
    yield from _counter(read, first["c"], writes["count_up"])
    yield from _keys(read, first["k"], writes["put"])
    yield from _overwritten(read, first["o"], writes["replace"], batch)


def _one_winner(counted: Iterable[Operation]) -> Iterator[Anomaly]:
    known = [operation for operation in counted if operation.is_ok]
    for number, times in Counter(operation.value for operation in known).items():
        if times > 1:
            yield Anomaly(kind=Kind.LOST_UPDATE, proof=tuple(one for one in known if one.value == number))


def _removed_once(removed: Iterable[Operation]) -> Iterator[Anomaly]:
    for operation in removed:
        if operation.is_ok and len(set(operation.value)) > 1:
            yield Anomaly(kind=Kind.NOT_ONE_INSTANT, proof=(operation,), about="removed from one table only")


def _batches(
    read: Operation,
    found: Mapping[str, Mapping[str, int]],
    appended: Iterable[Operation],
    removed: Iterable[Operation],
    batch: int,
) -> Iterator[Anomaly]:
    removals: dict[str, list[Operation]] = {}
    for operation in removed:
        removals.setdefault(operation.arguments["token"], []).append(operation)
    tokens = set()
    for append in appended:
        token = append.arguments["token"]
        tokens.add(token)
        counts = (found["t"].get(token, 0), found["u"].get(token, 0))
        if counts not in ((0, 0), (batch, batch)):
            yield Anomaly(kind=Kind.NOT_ONE_INSTANT, proof=(append, read), about=f"rows in t and u: {counts}")
            continue
        ends = [one for one in removals.get(token, ()) if one.is_possible and one.began < _end(read)]
        if counts == (0, 0) and append.is_ok and append.precedes(read) and not ends:
            yield Anomaly(kind=Kind.MISSES_COMMITTED, proof=(append, read))
        if counts != (0, 0) and not _may_be_seen(append, read):
            yield Anomaly(kind=Kind.SEES_UNCOMMITTED, proof=(append, read))
        gone = [one for one in ends if one.is_ok and one.precedes(read) and sum(one.value)]
        if counts != (0, 0) and gone:
            yield Anomaly(kind=Kind.MISSES_COMMITTED, proof=(append, *gone, read), about="removed rows are there")
    if unknown := ({*found["t"], *found["u"]} - tokens):
        yield Anomaly(kind=Kind.WRONG_READ, proof=(read,), about=f"nobody wrote {sorted(unknown)}")


def _counter(read: Operation, found: Sequence[int], counted: Sequence[Operation]) -> Iterator[Anomaly]:
    if len(found) != 1:
        yield Anomaly(kind=Kind.WRONG_READ, proof=(read,), about=f"the counter has {len(found)} rows")
        return
    before = [one for one in counted if one.is_ok and one.precedes(read)]
    possible = [one for one in counted if _may_be_seen(one, read)]
    if before and found[0] < max(len(before), *(one.value for one in before)):
        yield Anomaly(kind=Kind.LOST_UPDATE, proof=(*before[-3:], read), about=f"{len(before)} have counted")
    if found[0] > len(possible):
        yield Anomaly(kind=Kind.SEES_UNCOMMITTED, proof=(read,), about=f"{len(possible)} may have counted")


def _keys(read: Operation, found: Mapping[str, int], put: Iterable[Operation]) -> Iterator[Anomaly]:
    for key, times in found.items():
        if times > 1:
            yield Anomaly(kind=Kind.LOST_UPDATE, proof=(read,), about=f"{key} is there {times} times")
    possible = {one.arguments["key"] for one in put if _may_be_seen(one, read)}
    if not possible.issuperset(found):
        yield Anomaly(kind=Kind.SEES_UNCOMMITTED, proof=(read,), about=f"nobody can have put {set(found) - possible}")
    for one in put:
        if one.is_ok and one.precedes(read) and one.arguments["key"] not in found:
            yield Anomaly(kind=Kind.MISSES_COMMITTED, proof=(one, read))


def _overwritten(
    read: Operation, found: Mapping[str, int], replaced: Sequence[Operation], batch: int
) -> Iterator[Anomaly]:
    before = [one for one in replaced if one.is_ok and one.precedes(read)]
    if not found:
        if before:
            yield Anomaly(kind=Kind.MISSES_COMMITTED, proof=(before[-1], read), about="nothing is there")
        return
    if len(found) > 1 or set(found.values()) != {batch}:
        yield Anomaly(kind=Kind.NOT_ONE_INSTANT, proof=(read,), about=f"not the rows of one call: {dict(found)}")
        return
    (token,) = found
    by_token = {one.arguments["token"]: one for one in replaced}
    if token not in by_token or not _may_be_seen(by_token[token], read):
        yield Anomaly(kind=Kind.SEES_UNCOMMITTED, proof=(read,), about=token)
        return
    later = [one for one in before if by_token[token].precedes(one)]
    if later:
        yield Anomaly(kind=Kind.MISSES_COMMITTED, proof=(by_token[token], later[-1], read), about="older rows are back")


def _may_be_seen(write: Operation, read: Operation) -> bool:
    return write.is_possible and write.began < _end(read)


def _end(read: Operation) -> float:
    return float("inf") if read.ended is None else read.ended


def overlapping(history: Sequence[Operation]) -> int:
    """Returns the number of pairs of writes that overlapped in time: a history without any proves little."""
    writes = [one for one in history if one.name in _WRITES]
    return sum(a.began < b.latest and b.began < a.latest for a, b in combinations(writes, 2))
