from __future__ import annotations

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.metastore import Metastore

T = Entity(database="default", table="t")
U = Entity(database="default", table="u")


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
    assert [(w.txn, w.write_id) for w in metastore.aborts.writes(T)] == [(first, 1), (last, 3)]
    assert [(w.txn, w.write_id) for w in metastore.aborts.writes(U)] == [(first, 1)]
    assert all(0 < w.last_heartbeat <= metastore.now_ms() for w in metastore.aborts.writes(T))


def test_an_open_transactions_writes_are_none(metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    assert metastore.aborts.writes(T) == []
    assert metastore.aborts.forget(T, [WriteId(1)]) == 0
    metastore.transactions.abort(txn, "late")
    assert len(metastore.aborts.writes(T)) == 1


def test_only_what_is_named_is_forgotten(metastore: Metastore) -> None:
    """PROTOCOL 8: a component stays until storage was asked about exactly its write ID."""
    for _ in range(3):
        written(metastore, T, U)
    assert metastore.aborts.forget(T, [WriteId(1), WriteId(3), WriteId(9)]) == 2
    assert [w.write_id for w in metastore.aborts.writes(T)] == [2]
    assert [w.write_id for w in metastore.aborts.writes(U)] == [1, 2, 3]
    assert metastore.aborts.forget(T, []) == 0


def test_more_writes_than_a_statement_names(metastore: Metastore) -> None:
    """PROTOCOL 10: with them, no entry could be ended that was cleaned together with this one."""
    written(metastore, T)
    assert metastore.aborts.forget(T, [WriteId(number) for number in range(300_000)]) == 1
    assert metastore.aborts.writes(T) == []
