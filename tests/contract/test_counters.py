"""Counters raised above the numbers that files have, on each store (PROTOCOL 11.4)."""

from __future__ import annotations

from compactor.base.ids import TxnId, WriteId
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import TxnType

OPENING = NewTransaction(user="u", host="h", type=TxnType.COMPACTION, agent="compactor-advance")


def test_the_next_transaction_is_above_the_raised_one(metastore: Metastore) -> None:
    (before,) = metastore.transactions.open("u", "h")
    raised = TxnId(before + 100)
    assert metastore.marks.raise_transactions(raised, OPENING)
    assert not metastore.marks.raise_transactions(raised, OPENING)
    assert metastore.transactions.newest() == raised
    assert metastore.transactions.state(raised) in ("c", None)
    (after,) = metastore.transactions.open("u", "h")
    assert after > raised
    snapshot = metastore.transactions.snapshot(after)
    assert snapshot.is_valid(raised)
    assert snapshot.is_valid(TxnId(raised - 1)) or metastore.dialect.draws_early or raised - 1 in snapshot.open


def test_skipped_write_ids_count_as_committed(metastore: Metastore) -> None:
    (txn,) = metastore.transactions.open("u", "h")
    assert metastore.marks.raise_write_ids(txn, "Default", "T", WriteId(9))
    assert not metastore.marks.raise_write_ids(txn, "default", "t", WriteId(7))
    assert metastore.write_ids.next("default", "t") == 10
    metastore.transactions.commit(txn)
    valid = metastore.write_ids.valid("default", "t", metastore.transactions.snapshot())
    assert (valid.high_watermark, valid.open, valid.aborted) == (9, frozenset(), frozenset())


def test_write_ids_show_even_if_the_transaction_ends_otherwise(metastore: Metastore) -> None:
    """A crash before its commit: its own write ID is aborted, those below it count."""
    (txn,) = metastore.transactions.open("u", "h")
    metastore.marks.raise_write_ids(txn, "default", "t", WriteId(9))
    metastore.transactions.abort(txn, "timed out")
    valid = metastore.write_ids.valid("default", "t", metastore.transactions.snapshot())
    assert (valid.high_watermark, valid.open, valid.aborted) == (9, frozenset(), frozenset({9}))
