from __future__ import annotations

from sqlalchemy import insert

from compactor.acid.partition_names import escape_again
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import TXN_COMPONENTS
from compactor.metastore.transactions.components import forget_aborted, of_entity, recorded_forms


def entity(metastore: Metastore, table: Table, value: str) -> Entity:
    return Entity(
        database="default", table="p", partition=metastore.embedded_catalog.add_partition(table, [value]).name
    )


def test_a_plain_name_has_one_form(metastore: Metastore, partitioned: Table) -> None:
    plain = entity(metastore, partitioned, "x")
    with metastore.database.read() as conn:
        assert recorded_forms(conn, metastore.dialect, plain) == ("d=x",)
        assert recorded_forms(conn, metastore.dialect, Entity(database="default", table="p")) == (None,)


def test_the_twice_escaped_form_counts_unless_it_is_another_partition(metastore: Metastore, partitioned: Table) -> None:
    """PROTOCOL 8: the other partition's aborted transactions must not be forgotten with ours."""
    escaped = entity(metastore, partitioned, "a b/c")
    assert escaped.partition is not None
    again = escape_again(escaped.partition)
    assert again != escaped.partition
    with metastore.database.read() as conn:
        assert recorded_forms(conn, metastore.dialect, escaped) == (escaped.partition, again)
    other = entity(metastore, partitioned, escaped.partition.removeprefix("d="))
    assert other.partition == again
    with metastore.database.read() as conn:
        assert recorded_forms(conn, metastore.dialect, escaped) == (escaped.partition,)


def test_a_row_without_a_write_id_goes_with_the_last_that_has_one(metastore: Metastore, partitioned: Table) -> None:
    here = entity(metastore, partitioned, "x")
    [txn, opened] = metastore.transactions.open("u", "h", count=2)
    base = {"TC_DATABASE": "default", "TC_TABLE": "p", "TC_PARTITION": "d=x", "TC_OPERATION_TYPE": "i"}
    rows = [base | {"TC_TXNID": t, "TC_WRITEID": w} for t, w in ((txn, 1), (txn, 2), (txn, None), (opened, None))]
    with metastore.database.write() as conn:
        conn.execute(insert(TXN_COMPONENTS), rows)
    metastore.transactions.abort(txn, "by a test")
    with metastore.database.write() as conn:
        assert forget_aborted(conn, metastore.dialect, here, [WriteId(1)]) == 1
        assert forget_aborted(conn, metastore.dialect, here, [], WriteId(2)) == 2
        assert forget_aborted(conn, metastore.dialect, here, [], WriteId(99)) == 0
        left = conn.execute(TXN_COMPONENTS.select().where(of_entity(conn, metastore.dialect, here))).all()
    assert [row.TC_TXNID for row in left] == [opened]
