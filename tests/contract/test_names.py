"""Two names that differ in anything are two, whatever the database's collation says (MySQL's takes p=A for p=a)."""

from __future__ import annotations

import pytest

from compactor.base.errors import TransactionAborted
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from tests.support.aborted import aborted_of
from tests.support.candidates import candidates_of

SMALL, LARGE, BLANK, UMLAUT, PLAIN = (
    Entity(database="default", table="t", partition=f"p={value}") for value in ("us", "US", "us ", "zürich", "zurich")
)
ALIKE = [(SMALL, LARGE), (SMALL, BLANK), (UMLAUT, PLAIN)]


def write(metastore: Metastore, entity: Entity, operation: str = "i") -> tuple[TxnId, WriteId]:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, entity.database, entity.table)
    metastore.write_ids.add_component(txn, entity, operation, write_id)
    return txn, write_id


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("turned", [False, True])
def test_aborted_writes_of_the_other_case_are_not_forgotten(turned: bool, metastore: Metastore) -> None:
    """PROTOCOL 8; Hive 3.1 itself records both under one name (``test_lowered_names.py``)."""
    keys, columns = [Column(name="p", type="string")], [Column(name="a", type="int")]
    table = metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", columns, partition_keys=keys))
    for value in ("us", "US"):
        metastore.embedded_catalog.add_partition(table, [value])
    test_aborted_writes_of_the_other_are_not_forgotten(SMALL, LARGE, turned, metastore)


@pytest.mark.parametrize(("one", "other"), ALIKE[1:])
@pytest.mark.parametrize("turned", [False, True])
def test_aborted_writes_of_the_other_are_not_forgotten(
    one: Entity, other: Entity, turned: bool, metastore: Metastore
) -> None:
    """PROTOCOL 8: what is forgotten counts as committed, so it must be of this very partition."""
    if turned:
        one, other = other, one
    ids = []
    for entity in (one, other):
        txn, write_id = write(metastore, entity)
        metastore.transactions.abort(txn, "rollback")
        ids.append(write_id)
    assert metastore.components.forget_aborted(one, ids) == 1
    assert [found.write_id for found in metastore.components.aborted_writes(other)] == [ids[1]]
    assert aborted_of(metastore, one).count == 0
    assert aborted_of(metastore, other).count == 1


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_each_has_its_own_request(one: Entity, other: Entity, metastore: Metastore) -> None:
    for entity in (one, other):
        metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-test"))
    assert {entry.entity for entry in metastore.entries.queue()} == {one, other}


@pytest.mark.parametrize(("one", "other"), [(SMALL, LARGE), (UMLAUT, PLAIN)])
def test_each_is_a_candidate(one: Entity, other: Entity, metastore: Metastore) -> None:
    for entity in (one, other):
        metastore.transactions.commit(write(metastore, entity)[0])
        metastore.transactions.abort(write(metastore, entity)[0], "rollback")
    assert set(candidates_of(metastore)) == {one, other}
    assert {entity: found.count for entity, found in metastore.components.aborts().items()} == {one: 1, other: 1}


def test_writers_of_alike_partitions_do_not_conflict(metastore: Metastore) -> None:
    first, second = (write(metastore, entity, "u")[0] for entity in (SMALL, LARGE))
    for txn in (second, first):
        metastore.transactions.commit(txn)


def test_writers_of_one_partition_conflict_whatever_its_characters(metastore: Metastore) -> None:
    first, second = (write(metastore, UMLAUT, "u")[0] for _ in range(2))
    metastore.transactions.commit(second)
    with pytest.raises(TransactionAborted):
        metastore.transactions.commit(first)


def test_locations_of_partitions_are_read_without_the_rest(metastore: Metastore) -> None:
    keys = [Column(name="p", type="string")]
    table = metastore.embedded_catalog.create_table(
        NewTable("default", "t", "/t", [Column(name="a", type="int")], partition_keys=keys)
    )
    for value, location in (("us", None), ("US", "/far/US"), ("a/b", None)):
        metastore.embedded_catalog.add_partition(table, [value], location)
    assert metastore.catalog.locations(table) == {"p=us": "/t/p=us", "p=US": "/far/US", "p=a%2Fb": "/t/p=a%2Fb"}
    assert metastore.catalog.is_known("Default", "T")
    assert not metastore.catalog.is_known("default", "other")


def test_dropping_one_spares_the_other(metastore: Metastore) -> None:
    keys = [Column(name="p", type="string")]
    table = metastore.embedded_catalog.create_table(
        NewTable("default", "t", "/t", [Column(name="a", type="int")], partition_keys=keys)
    )
    for value in ("us", "US"):
        metastore.embedded_catalog.add_partition(table, [value])
    for entity in (SMALL, LARGE):
        metastore.transactions.commit(write(metastore, entity)[0])
    metastore.embedded_catalog.drop_partition(table, "p=US")
    assert candidates_of(metastore) == [SMALL]
    assert [part.name for part in metastore.catalog.partitions(table)] == ["p=us"]
