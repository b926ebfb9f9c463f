"""The compaction queue: requests, claims, cleaning and candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select

from compactor.acid.partition_names import escape_again
from compactor.base.errors import NotFound, NotSupported, Refused
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.cleaning_rows import CleanedEntry
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.support.aborted import aborted_of
from tests.support.candidates import candidates_of
from tests.support.committing import committing

WORKER = "compactor-1"
T = Entity(database="default", table="t")


@pytest.fixture
def p(metastore: Metastore) -> Table:
    keys = [Column(name="d", type="string")]
    return metastore.embedded_catalog.create_table(
        NewTable("default", "p", "/w/p", [Column(name="a", type="int")], partition_keys=keys)
    )


@pytest.fixture
def unpartitioned(metastore: Metastore) -> Table:
    return metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))


def part(metastore: Metastore, table: Table, value: str) -> Entity:
    return Entity(
        database="default", table=table.name, partition=metastore.embedded_catalog.add_partition(table, [value]).name
    )


def write(metastore: Metastore, *entities: Entity, operation: str = "i", abort: bool = False) -> WriteId:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, "default", entities[0].table)
    for entity in entities:
        metastore.write_ids.add_component(txn, entity, operation, write_id)
    if abort:
        metastore.transactions.abort(txn, "rollback")
    else:
        metastore.transactions.commit(txn)
    return write_id


def request(metastore: Metastore, entity: Entity = T, **more: Any) -> int:
    values: dict[str, Any] = {"type": CompactionType.MAJOR, "initiator": "compactor-test"} | more
    return metastore.requests.request(Request(entity=entity, **values))


def ready(metastore: Metastore, entity: Entity, highest: WriteId) -> Entry:
    """Creates an entry that is compacted up to ``highest``."""
    entry_id = request(metastore, entity)
    entry = metastore.claims.claim(WORKER, "test", pool_timeout_ms=0, ids=[entry_id])
    assert entry is not None
    [txn] = metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
    entry = metastore.claims.record(entry, WORKER, txn, None, highest)
    table = metastore.catalog.table(entity.database, entity.table)
    found = None if entity.partition is None else metastore.catalog.partition(table, entity.partition)
    place = (found or table).location
    with committing(
        metastore, entry, WORKER, txn, table_id=table.id, partition_id=found.id if found else None, location=place
    ):
        pass
    return metastore.entries.get(entry_id)


def completed(metastore: Metastore) -> list[tuple[str | None, int | None]]:
    columns = t.COMPLETED_TXN_COMPONENTS.c
    with metastore.database.read() as conn:
        found = conn.execute(select(columns.CTC_PARTITION, columns.CTC_WRITEID).order_by(columns.CTC_TXNID)).all()
    return [(row[0], row[1]) for row in found]


def aborted(metastore: Metastore) -> list[tuple[str | None, int | None]]:
    columns = t.TXN_COMPONENTS.c
    with metastore.database.read() as conn:
        found = conn.execute(select(columns.TC_PARTITION, columns.TC_WRITEID).order_by(columns.TC_TXNID)).all()
    return [(row[0], row[1]) for row in found]


# --- request -------------------------------------------------------------------------------------------------------


def test_a_request_is_kept_as_asked(metastore: Metastore) -> None:
    properties = {"compactor.mapreduce.map.memory.mb": "512", "ü": ""}
    asked = {"pool": "p1", "properties": properties, "run_as": "me", "buckets": 3, "order_by": "order by a desc"}
    entry = metastore.entries.get(request(metastore, **asked))
    assert {name: getattr(entry, name) for name in asked} == asked
    assert (entry.state, entry.initiator_id, entry.retry_retention) == (State.INITIATED, "compactor-test", 0)


def test_a_second_request_is_refused_in_hives_words(metastore: Metastore) -> None:
    first = request(metastore)
    with pytest.raises(Refused) as refused:
        request(metastore, type=CompactionType.MINOR)
    assert str(refused.value) == f"Compaction is already scheduled with state='initiated' and id={first}"
    metastore.claims.claim(WORKER, "test", pool_timeout_ms=0)
    with pytest.raises(Refused, match="state='working'"):
        request(metastore)
    request(metastore, Entity(database="default", table="other"))


def test_ready_for_cleaning_only_refuses_while_nothing_was_written_since(
    metastore: Metastore, unpartitioned: Table
) -> None:
    ready(metastore, T, write(metastore, T))
    with pytest.raises(Refused, match="state='ready for cleaning'"):
        request(metastore)
    write(metastore, T)
    request(metastore)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_twice_escaped_names_are_the_same_partition(order: tuple[int, int], metastore: Metastore) -> None:
    names = ("d=a%3Db", escape_again("d=a%3Db"))
    first, second = (Entity(database="default", table="p", partition=names[index]) for index in order)
    request(metastore, first)
    with pytest.raises(Refused, match="already scheduled"):
        request(metastore, second)


def test_unknown_types_are_left_alone_but_refuse_a_second(metastore: Metastore) -> None:
    """A newer Hive may queue other types; one such row must not stop a pass over the others."""
    foreign = request(metastore)
    metastore.requests.did_not_initiate(T, "x")
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.update().values(CQ_TYPE="z"))
        conn.execute(t.COMPLETED_COMPACTIONS.update().values(CC_TYPE="z"))
    assert metastore.entries.queue() == metastore.entries.history() == []
    assert metastore.claims.claim(WORKER, "test", pool_timeout_ms=0) is None
    with pytest.raises(Refused, match=f"id={foreign}"):
        request(metastore)
    with pytest.raises(NotSupported, match="type 'z'"):
        metastore.claims.abort_request(foreign)


def iceberg(metastore: Metastore, name: str, value: str = "ICEBERG") -> Entity:
    """Creates a table with the properties that Hive 4.1 gives to one of Iceberg."""
    columns, parameters = [Column(name="a", type="int")], {"table_type": value, "EXTERNAL": "TRUE"}
    metastore.embedded_catalog.create_table(
        NewTable("default", name, f"/w/{name}", columns, type="EXTERNAL_TABLE", parameters=parameters)
    )
    return Entity(database="default", table=name)


@pytest.mark.usefixtures("hive4")
def test_rows_of_iceberg_tables_are_left_to_hive(metastore: Metastore, unpartitioned: Table) -> None:
    """Hive 4.1 and later queues them with the usual types, and with the names of Iceberg's own partitions."""
    names = (iceberg(metastore, "ice"), Entity(database="default", table="ice", partition="p=1"))
    rows = [request(metastore, entity) for entity in (*names, iceberg(metastore, "cold", "iceberg"))]
    kind = request(metastore, Entity(database="default", table="chosen"))
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.update().where(t.COMPACTION_QUEUE.c.CQ_ID == kind).values(CQ_TYPE="s"))
    rows.append(kind)
    ours = [request(metastore), request(metastore, iceberg(metastore, "other", "hive"))]
    before = queue_rows(metastore)
    shown = {entry.id: entry.left_to for entry in metastore.entries.queue()}
    assert {number: left is not None for number, left in shown.items()} == dict.fromkeys(rows, True) | dict.fromkeys(
        ours, False
    )
    assert {entry.id for entry in metastore.entries.queue_page(limit=9).entries if entry.left_to} == set(rows)
    assert [entry.id for entry in metastore.entries.waiting()] == ours
    assert metastore.entries.count_queued() == {State.INITIATED: 2}
    assert metastore.claims.claim(WORKER, "test", pool_timeout_ms=0, ids=rows) is None
    assert metastore.claims.claim_all(dict.fromkeys(rows, WORKER), "test") == []
    for number in rows:
        assert metastore.entries.get(number).left_to is not None
        with pytest.raises(Refused, match="Iceberg"):
            metastore.claims.abort_request(number)
    assert queue_rows(metastore) == before
    claimed = [metastore.claims.claim(WORKER, "test", pool_timeout_ms=0) for _ in range(3)]
    assert [None if entry is None else entry.id for entry in claimed] == [*ours, None]
    assert {number: row for number, row in queue_rows(metastore).items() if number in rows} == {
        number: row for number, row in before.items() if number in rows
    }


@pytest.mark.usefixtures("hive4")
@pytest.mark.parametrize("state", ["w", "r"])
def test_a_row_of_iceberg_that_hive_works_on_is_left_to_it(state: str, metastore: Metastore) -> None:
    number = request(metastore, iceberg(metastore, "ice"))
    values = {"CQ_STATE": state, "CQ_WORKER_ID": "host-17", "CQ_START": 1, "CQ_HIGHEST_WRITE_ID": 1}
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.update().values(**values))
    before = queue_rows(metastore)
    assert metastore.entries.working() == metastore.cleaning.ready_for_cleaning(1 << 60) == []
    assert metastore.entries.oldest(State(state)) is None
    assert metastore.entries.count_working_since(1 << 60) == 0
    with pytest.raises(Refused, match="Iceberg"):
        metastore.claims.abort_running(number)
    assert queue_rows(metastore) == before


@pytest.mark.usefixtures("hive4")
def test_rows_of_soft_deleted_tables_are_left_to_hives_cleaner(metastore: Metastore, unpartitioned: Table) -> None:
    """Hive's ``submitForCleanup``. The table that is there now is another one, which may be compacted meanwhile."""
    soft = request(metastore, properties={"location": "/w/t.v7", "ifPurge": "true"})
    values = {"CQ_STATE": "r", "CQ_HIGHEST_WRITE_ID": write(metastore, T), "CQ_NEXT_TXN_ID": 1}
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.update().values(**values))
    before = queue_rows(metastore)
    assert metastore.cleaning.ready_for_cleaning(1 << 60) == metastore.cleaning.backing_off(0) == []
    assert metastore.entries.count_queued() == {}
    assert "soft-deleted" in (metastore.entries.get(soft).left_to or "")
    with pytest.raises(Refused, match="soft-deleted"):
        metastore.claims.abort_request(soft)
    assert queue_rows(metastore) == before
    ours = request(metastore, properties={"location": "/elsewhere"})
    assert metastore.entries.get(ours).left_to is None  # a waiting request, whatever its properties


def queue_rows(metastore: Metastore) -> dict[int, dict[str, Any]]:
    with metastore.database.read() as conn:
        return {row["CQ_ID"]: dict(row) for row in conn.execute(select(t.COMPACTION_QUEUE)).mappings()}


def test_properties_that_do_not_fit_are_refused(metastore: Metastore) -> None:
    with pytest.raises(Refused, match="2048"):
        request(metastore, properties={"k": "x" * 2048})
    assert metastore.entries.queue() == []


def test_abort_request(metastore: Metastore) -> None:
    first = request(metastore)
    metastore.claims.abort_request(first)
    entry = metastore.entries.get(first)
    assert (entry.state, entry.error) == (State.ABORTED, "Compaction Aborted by Abort Comapction request.")
    with pytest.raises(NotFound, match=f"compaction {first}"):
        metastore.claims.abort_request(first)
    second = request(metastore)
    metastore.claims.claim(WORKER, "test", pool_timeout_ms=0)
    with pytest.raises(Refused, match="working"):
        metastore.claims.abort_request(second)


def test_did_not_initiate_is_in_the_history_alone(metastore: Metastore) -> None:
    entry_id = metastore.requests.did_not_initiate(T, "failed twice", initiator="compactor-h")
    entry = metastore.entries.get(entry_id)
    assert (entry.state, entry.type, entry.error) == (State.DID_NOT_INITIATE, CompactionType.MINOR, "failed twice")
    assert entry.start == entry.end
    assert metastore.entries.queue() == []
    assert request(metastore) == entry_id + 1


# --- claim --------------------------------------------------------------------------------------------------------


def claimed(metastore: Metastore, **how: Any) -> int | None:
    entry = metastore.claims.claim(WORKER, "test", **({"pool_timeout_ms": 60_000} | how))
    return None if entry is None else entry.id


def test_claims_come_in_order_and_by_pool(metastore: Metastore) -> None:
    entities = [Entity(database="default", table=name) for name in "abcd"]
    a, b, c, d = (
        request(metastore, entity, pool=pool) for entity, pool in zip(entities, (None, "p1", None, "p2"), strict=True)
    )
    assert claimed(metastore, pool="p2") == d
    assert claimed(metastore) == a
    assert claimed(metastore) == c
    assert claimed(metastore) is None
    assert claimed(metastore, pool_timeout_ms=-60_000) == b  # waited for its pool too long


def test_a_batch_claims_its_own_entries_only(metastore: Metastore) -> None:
    first = request(metastore)
    second = request(metastore, Entity(database="default", table="b"), pool="p1")
    assert claimed(metastore, ids=[second]) == second
    assert claimed(metastore, ids=[second, 99]) is None
    assert claimed(metastore, ids=[]) is None
    assert claimed(metastore) == first
    assert [entry.id for entry in metastore.entries.working()] == [first, second]


def test_queue_filters(metastore: Metastore) -> None:
    first = request(metastore)
    second = request(metastore, Entity(database="default", table="p", partition="d=1"), pool="p1")
    claimed(metastore)

    def ids(**filters: Any) -> list[int]:
        return [entry.id for entry in metastore.entries.queue(**filters)]

    assert ids() == [first, second]
    assert ids(database="default", table="p") == [second]
    assert ids(partition="d=1") == [second]
    assert ids(pool="p1") == [second]
    assert ids(states=[State.WORKING]) == [first]
    assert ids(ids=[second]) == [second]
    assert ids(database="other") == []


# --- clean --------------------------------------------------------------------------------------------------------


def test_only_the_lowest_of_an_entity_is_cleaned(metastore: Metastore, unpartitioned: Table) -> None:
    first = ready(metastore, T, write(metastore, T))
    second = ready(metastore, T, write(metastore, T))
    now = second.commit_time or 0
    assert metastore.cleaning.ready_for_cleaning(now) == [first]
    metastore.cleaning.mark_cleaned(first, [], all_below=True)
    assert metastore.cleaning.ready_for_cleaning(now) == [second]


def test_back_off(metastore: Metastore, unpartitioned: Table) -> None:
    entry = ready(metastore, T, write(metastore, T))
    metastore.cleaning.back_off(entry, 300_000, "permission denied")
    waiting = metastore.entries.get(entry.id)
    assert (waiting.retry_retention, waiting.error) == (300_000, "permission denied")
    tried = waiting.cleaner_start or 0
    assert metastore.cleaning.ready_for_cleaning(tried + 299_999) == []
    assert [found.id for found in metastore.cleaning.ready_for_cleaning(tried + 300_000)] == [entry.id]


def test_an_entry_is_one_cleaners_until_it_lets_it_go_or_is_lost(metastore: Metastore, p: Table) -> None:
    """Two that begin at the same time share the entries; what one does not end within the lease is the other's."""
    parts = [part(metastore, p, day) for day in "123"]
    first, second, gone = (ready(metastore, entity, write(metastore, entity)) for entity in parts)
    metastore.cleaning.mark_cleaned(gone, [], all_below=True)
    cleaning = metastore.cleaning
    assert cleaning.take([first], 60_000) == [first]
    assert cleaning.take([first, second, gone], 60_000) == [second]
    assert metastore.entries.get(first.id).cleaner_start is not None
    assert cleaning.take([first, second], 0) == [first, second]
    cleaning.release([first])
    assert metastore.entries.get(first.id).cleaner_start is None
    assert cleaning.take([first, second], 60_000) == [first]
    cleaning.back_off(first, 0, "something is still there")
    cleaning.back_off(second, 300_000, "permission denied")
    assert cleaning.take([first, second], 0) == [first]


def test_entries_that_end_together(metastore: Metastore, p: Table, unpartitioned: Table) -> None:
    """Each takes its own rows along; one that somebody else has ended is named, and holds up no other."""
    one, two, other = part(metastore, p, "1"), part(metastore, p, "a b=c"), part(metastore, p, "3")
    entries: dict[Entity, Entry] = {}
    later: dict[Entity, WriteId] = {}
    for entity in (one, two, other, T):
        write(metastore, entity, abort=True)
        entries[entity] = ready(metastore, entity, write(metastore, entity))
        later[entity] = write(metastore, entity)
    metastore.claims.finish(entries[other], State.REFUSED, "no_cleanup")
    ended = [CleanedEntry(entry=entry, all_below=entity != T) for entity, entry in entries.items()]
    lost = metastore.cleaning.mark_all_cleaned(ended)
    assert list(lost) == [entries[other].id]
    assert sorted(completed(metastore), key=str) == sorted(
        [
            *((entity.partition, later[entity]) for entity in (one, two, T)),
            *((other.partition, later[other] - less) for less in (0, 1)),
        ],
        key=str,
    )
    assert {name for name, _ in aborted(metastore)} == {other.partition, None}
    assert metastore.entries.queue() == []
    states = {entry.entity: entry.state for entry in metastore.entries.history()}
    assert states == {**dict.fromkeys((one, two, T), State.SUCCEEDED), other: State.REFUSED}


def test_aborted_writes_of_many(metastore: Metastore, p: Table, unpartitioned: Table) -> None:
    """Each entity has its own, under every form of its name; one without any is left out."""
    one, two, none = part(metastore, p, "1"), part(metastore, p, "a b=c"), part(metastore, p, "3")
    assert two.partition is not None
    twice = Entity(database="default", table="p", partition=escape_again(two.partition))
    write(metastore, one)
    first, second = write(metastore, one, abort=True), write(metastore, twice, abort=True)
    third = write(metastore, T, abort=True)
    wanted = {one: [first], two: [second], T: [third]}
    assert metastore.components.aborted_writes_in([one, two, none, T]) == wanted
    assert metastore.components.aborted_writes_in([none]) == metastore.components.aborted_writes_in([]) == {}


def test_a_place_is_the_same_by_ids_as_by_names(metastore: Metastore, p: Table, unpartitioned: Table) -> None:
    """PROTOCOL 11.8: a cleaner asks by the ids that it read, for many at once."""
    catalog = metastore.catalog
    entities = [T, part(metastore, p, "1"), part(metastore, p, "2")]
    ids = {entity: found[:2] for entity in entities if (found := catalog.place(entity)) is not None}
    partitions = [number for _, number in ids.values() if number is not None]
    found = catalog.places_by_id([unpartitioned.id], partitions)
    assert found == {place[:2]: (entity, place[2]) for entity in entities if (place := catalog.place(entity))}
    metastore.embedded_catalog.drop_table(p)
    assert catalog.places_by_id([unpartitioned.id], partitions) == {ids[T]: found[ids[T]]}
    assert catalog.places_by_id([], []) == {}


def test_next_write_ids_of_several_tables(metastore: Metastore, p: Table, unpartitioned: Table) -> None:
    write(metastore, T)
    write(metastore, T)
    write(metastore, part(metastore, p, "1"))
    names = {("default", "t"), ("default", "p"), ("default", "none")}
    assert metastore.write_ids.next_by_table(names) == {name: metastore.write_ids.next(*name) for name in names}
    assert metastore.write_ids.next_by_table([]) == {}


def test_cleaning_a_partition_touches_no_other(metastore: Metastore, p: Table) -> None:
    one, two = part(metastore, p, "1"), part(metastore, p, "2")
    write(metastore, one, two)
    write(metastore, one, two, abort=True)
    highest = write(metastore, one)
    entry = ready(metastore, one, highest)
    later = write(metastore, one)
    metastore.cleaning.mark_cleaned(entry, [], all_below=True)
    assert completed(metastore) == [(two.partition, 1), (one.partition, later)]
    assert aborted(metastore) == [(two.partition, 2)]


def test_a_row_without_a_partition_never_takes_the_partitions_along(metastore: Metastore, p: Table) -> None:
    """PROTOCOL 7: an abort of a dynamic-partition insert stands without a partition name; Hive drops all then."""
    whole, one = Entity(database="default", table="p"), part(metastore, p, "1")
    write(metastore, whole, abort=True)
    write(metastore, one, abort=True)
    highest = write(metastore, one)
    metastore.cleaning.mark_cleaned(ready(metastore, whole, highest), [], all_below=True)
    assert aborted(metastore) == [(one.partition, 2)]
    assert completed(metastore) == [(one.partition, highest)]


def test_only_what_is_gone_from_storage_is_forgotten(metastore: Metastore, unpartitioned: Table) -> None:
    """PROTOCOL 8: components go only where nothing of the transaction is in storage."""
    first, second = write(metastore, T, abort=True), write(metastore, T, abort=True)
    entry = ready(metastore, T, write(metastore, T))
    write(metastore, T, abort=True)
    metastore.cleaning.mark_cleaned(entry, [first], all_below=False)
    assert aborted(metastore) == [(None, second), (None, 4)]


def test_open_transactions_keep_their_components(metastore: Metastore, unpartitioned: Table) -> None:
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, "default", "t")
    metastore.write_ids.add_component(txn, T, "i", write_id)
    metastore.cleaning.mark_cleaned(ready(metastore, T, write(metastore, T)), [write_id], all_below=True)
    assert aborted(metastore) == [(None, write_id)]


@pytest.mark.usefixtures("hive4")
def test_a_component_without_write_id_goes_with_the_last_one_that_has(
    metastore: Metastore, unpartitioned: Table
) -> None:
    """Hive's rebalance: an op u row without a write ID, then the op c row."""
    [txn] = metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    metastore.write_ids.add_component(txn, T, "u", None)
    first = write(metastore, T)
    request(metastore)
    entry = metastore.claims.claim(WORKER, "test", pool_timeout_ms=0)
    assert entry is not None
    metastore.claims.record(entry, WORKER, txn, None, first)
    metastore.transactions.abort(txn, "x")
    metastore.claims.requeue(entry.id, WORKER)
    metastore.claims.abort_request(entry.id)
    cleaned = ready(metastore, T, write(metastore, T))
    assert metastore.components.forget_aborted(T, []) == 0
    assert aborted(metastore) == [(None, None), (None, first)]
    metastore.cleaning.mark_cleaned(cleaned, [], all_below=True)
    assert aborted(metastore) == []


def test_records_under_the_twice_escaped_name_go_too(metastore: Metastore, p: Table) -> None:
    entity = part(metastore, p, "a b=c/d%")
    assert entity.partition is not None
    twice = Entity(database="default", table="p", partition=escape_again(entity.partition))
    write(metastore, twice)
    write(metastore, twice, abort=True)
    highest = write(metastore, entity)
    assert aborted_of(metastore, entity).count == 1
    metastore.cleaning.mark_cleaned(ready(metastore, entity, highest), [], all_below=True)
    assert completed(metastore) == []
    assert aborted(metastore) == []


def test_another_partition_of_that_very_name_is_spared(metastore: Metastore, p: Table) -> None:
    """PROTOCOL 8: an aborted transaction that is forgotten counts as committed."""
    entity, other = part(metastore, p, "a=b"), part(metastore, p, "a%3Db")
    assert other.partition == escape_again(entity.partition or "")
    write(metastore, other, abort=True)
    highest = write(metastore, entity)
    assert metastore.components.forget_aborted(entity, [WriteId(1)]) == 0
    metastore.cleaning.mark_cleaned(ready(metastore, entity, highest), [], all_below=True)
    assert aborted(metastore) == [(other.partition, 1)]


def test_rows_of_trino_without_write_id_are_purged(metastore: Metastore, unpartitioned: Table) -> None:
    """PROTOCOL 8: Trino's COMPLETED_TXN_COMPONENTS rows have a null write ID."""
    first = write(metastore, T)
    second = write(metastore, T)
    with metastore.database.write() as conn:
        conn.execute(t.COMPLETED_TXN_COMPONENTS.update().values(CTC_WRITEID=None))
    metastore.cleaning.mark_cleaned(ready(metastore, T, first), [], all_below=True)
    assert completed(metastore) == [(None, None)]
    metastore.cleaning.mark_cleaned(ready(metastore, T, second), [], all_below=True)
    assert completed(metastore) == []


# --- candidates ---------------------------------------------------------------------------------------------------


def test_candidates_are_what_was_written_and_what_has_aborts(metastore: Metastore) -> None:
    wanted = [
        Entity(database="default", table="a"),
        Entity(database="default", table="b", partition="p=1"),
        Entity(database="default", table="b", partition="p=2"),
        Entity(database="default", table="c"),
    ]
    for entity in reversed(wanted):
        write(metastore, entity, abort=entity.table == "c")
        write(metastore, entity, abort=entity.table == "c")
    assert candidates_of(metastore) == wanted
    assert metastore.components.written_tables() == {("default", "a"): 2, ("default", "b"): 4}
    of_b = metastore.components.writes([("default", "b"), ("default", "none")])
    assert {table: list(of_table) for table, of_table in of_b.items()} == {
        ("default", "b"): ["p=1", "p=2"],
        ("default", "none"): [],
    }


def test_every_commit_and_every_cleaning_shows_in_what_was_written(metastore: Metastore) -> None:
    """A sum, since one of several rows may be another one by the next pass."""
    figures = set()
    for _ in range(3):
        write(metastore, T)
        figures.add(metastore.components.writes([("default", "t")])["default", "t"][None])
    assert metastore.housekeeping.purge_components() == 2
    figures.add(metastore.components.writes([("default", "t")])["default", "t"][None])
    assert [one.rows for one in sorted(figures)] == [1, 1, 2, 3]


def test_aborts_are_counted_by_transaction(metastore: Metastore) -> None:
    one = Entity(database="default", table="b", partition="p=1")
    write(metastore, T, abort=True)
    write(metastore, T, abort=True)
    write(metastore, T)
    write(metastore, one, one, abort=True)
    found = metastore.components.aborts()
    assert {entity: figures.count for entity, figures in found.items()} == {T: 2, one: 1}
    assert found[T] == aborted_of(metastore, T)
    assert found[T].oldest_start <= found[one].oldest_start
    assert aborted_of(metastore, Entity(database="default", table="none")).count == 0


def test_history_is_newest_first(metastore: Metastore) -> None:
    ids: Sequence[int] = [metastore.requests.did_not_initiate(T, str(number)) for number in range(4)]
    other = metastore.requests.did_not_initiate(Entity(database="default", table="b"), "x")
    assert [entry.id for entry in metastore.entries.history(T)] == list(reversed(ids))
    kinds = {kind: [entry.id for entry in metastore.entries.history(T, type=kind)] for kind in CompactionType}
    assert kinds == {kind: list(reversed(ids)) if kind is CompactionType.MINOR else [] for kind in CompactionType}
    assert [entry.id for entry in metastore.entries.history(limit=2)] == [other, ids[-1]]
    assert metastore.housekeeping.purge_history(ids[:2]) == 2
    assert [entry.id for entry in metastore.entries.history(T)] == [ids[3], ids[2]]


def test_duplicate_components_are_purged(metastore: Metastore) -> None:
    for operation in ("d", "i", "i"):
        write(metastore, T, T, operation=operation)
    assert metastore.housekeeping.purge_components() == 4
    assert completed(metastore) == [(None, 1), (None, 3)]
    assert metastore.housekeeping.purge_components() == 0
    assert candidates_of(metastore) == [T]


def test_duplicates_keep_one_and_trinos_go_once_compacted(metastore: Metastore, unpartitioned: Table) -> None:
    """PROTOCOL 8: null write IDs below what was compacted are purged too."""
    highest = write(metastore, T)
    metastore.cleaning.mark_cleaned(ready(metastore, T, highest), [], all_below=True)
    later = write(metastore, T, T)
    with metastore.database.write() as conn:
        for txn, write_id in ((TxnId(1), None), (TxnId(3), None)):
            row = {"CTC_DATABASE": "default", "CTC_TABLE": "t", "CTC_UPDATE_DELETE": "N"}
            conn.execute(t.COMPLETED_TXN_COMPONENTS.insert().values(CTC_TXNID=txn, CTC_WRITEID=write_id, **row))
    assert metastore.housekeeping.purge_components() == 3
    assert completed(metastore) == [(None, later)]


@pytest.mark.usefixtures("hive4")
def test_zeros_in_rows_that_hive_ended_read_as_not_set(metastore: Metastore) -> None:
    entry_id = metastore.requests.did_not_initiate(T, "x")
    zeros = {"CC_NEXT_TXN_ID": 0, "CC_COMMIT_TIME": 0, "CC_TXN_ID": 0, "CC_START": 0, "CC_NUMBER_OF_BUCKETS": 0}
    with metastore.database.write() as conn:
        conn.execute(t.COMPLETED_COMPACTIONS.update().values(**zeros))
    entry = metastore.entries.get(entry_id)
    assert (entry.next_txn_id, entry.commit_time, entry.txn_id, entry.start, entry.buckets) == (None,) * 5


def test_lowest_open_gates_the_entry(metastore: Metastore, unpartitioned: Table) -> None:
    """PROTOCOL 7.1: strict; a reader that is itself the newest at the commit holds the entry back."""
    highest = write(metastore, T)
    [reader] = metastore.transactions.open("u", "h", type=TxnType.READ_ONLY)
    entry = ready(metastore, T, highest)
    assert entry.next_txn_id is not None
    assert not entry.next_txn_id < metastore.transactions.lowest_open(-60_000)
    metastore.transactions.commit(reader)
    assert entry.next_txn_id < metastore.transactions.lowest_open(-60_000) == TxnId(entry.next_txn_id + 1)
