from __future__ import annotations

from sqlalchemy import insert, select

from compactor.acid.partition_names import escape_again
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.dialect import entity_is
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXN_COMPONENTS
from compactor.metastore.transactions.components import forget_aborted, is_of_entity, recorded_forms
from tests.support.aborted import aborted_of

T = Entity(database="default", table="t")
U = Entity(database="default", table="u")
TABLE = Entity(database="d", table="t")


def entity(metastore: Metastore, table: Table, value: str) -> Entity:
    return Entity(
        database="default", table="p", partition=metastore.embedded_catalog.add_partition(table, [value]).name
    )


def test_a_plain_name_has_one_form(metastore: Metastore, partitioned: Table) -> None:
    plain = entity(metastore, partitioned, "x")
    with metastore.database.read() as conn:
        assert recorded_forms(conn, plain) == ("d=x",)
        assert recorded_forms(conn, Entity(database="default", table="p")) == (None,)


def test_the_twice_escaped_form_counts_unless_it_is_another_partition(metastore: Metastore, partitioned: Table) -> None:
    """PROTOCOL 8: the other partition's aborted transactions must not be forgotten with ours."""
    escaped = entity(metastore, partitioned, "a b/c")
    assert escaped.partition is not None
    again = escape_again(escaped.partition)
    assert again != escaped.partition
    with metastore.database.read() as conn:
        assert recorded_forms(conn, escaped) == (escaped.partition, again, escaped.partition.lower())
    other = entity(metastore, partitioned, escaped.partition.removeprefix("d="))
    assert other.partition == again
    with metastore.database.read() as conn:
        assert recorded_forms(conn, escaped) == (escaped.partition, escaped.partition.lower())


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
        left = conn.execute(TXN_COMPONENTS.select().where(is_of_entity(conn, metastore.dialect, here))).all()
    assert [row.TC_TXNID for row in left] == [opened]


def written(metastore: Metastore, *entities: Entity, aborts: bool = True) -> TxnId:
    """Returns a transaction that wrote into these entities, and ended."""
    [txn] = metastore.transactions.open("u", "h")
    for entity in entities:
        write_id = metastore.write_ids.allocate(txn, entity.database, entity.table)
        metastore.write_ids.add_component(txn, entity, "i", write_id)
    if aborts:
        metastore.transactions.abort(txn, "by a test")
    else:
        metastore.transactions.commit(txn)
    return txn


def test_aborted_writes_of_one_entity_oldest_first(metastore: Metastore) -> None:
    first = written(metastore, T, U)
    written(metastore, T, aborts=False)
    last = written(metastore, T)
    assert [(w.txn, w.write_id) for w in metastore.components.aborted_writes(T)] == [(first, 1), (last, 3)]
    assert [(w.txn, w.write_id) for w in metastore.components.aborted_writes(U)] == [(first, 1)]
    assert all(0 < w.last_heartbeat <= metastore.now_ms() for w in metastore.components.aborted_writes(T))


def test_an_open_transactions_writes_are_none(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    assert metastore.components.aborted_writes(T) == []
    assert metastore.components.forget_aborted(T, [WriteId(1)]) == 0
    metastore.transactions.abort(txn, "late")
    assert len(metastore.components.aborted_writes(T)) == 1


def test_only_what_is_named_is_forgotten(metastore: Metastore) -> None:
    """PROTOCOL 8: a component stays until storage was asked about exactly its write ID."""
    for _ in range(3):
        written(metastore, T, U)
    assert metastore.components.forget_aborted(T, [WriteId(1), WriteId(3), WriteId(9)]) == 2
    assert [w.write_id for w in metastore.components.aborted_writes(T)] == [2]
    assert [w.write_id for w in metastore.components.aborted_writes(U)] == [1, 2, 3]
    assert metastore.components.forget_aborted(T, []) == 0


def test_more_writes_than_a_statement_names(metastore: Metastore) -> None:
    """PROTOCOL 10: with them, no entry could be ended that was cleaned together with this one."""
    written(metastore, T)
    assert metastore.components.forget_aborted(T, [WriteId(number) for number in range(300_000)]) == 1
    assert metastore.components.aborted_writes(T) == []


def test_the_partitions_of_some_write_ids(metastore: Metastore) -> None:
    for number, name in enumerate(("p=2", "p=1", "p=1", None), 1):
        [txn] = metastore.transactions.open("u", "h")
        part = Entity(database="d", table="t", partition=name)
        assert metastore.write_ids.allocate(txn, "d", "t") == number
        metastore.write_ids.add_component(txn, part, "i", WriteId(number))
        metastore.transactions.commit(txn)
    found = [
        metastore.components.written_partitions("d", "t", list(map(WriteId, ids))) for ids in ((), (1, 3), (2, 3), (4,))
    ]
    assert found == [[], ["p=1", "p=2"], ["p=1"], []]


def test_aborted_writers_are_counted(metastore: Metastore) -> None:
    for txn in metastore.transactions.open("u", "h", count=2):
        metastore.write_ids.add_component(txn, TABLE, "i", metastore.write_ids.allocate(txn, "d", "t"))
        metastore.transactions.abort(txn, "by a test")
    assert aborted_of(metastore, TABLE).count == 2
    assert metastore.components.aborts()[TABLE] == aborted_of(metastore, TABLE)


def sql(entity: Entity, *partitions: str | None) -> str:
    rows = select(COMPACTION_QUEUE.c.CQ_ID).where(entity_is(COMPACTION_QUEUE, "CQ", entity, *partitions))
    return " ".join(
        str(rows.compile(compile_kwargs={"literal_binds": True})).split("WHERE ")[1].replace('"', "").split()
    )


def test_a_table_without_partitions_is_the_row_without_one() -> None:
    wanted = "CQ_PARTITION IS NULL"
    assert wanted in sql(TABLE).replace("COMPACTION_QUEUE.", "")


def test_a_partition_is_its_own_name_or_any_of_those_given() -> None:
    one = Entity(database="d", table="t", partition="p=1")
    assert "CQ_PARTITION IN ('p=1')" in sql(one).replace("COMPACTION_QUEUE.", "")
    assert "CQ_PARTITION IN ('p=1', 'p=%31')" in sql(one, "p=1", "p=%31").replace("COMPACTION_QUEUE.", "")
