"""Each anomaly is found in a short history that has it, and none in a similar history that does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.history.checker import anomalies
from tests.support.history.operations import Kind, Operation, Outcome

_numbers = itertools.count(1)
MS = 1_000_000


def op(name: str, began: int, ended: int | None = None, value: Any = None, /, **arguments: Any) -> Operation:
    """Builds a call, in milliseconds; one with an end was answered, one without got no answer."""
    number = next(_numbers)
    return Operation(
        process="p",
        number=number,
        name=name,
        arguments=arguments.pop("more", {}) | arguments,
        began=began * MS,
        ended=None if ended is None else ended * MS,
        outcome=Outcome.UNKNOWN if ended is None else Outcome.OK,
        value=value,
    )


def opens(txn: int, began: int, ended: int, type: str = "default") -> Operation:
    return op("open", began, ended, [txn], type=type)


def commits(txn: int, began: int, ended: int | None) -> Operation:
    return op("commit", began, ended, txn=txn)


def snapshot(
    began: int, ended: int, high: int, *, open: Any = (), aborted: Any = (), own: int | None = None
) -> Operation:
    value = {"high": high, "open": list(open), "aborted": list(aborted)}
    return op("snapshot", began, ended, value, own=own)


def states(gone: str | None = None, /, **found: str) -> Operation:
    named = {name.removeprefix("t"): state for name, state in found.items()}
    return op("states", 9000, 9001, {"states": named, "gone": gone})


def acquires(lock: int, txn: int, began: int, ended: int, *wanted: tuple[str, str | None, str]) -> Operation:
    return op("acquire", began, ended, {"lock": lock, "acquired": True}, txn=txn, wanted=list(wanted))


def kinds(*history: Operation, semi_shared: bool = False) -> list[Kind]:
    ordered = sorted(history, key=lambda operation: operation.began)
    return [anomaly.kind for anomaly in anomalies(ordered, semi_shared=semi_shared)]


# --- transactions -----------------------------------------------------------------------------------------------


def test_a_quiet_history_has_nothing() -> None:
    seen = snapshot(50, 60, 2, open=[2])
    assert not kinds(
        opens(1, 0, 10),
        op("allocate", 11, 12, 1, txn=1, table="t"),
        op("component", 13, 14, txn=1, table="t", partition="p", operation="u"),
        op("write", 15, 16, txn=1, table="t", partition="p", count=1),
        commits(1, 20, 30),
        opens(2, 31, 40),
        seen,
        op("read", 61, 62, [(1, 1, 1)], snapshot=seen.key, table="t", partition="p"),
        op("abort", 70, 80, True, txn=2),
        op("mappings", 9000, 9001, {"t": [[1, 1]]}),
        states(t1="c", t2="a"),
    )


def test_a_transaction_id_given_twice() -> None:
    assert kinds(opens(1, 0, 10), opens(1, 5, 15)) == [Kind.DUPLICATE_TRANSACTION]


def test_transaction_ids_grow_with_time() -> None:
    assert kinds(opens(2, 0, 10), opens(1, 11, 20)) == [Kind.TRANSACTION_ORDER]
    assert not kinds(opens(2, 0, 10), opens(1, 9, 20))


@pytest.mark.parametrize("abort", [op("abort", 30, 40, True, txn=1), op("time_out", 30, 40, [1], timeout_ms=1)])
def test_a_transaction_has_one_fate(abort: Operation) -> None:
    assert kinds(opens(1, 0, 1), commits(1, 10, 20), abort) == [Kind.TWO_FATES]
    assert not kinds(opens(1, 0, 1), commits(1, 10, None), abort), "the commit may not have come to anything"


def test_nobody_commits_what_nobody_wanted_committed() -> None:
    assert kinds(opens(1, 0, 1), states(t1="c")) == [Kind.TWO_FATES]
    assert not kinds(opens(1, 0, 1), commits(1, 10, None), states(t1="c"))


@pytest.mark.parametrize("final", ["a", "o"])
def test_a_commit_that_was_answered_lasts(final: str) -> None:
    assert kinds(opens(1, 0, 1), commits(1, 10, 20), states(t1=final)) == [Kind.LOST_TRANSACTION]


def test_a_transaction_that_was_opened_is_there() -> None:
    assert kinds(opens(1, 0, 1), states()) == [Kind.LOST_TRANSACTION]


def test_hive_3_keeps_no_row_of_what_committed() -> None:
    assert not kinds(opens(1, 0, 1), commits(1, 10, 20), states("c"))
    assert kinds(opens(1, 0, 1), states("c")) == [Kind.TWO_FATES]


@pytest.mark.parametrize("name", ["allocate", "component", "acquire", "heartbeat", "record", "commit"])
def test_nothing_is_done_for_a_transaction_that_was_aborted(name: str) -> None:
    values = {"allocate": 1, "acquire": {"lock": 1, "acquired": False}}
    more = {"table": "t", "partition": "p", "operation": "i", "wanted": [], "entry": 1, "worker": "w"}
    late = op(name, 30, 40, values.get(name), txn=1, more=more)
    assert Kind.WORK_AFTER_END in kinds(opens(1, 0, 1), op("abort", 10, 20, True, txn=1), late)
    assert Kind.WORK_AFTER_END not in kinds(opens(1, 0, 1), op("abort", 10, 35, True, txn=1), late)
    assert Kind.WORK_AFTER_END not in kinds(opens(1, 0, 1), op("abort", 10, 20, False, txn=1), late)


def test_a_lock_is_not_looked_at_for_a_transaction_that_was_aborted() -> None:
    asked = op("acquire", 2, 3, {"lock": 7, "acquired": False}, txn=1, wanted=[])
    late = op("check", 30, 40, {"lock": 7, "acquired": True}, lock=7)
    assert kinds(opens(1, 0, 1), asked, op("time_out", 10, 20, [1], timeout_ms=1), late) == [Kind.WORK_AFTER_END]


def test_a_second_commit_is_no_work_after_the_end() -> None:
    assert not kinds(opens(1, 0, 1), commits(1, 10, 20), commits(1, 30, 40))


# --- write IDs --------------------------------------------------------------------------------------------------


def test_a_write_id_given_twice() -> None:
    first, again = op("allocate", 10, 20, 1, txn=1, table="t"), op("allocate", 15, 20, 1, txn=2, table="t")
    assert kinds(first, again) == [Kind.DUPLICATE_WRITE_ID]
    assert not kinds(first, op("allocate", 15, 20, 1, txn=2, table="other"))


def test_a_transaction_has_one_write_id_in_a_table() -> None:
    first = op("allocate", 10, 20, 1, txn=1, table="t")
    assert kinds(first, op("allocate", 30, 40, 2, txn=1, table="t")) == [Kind.DUPLICATE_WRITE_ID]
    assert not kinds(first, op("allocate", 21, 22, 2, txn=2, table="t"), op("allocate", 30, 40, 1, txn=1, table="t"))


def test_write_ids_grow_with_time() -> None:
    first = op("allocate", 10, 20, 2, txn=1, table="t")
    assert kinds(first, op("allocate", 21, 30, 1, txn=2, table="t")) == [Kind.WRITE_ID_ORDER]
    assert not kinds(first, op("allocate", 19, 30, 1, txn=2, table="t"))


def test_a_write_id_is_mapped_to_its_transaction() -> None:
    first = op("allocate", 10, 20, 1, txn=1, table="t")
    assert kinds(first, op("mappings", 50, 60, {"t": []})) == [Kind.LOST_WRITE_ID]
    assert kinds(first, op("mappings", 50, 60, {"t": [[2, 1]]})) == [Kind.LOST_WRITE_ID]


# --- snapshots --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [[], [commits(1, 41, 50)], [op("abort", 11, 12, True, txn=1)], [commits(1, 11, None), states(t1="a")]]
)
def test_a_snapshot_sees_nothing_uncommitted(end: list[Operation]) -> None:
    assert kinds(opens(1, 0, 10), snapshot(30, 40, 1), *end) == [Kind.SEES_UNCOMMITTED]


@pytest.mark.parametrize("end", [[commits(1, 39, 50)], [commits(1, 11, None)], [commits(1, 11, None), states(t1="c")]])
def test_a_snapshot_may_see_what_may_be_committed(end: list[Operation]) -> None:
    assert not kinds(opens(1, 0, 10), snapshot(30, 40, 1), *end)


def test_a_snapshot_sees_its_own_transaction_and_those_that_only_read() -> None:
    assert not kinds(opens(1, 0, 10), snapshot(30, 40, 1, own=1))
    assert not kinds(opens(1, 0, 10, "read_only"), snapshot(30, 40, 1))


@pytest.mark.parametrize("missing", [{"high": 1, "open": [1]}, {"high": 1, "aborted": [1]}, {"high": 0}])
def test_a_snapshot_misses_nothing_committed_before(missing: dict[str, Any]) -> None:
    assert kinds(opens(1, 0, 10), commits(1, 11, 20), snapshot(30, 40, **missing)) == [Kind.MISSES_COMMITTED]
    assert not kinds(opens(1, 0, 10), commits(1, 11, 35), snapshot(30, 40, **missing))
    assert not kinds(opens(1, 0, 10), commits(1, 11, None), states(t1="c"), snapshot(30, 40, **missing))


def test_a_snapshot_ends_at_its_own_transaction() -> None:
    assert not kinds(opens(1, 0, 1), opens(2, 2, 3), commits(2, 11, 20), snapshot(30, 40, 1, own=1))


def test_a_snapshot_is_of_one_instant() -> None:
    history = [opens(1, 0, 1), opens(2, 2, 3), commits(1, 30, 40), snapshot(20, 80, 2, open=[1])]
    assert kinds(*history, commits(2, 50, 60)) == [Kind.NOT_ONE_INSTANT]
    assert not kinds(*history, commits(2, 35, 60))


def test_a_read_finds_what_its_snapshot_sees() -> None:
    seen = snapshot(30, 40, 2, open=[2])
    written = [
        *(opens(1, 0, 1), op("write", 2, 3, txn=1, table="t", partition="p", count=None), commits(1, 4, 5)),
        *(opens(2, 6, 7), op("write", 8, 9, txn=2, table="t", partition="p", count=None)),
    ]

    def read(began: int, *txns: int) -> Operation:
        rows = [(txn, txn, None) for txn in txns]
        return op("read", began, began + 5, rows, snapshot=seen.key, table="t", partition="p")

    assert not kinds(*written, seen, read(50, 1), read(60, 1))
    assert kinds(*written, seen, read(50)) == [Kind.WRONG_READ]
    assert kinds(*written, seen, read(50, 1, 2)) == [Kind.WRONG_READ]
    assert kinds(*written, seen, read(50, 1), read(60)) == [Kind.WRONG_READ, Kind.NOT_REPEATABLE]


def test_a_read_finds_its_own_writes_as_soon_as_they_are_there() -> None:
    seen = snapshot(10, 20, 1, own=1)
    reads = [
        op("read", 30, 31, [], snapshot=seen.key, table="t", partition="p"),
        op("read", 50, 51, [(1, 1, None)], snapshot=seen.key, table="t", partition="p"),
    ]
    write = op("write", 40, 41, txn=1, table="t", partition="p", count=None)
    assert not kinds(opens(1, 0, 1), seen, write, *reads)


# --- conflicts --------------------------------------------------------------------------------------------------


def updates(txn: int, began: int, partition: str = "p", operation: str = "u") -> Operation:
    return op("component", began, began + 1, txn=txn, table="t", partition=partition, operation=operation)


def test_the_first_committer_wins() -> None:
    both = [opens(1, 0, 10), opens(2, 5, 15), commits(1, 30, 40), commits(2, 50, 60)]
    assert kinds(*both, updates(1, 16), updates(2, 18)) == [Kind.BOTH_COMMITTED]
    assert not kinds(*both, updates(1, 16), updates(2, 18, partition="q"))
    assert not kinds(*both, updates(1, 16), updates(2, 18, operation="i"))
    assert not kinds(*both[:-1], op("abort", 50, 60, True, txn=2), updates(1, 16), updates(2, 18))


def test_one_after_the_other_is_no_conflict() -> None:
    assert not kinds(
        opens(1, 0, 1), updates(1, 2), commits(1, 4, 20), opens(2, 10, 19), updates(2, 30), commits(2, 40, 50)
    )


def test_an_update_is_not_lost() -> None:
    def writes(txn: int, began: int, count: int | None) -> Operation:
        return op("write", began, began + 1, txn=txn, table="t", partition="p", count=count)

    both = [opens(1, 0, 1), commits(1, 4, 5), opens(2, 6, 7), commits(2, 10, 11)]
    assert kinds(*both, writes(1, 2, 1), writes(2, 8, 1)) == [Kind.LOST_UPDATE]
    assert not kinds(*both, writes(1, 2, 1), writes(2, 8, 2))
    assert not kinds(*both, writes(1, 2, None), writes(2, 8, None))
    assert not kinds(*both[:-1], writes(1, 2, 1), writes(2, 8, 1))


# --- locks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", ["ee", "er", "ew", "ex", "re", "we", "xe", "xx", "xw", "wx"])
@pytest.mark.parametrize("partitions", [("p", "p"), (None, "p"), ("p", None), (None, None)])
def test_locks_that_exclude_each_other(pair: str, partitions: tuple[str | None, str | None]) -> None:
    history = [
        *(opens(1, 0, 1), acquires(1, 1, 10, 20, ("t", partitions[0], pair[0]))),
        *(opens(2, 0, 1), acquires(2, 2, 10, 30, ("t", partitions[1], pair[1]))),
    ]
    history[2] = opens(2, 2, 3)
    assert kinds(*history, commits(1, 40, 50)) == [Kind.LOCKED_TWICE]
    assert not kinds(*history, commits(1, 29, 50))
    assert not kinds(*history, op("time_out", 29, 50, [1], timeout_ms=1))
    assert not kinds(*history, op("time_out", 29, None, timeout_ms=1), states(t1="a", t2="a"))
    assert kinds(*history, op("time_out", 29, None, timeout_ms=1), states(t1="o", t2="o")) == [Kind.LOCKED_TWICE]


@pytest.mark.parametrize("pair", ["rr", "rw", "wr", "ww", "rx", "xr"])
def test_locks_that_stand_beside_each_other(pair: str) -> None:
    assert not kinds(
        *(opens(1, 0, 1), acquires(1, 1, 10, 20, ("t", None, pair[0]))),
        *(opens(2, 2, 3), acquires(2, 2, 10, 30, ("t", "p", pair[1]))),
    )


def test_in_hive_3_shared_writes_exclude_each_other() -> None:
    history = [
        *(opens(1, 0, 1), acquires(1, 1, 10, 20, ("t", None, "w"))),
        *(opens(2, 2, 3), acquires(2, 2, 10, 30, ("t", None, "w"))),
    ]
    assert kinds(*history, semi_shared=True) == [Kind.LOCKED_TWICE]


@pytest.mark.parametrize("other", [("other", None, "e"), ("t", "q", "e")])
def test_locks_of_other_things_and_of_one_transaction_do_not_meet(other: tuple[str, str | None, str]) -> None:
    first = [opens(1, 0, 1), acquires(1, 1, 10, 20, ("t", "p", "e"))]
    assert not kinds(*first, opens(2, 2, 3), acquires(2, 2, 10, 30, other))
    assert not kinds(*first, acquires(2, 1, 22, 30, ("t", "p", "e")))


def test_a_lock_that_waits_is_not_held() -> None:
    waits = op("acquire", 10, 20, {"lock": 1, "acquired": False}, txn=1, wanted=[("t", None, "e")])
    history = [opens(1, 0, 1), waits, opens(2, 2, 3), acquires(2, 2, 10, 30, ("t", None, "e"))]
    assert not kinds(*history)
    assert kinds(*history, op("check", 40, 50, {"lock": 1, "acquired": True}, lock=1)) == [Kind.LOCKED_TWICE]


def test_a_lock_without_a_transaction_is_held_until_it_is_released_or_its_time_is_over() -> None:
    history = [acquires(1, 0, 10, 20, ("t", None, "e")), acquires(2, 0, 25, 30, ("t", None, "r"))]
    assert kinds(*history) == [Kind.LOCKED_TWICE]
    assert not kinds(*history, op("release", 22, 23, True, lock=1))
    assert not kinds(*history, op("time_out", 22, 23, [], timeout_ms=5))
    assert kinds(*history, op("time_out", 22, 23, [], timeout_ms=500)) == [Kind.LOCKED_TWICE]


def test_a_lock_that_was_gone_when_its_owner_heard_of_it_is_not_held() -> None:
    history = [acquires(1, 0, 10, 30, ("t", None, "e")), acquires(2, 0, 24, 26, ("t", None, "r"))]
    assert kinds(*history) == [Kind.LOCKED_TWICE]
    assert not kinds(*history, op("time_out", 20, 22, [], timeout_ms=5))
    assert kinds(*history, op("time_out", 20, 22, [], timeout_ms=500)) == [Kind.LOCKED_TWICE]


def test_a_lock_id_given_twice() -> None:
    history = [acquires(1, 0, 10, 20, ("t", None, "r")), acquires(1, 0, 25, 30, ("t", None, "r"))]
    assert kinds(*history) == [Kind.DUPLICATE_LOCK]


# --- the queue --------------------------------------------------------------------------------------------------


def requests(began: int, ended: int) -> Operation:
    return op("request", began, ended, 1, entity=["t", "p"])


def claims(worker: str, began: int, ended: int | None) -> Operation:
    return op("claim", began, ended, 1, worker=worker)


def requeues(worker: str, began: int, ended: int | None, value: bool | None = True) -> Operation:
    return op("requeue", began, ended, value, entry=1, worker=worker)


def finishes(state: str, began: int, of: str = "w", worker: str | None = "a") -> Operation:
    return op("finish", began, began + 1, entry=1, worker=worker, state=state, more={"from": of})


def ends(state: str | None, worker: str | None = None) -> Operation:
    return op("entries", 9000, 9001, [] if state is None else [(1, state, worker)])


def look(state: str | None, began: int, worker: str | None = None) -> Operation:
    return op("look", began, began + 1, None if state is None else [state, worker], entry=1)


def of_queue(*history: Operation) -> list[Kind]:
    return kinds(*history, opens(1, 0, 1))


COMMITTING = op("committing", 30, 40, entry=1, worker="a", txn=1)


@pytest.mark.parametrize(
    "way",
    [
        [ends("i")],
        [claims("a", 10, 20), ends("w", "a")],
        [claims("a", 10, 20), COMMITTING, ends("r")],
        [claims("a", 10, 20), COMMITTING, op("clean", 50, 60, entry=1), ends("s")],
        [claims("a", 10, 20), finishes("f", 30), ends("f")],
        [claims("a", 10, 20), COMMITTING, finishes("f", 50, of="r", worker=None), ends("f")],
        [claims("a", 10, 20), requeues("a", 30, 40), claims("b", 35, 50), ends("w", "b")],
        [claims("a", 10, 20), requeues("a", 30, None), claims("b", 50, 60), ends("w", "b")],
        [claims("a", 10, None), requeues("a", 30, 40), ends("i")],
        [op("withdraw", 10, 20, entry=1), ends("x")],
        [look("i", 10), claims("a", 11, 30), look("i", 15), look("w", 18, "a"), ends("w", "a")],
    ],
    ids=lambda way: " ".join(operation.name for operation in way),
)
def test_ways_that_an_entry_may_go(way: list[Operation]) -> None:
    assert not of_queue(requests(5, 6), *way)


def test_an_entry_claimed_by_two() -> None:
    history = [requests(5, 6), claims("a", 10, 20), claims("b", 15, 25)]
    assert of_queue(*history) == [Kind.CLAIMED_TWICE]
    assert of_queue(*history, requeues("a", 18, 22, False)) == [Kind.CLAIMED_TWICE]
    assert not of_queue(*history, requeues("a", 18, 22))
    assert not of_queue(*history, requeues("b", 18, 22)), "b may have been the first"


def test_an_entry_queued_again_after_it_was_claimed_again() -> None:
    history = [requests(5, 6), claims("a", 10, 20), claims("b", 25, 30), requeues("a", 31, 40)]
    assert of_queue(*history) == [Kind.ILLEGAL_CHANGE]


@pytest.mark.parametrize(
    "way",
    [
        [COMMITTING, ends("r")],
        [claims("b", 10, 20), COMMITTING, ends("r")],
        [claims("a", 10, 20), requeues("a", 21, 29), COMMITTING],
        [claims("a", 10, 20), COMMITTING, ends("w", "a")],
        [claims("a", 10, 20), ends("s")],
        [claims("a", 10, 20), COMMITTING, look("w", 50, "a")],
        [claims("a", 10, 20), look("w", 21, "b")],
        [claims("a", 10, 20), look("i", 21)],
        [claims("a", 10, 20), finishes("s", 30)],
        [claims("a", 10, 20), finishes("f", 30), requeues("a", 40, 50)],
        [claims("a", 10, 20), finishes("f", 30), claims("b", 40, 50), requeues("a", 20, 30)],
        [look(None, 10)],
        [op("withdraw", 10, 20, entry=1), claims("a", 21, 30), ends("x")],
    ],
    ids=lambda way: " ".join(operation.name for operation in way),
)
def test_ways_that_an_entry_may_not_go(way: list[Operation]) -> None:
    assert of_queue(requests(5, 6), *way) == [Kind.ILLEGAL_CHANGE]


def test_an_entry_is_not_lost() -> None:
    assert of_queue(requests(5, 6), ends(None)) == [Kind.LOST_ENTRY]
    assert not of_queue(op("request", 5, None, entity=["t", "p"]), ends("i")), "nobody heard its id"
    assert of_queue(ends("i")) == [Kind.ILLEGAL_CHANGE], "nobody asked for it"


def test_an_entry_is_once() -> None:
    assert of_queue(requests(5, 6), requests(7, 8))[0] is Kind.DUPLICATE_ENTRY
    twice = op("entries", 9000, 9001, [(1, "r", None), (1, "s", None)])
    assert of_queue(requests(5, 6), twice) == [Kind.DUPLICATE_ENTRY]


# --- in general -------------------------------------------------------------------------------------------------


def test_an_error_that_nobody_raises_on_purpose() -> None:
    bug = Operation(
        process="p", number=1, name="look", began=1, ended=2, outcome=Outcome.UNKNOWN, error="BUG KeyError: 1"
    )
    assert kinds(bug) == [Kind.BUG]


def test_an_anomaly_shows_what_proves_it() -> None:
    first, second = opens(1, 0, 10), opens(1, 5, 15)
    [found] = anomalies([first, second])
    assert found.proof == (first, second)
    assert str(found).splitlines()[1:] == [f"    {first}", f"    {second}"]
    assert "open(type=default) -> ok [1]" in str(found)


@given(st.data())
def test_what_a_correct_queue_did_is_accepted_however_its_calls_overlapped(data: st.DataObject) -> None:
    """Each step of a random way happens at one instant; its call may begin earlier and be answered later, or never."""
    state, worker, at = "i", "", 0
    history = [requests(0, 1)]
    for _ in range(data.draw(st.integers(0, 8))):
        at += 10
        began, ended = at - data.draw(st.integers(0, 15)), at + data.draw(st.integers(0, 15))
        answered = data.draw(st.booleans()) if state != "r" else True
        if state == "i":
            state, worker = "w", data.draw(st.sampled_from("ab"))
            history.append(claims(worker, max(began, 0), ended if answered else None))
        elif state == "w" and data.draw(st.booleans()):
            state = "i"
            history.append(requeues(worker, max(began, 0), ended if answered else None, True if answered else None))
        elif state == "w":
            state = "r"
            history.append(op("committing", max(began, 0), ended if answered else None, entry=1, worker=worker, txn=1))
    assert not of_queue(*history, ends(state, worker if state == "w" else None))


@given(st.permutations(range(1, 7)), st.lists(st.integers(1, 30), min_size=6, max_size=6))
def test_write_ids_of_a_counter_are_accepted_and_a_swap_of_two_apart_is_not(
    order: list[int], lengths: list[int]
) -> None:
    """Ids are drawn at 100, 200, ...; calls reach around their instants without passing the neighbours'."""
    history = [
        op("allocate", 100 * drawn - lengths[drawn - 1], 100 * drawn + lengths[drawn - 1], drawn, txn=txn, table="t")
        for txn, drawn in enumerate(order, start=1)
    ]
    assert not kinds(*history)
    swapped = {1: 2, 2: 1}
    wrong = [
        op("allocate", it.began // MS, (it.ended or 0) // MS, swapped.get(it.value, it.value), **it.arguments)
        for it in history
    ]
    assert kinds(*wrong) == [Kind.WRITE_ID_ORDER]
