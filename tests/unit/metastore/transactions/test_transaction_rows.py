from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from compactor.acid import txn_states
from compactor.base.ids import TxnId
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import MIN_HISTORY_LEVEL, TXN_COMPONENTS, TXNS, WRITE_SET
from compactor.metastore.transactions import transaction_rows as txn_rows
from compactor.metastore.transactions.transaction_rows import TxnRow, TxnType


@pytest.mark.parametrize(("code", "type"), [(0, TxnType.DEFAULT), (3, TxnType.COMPACTION), (99, TxnType.DEFAULT)])
def test_a_type_of_a_newer_hive_writes(code: int, type: TxnType) -> None:
    assert TxnType(code) is type


def test_which_types_compact() -> None:
    assert {type for type in TxnType if type.compacts} == {TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION}


def test_rows_as_they_are_found(metastore: Metastore) -> None:
    [first] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    metastore.transactions.open("u", "h")
    with metastore.database.write() as conn:
        row = txn_rows.locked_row(conn, metastore.dialect, first)
        assert row == TxnRow(state=txn_states.OPEN, type=TxnType.COMPACTION)
        assert txn_rows.locked_row(conn, metastore.dialect, TxnId(99)) is None
        assert txn_rows.lowest_open_id(conn) == first
        conn.execute(TXNS.update().values(TXN_STATE="c"))
        assert txn_rows.lowest_open_id(conn) is None


def test_only_an_open_transaction_is_aborted_and_its_reason_fits(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    with metastore.database.write() as conn:
        assert txn_rows.mark_aborted(conn, metastore.dialect, txn, "x" * 500)
        assert not txn_rows.mark_aborted(conn, metastore.dialect, txn, "again")
        reason = select(TXNS.c.TXN_META_INFO).where(TXNS.c.TXN_STATE == txn_states.ABORTED)
        assert conn.execute(reason).scalar_one() == "x" * 128
        assert conn.execute(select(MIN_HISTORY_LEVEL)).all() == []


def test_a_commits_write_set_is_what_it_updated_or_deleted(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    base = {"TC_TXNID": txn, "TC_DATABASE": "d", "TC_PARTITION": None, "TC_WRITEID": 1}
    rows = [base | {"TC_TABLE": table, "TC_OPERATION_TYPE": kind} for table, kind in zip("abbc", "iudu", strict=True)]
    with metastore.database.write() as conn:
        conn.execute(insert(TXN_COMPONENTS), rows)
        txn_rows.write_set(conn, txn, TxnId(7))
        txn_rows.mark_committed(conn, metastore.dialect, [txn])
        found = conn.execute(select(WRITE_SET.c.WS_TABLE, WRITE_SET.c.WS_OPERATION_TYPE, WRITE_SET.c.WS_COMMIT_ID))
        assert sorted(map(tuple, found)) == [("b", "d", 7), ("b", "u", 7), ("c", "u", 7)]
        assert conn.execute(select(TXN_COMPONENTS)).all() == []
