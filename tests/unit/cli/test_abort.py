from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]
T = Entity(database="default", table="t")


def test_an_open_transaction_is_aborted_and_no_other(compactor: Compactor, metastore: Metastore) -> None:
    first, second = (metastore.transactions.open("u", "h")[0] for _ in range(2))
    done = compactor("abort", "transaction", str(first), "--json")
    assert json.loads(done.stdout) == {"txnid": first, "state": "ABORTED"}
    assert (metastore.transactions.state(first), metastore.transactions.state(second)) == ("a", "o")
    metastore.transactions.commit(second)
    for txn, word, code in ((first, "aborted already", 1), (second, "committed", 1), (99, "not in TXNS", 2)):
        again = compactor("abort", "transaction", str(txn))
        assert (again.exit_code, word in again.stderr) == (code, True)


def test_several_transactions_are_aborted_and_those_that_cannot_be_are_named(
    compactor: Compactor, metastore: Metastore
) -> None:
    first, second, third = (metastore.transactions.open("u", "h")[0] for _ in range(3))
    metastore.transactions.commit(second)
    done = compactor("abort", "transaction", *map(str, (first, second, first, 99, third)))
    assert done.stdout == f"transaction {first} is aborted\ntransaction {third} is aborted\n"
    assert done.exit_code == 1
    assert f"transaction {second} is committed; transaction 99 is not in TXNS" in done.stderr
    assert [metastore.transactions.state(txn) for txn in (first, second, third)] == ["a", "c", "a"]


def test_one_reason_is_given_once_and_ids_that_never_were_end_with_2(
    compactor: Compactor, metastore: Metastore
) -> None:
    """``transactions`` is how Hive's statement spells it."""
    [txn] = metastore.transactions.open("u", "h")
    observer = compactor("--set", "compactor.mode=observe", "abort", "transactions", str(txn), "77777")
    assert (observer.exit_code, observer.stderr.count("compactor.mode is observe")) == (1, 1)
    never = compactor("abort", "transactions", "77777", "88888")
    assert (never.exit_code, never.stderr.count("is not in TXNS")) == (2, 2)
    assert compactor("abort", "transactions", str(txn), "77777").exit_code == 2
    assert compactor("abort", "transactions", str(txn), "77777").exit_code == 1  # one is there, and has ended


def test_a_request_is_taken_off_the_queue(compactor: Compactor, metastore: Metastore) -> None:
    entry = metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))
    assert compactor("abort", "compaction", str(entry)).stdout == f"compaction {entry} is aborted\n"
    assert metastore.entries.queue() == []
    assert compactor("abort", "compaction", str(entry)).exit_code == 2


def test_an_observer_aborts_nothing(compactor: Compactor, metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    entry = metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))
    for what, number in (("transaction", txn), ("compaction", entry)):
        refused = compactor("--set", "compactor.mode=observe", "abort", what, str(number))
        assert refused.exit_code == 1
        assert "compactor.mode is observe (flag); set request or more" in refused.stderr
    assert metastore.transactions.state(txn) == "o"
    assert [e.id for e in metastore.entries.queue()] == [entry]


@pytest.mark.parametrize("number", ["0", "-1", "x", ""])
def test_ids_are_above_zero(compactor: Compactor, number: str) -> None:
    assert compactor("abort", "transaction", "--", number).exit_code == 2
