"""The critical section in which a writer names its files and commits."""

from __future__ import annotations

import pytest

from compactor.base.errors import Disagreement, NotFound, TransactionAborted, WriteConflict
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.metastore.notifications.write_events import Write
from compactor.metastore.schema import tables as t

T = Entity(database="default", table="t")


def writer(metastore: Metastore, operation: str = "i") -> TxnId:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, T.database, T.table)
    metastore.write_ids.add_component(txn, T, operation, write_id)
    return txn


def commit(metastore: Metastore, txn: TxnId, named: list[TxnId]) -> None:
    with metastore.transactions.committing(txn):
        named.append(txn)


def components(metastore: Metastore) -> list[tuple[object, ...]]:
    with metastore.database.read() as conn:
        rows = conn.execute(t.TXN_COMPONENTS.select()).all()
    return sorted((row.TC_TXNID, row.TC_PARTITION, row.TC_OPERATION_TYPE, row.TC_WRITEID) for row in rows)


def test_what_is_named_within_is_committed_with_it(metastore: Metastore) -> None:
    named: list[TxnId] = []
    txn = writer(metastore)
    commit(metastore, txn, named)
    assert named == [txn]
    assert metastore.transactions.snapshot().is_valid(txn)
    assert components(metastore) == []


def test_a_body_that_fails_leaves_the_transaction_open(metastore: Metastore) -> None:
    txn = writer(metastore)
    with pytest.raises(RuntimeError), metastore.transactions.committing(txn):
        raise RuntimeError
    assert metastore.transactions.state(txn) == "o"


def test_whoever_has_ended_or_loses_names_nothing(metastore: Metastore) -> None:
    """PROTOCOL 14.1: what it would name could not be told from what is committed once it is forgotten."""
    named: list[TxnId] = []
    aborted, loser, winner = writer(metastore), writer(metastore, "u"), writer(metastore, "u")
    metastore.transactions.abort(aborted, "timed out")
    with pytest.raises(TransactionAborted):
        commit(metastore, aborted, named)
    with pytest.raises(NotFound):
        commit(metastore, TxnId(999), named)
    metastore.transactions.commit(winner)
    with pytest.raises(WriteConflict) as lost:
        commit(metastore, loser, named)
    assert lost.value.winner == winner
    assert metastore.transactions.state(loser) == "a"
    assert named == []


def test_a_number_that_was_given_out_again_is_somebody_elses(metastore: Metastore) -> None:
    """PROTOCOL 11.2.11: whoever was paused while an older copy was put back neither commits nor aborts it."""
    [txn] = metastore.transactions.open("u", "h", agent="the other one")
    for act in (metastore.transactions.commit, lambda txn, agent: metastore.transactions.abort(txn, "", agent=agent)):
        with pytest.raises(Disagreement, match=r"opened by paused.* by the other one"):
            act(txn, agent="paused")
    with pytest.raises(Disagreement), metastore.transactions.committing(txn, agent="paused"):
        raise AssertionError("nothing may be named")
    assert metastore.transactions.state(txn) == "o"
    with metastore.transactions.committing(txn, agent="the other one"):
        pass
    assert metastore.transactions.snapshot().is_valid(txn)


def test_what_the_database_does_not_know_as_written_is_not_named(metastore: Metastore) -> None:
    """PROTOCOL 11.2.11: the transaction is in the older copy, and its write ID is another's by now."""
    txn = writer(metastore)
    [(_, _, _, number)] = components(metastore)
    assert isinstance(number, int)
    for entity, write_id in ((T, number + 1), (Entity(database="default", table="u"), number)):
        written = Write(entity=entity, write_id=WriteId(write_id))
        with (
            pytest.raises(Disagreement, match="restored to an older copy"),
            metastore.transactions.committing(txn, [written]),
        ):
            raise AssertionError("nothing may be named")
    assert metastore.transactions.state(txn) == "o"


def test_partitions_take_the_place_of_the_provisional_component(metastore: Metastore) -> None:
    """As Hive's dynamic partitions do (trace tx15 to tx17)."""
    txn = writer(metastore)
    [(_, _, _, write_id)] = components(metastore)
    assert isinstance(write_id, int)
    number = metastore.write_ids.allocated_to(txn)[0][2]
    metastore.write_ids.add_partitions(txn, T, ["p=2", "p=1"], "i", number)
    assert components(metastore) == [(txn, "p=1", "i", write_id), (txn, "p=2", "i", write_id)]


def test_a_writer_that_commits_meanwhile_is_seen(metastore: Metastore) -> None:
    """PROTOCOL 14.2: one that only inserts is not seen by older ones; to one that changes rows, younger ones lose, too."""
    first, second, changing, young = (writer(metastore, operation) for operation in ("i", "i", "d", "d"))
    later = metastore.write_ids.later_writer
    assert later(first, "default", "t") is None
    metastore.transactions.commit(second)
    assert later(first, "default", "t") == second
    assert later(first, "default", "t", only_changes=True) is None
    assert later(changing, "default", "t") is None
    metastore.transactions.commit(changing)
    assert [later(txn, "default", "t", only_changes=True) for txn in (first, young)] == [changing, changing]
    assert later(first, "default", "other") is None


def test_statistics_of_what_was_written_are_no_longer_exact(metastore: Metastore) -> None:
    """PROTOCOL 12: Hive would answer ``count(*)`` from a mark that is older than the rows."""
    mark = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "transactional": "true"}
    catalog = metastore.embedded_catalog
    columns = [Column(name="a", type="int")]
    table = catalog.create_table(NewTable("default", "t", "file:/t", columns, parameters=mark))
    other = catalog.create_table(NewTable("default", "o", "file:/o", columns, parameters=mark))
    key = Column(name="p", type="int")
    parted = catalog.create_table(NewTable("default", "q", "file:/q", columns, parameters=mark, partition_keys=[key]))
    parts = [catalog.add_partition(parted, [value]) for value in "12"]
    with metastore.database.write() as conn:
        rows = [{"PART_ID": part.id, "PARAM_KEY": "COLUMN_STATS_ACCURATE", "PARAM_VALUE": "{}"} for part in parts]
        conn.execute(t.PARTITION_PARAMS.insert(), rows)
    txn = writer(metastore)
    number = metastore.write_ids.allocated_to(txn)[0][2]
    partition = Entity(database="default", table="q", partition="p=1")
    assert metastore.write_ids.allocate(txn, "default", "q") == number
    metastore.write_ids.add_component(txn, partition, "i", number)
    written = [Write(entity=entity, write_id=number) for entity in (T, partition)]
    with metastore.transactions.committing(txn, written):
        pass
    with metastore.database.read() as conn:
        marked = {row.TBL_ID for row in conn.execute(t.TABLE_PARAMS.select()) if row.PARAM_KEY.startswith("COLUMN")}
        of_parts = conn.execute(t.PARTITION_PARAMS.select())
        marked_parts = [row.PART_ID for row in of_parts if row.PARAM_KEY.startswith("COLUMN")]
    assert table.id not in marked
    assert marked == {other.id, parted.id}
    assert marked_parts == [parts[1].id]
