from __future__ import annotations

import gc
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import delete as sql_delete

from compactor.base.errors import LockLost, NotFound, NotSupported, Refused, SnapshotExpired
from compactor.base.ids import TxnId
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema.tables import HIVE_LOCKS
from compactor.site.site import Site, own_state
from compactor.state.read_counts import Read, Reads
from compactor.tables import Store as TablesStore
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.store import Store
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.ending import Result
from demo.delta_writer import write_deletes, write_rows
from tests.support.passes import clean_all, compact
from tests.support.patience import until
from tests.support.tables import entity_of, make_table, with_settings

ROWS = [{"a": 1, "b": "one"}, {"a": 2, "b": None}, {"a": 3, "b": "three"}]


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    make_table(site, warehouse)
    return Store(site)


def insert(store: Store, rows: list[dict[str, object]], name: str = "t") -> None:
    table = store.site.metastore.catalog.table("default", name)
    with transaction(store.site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
        schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
        write_rows(
            statement.location,
            table.row_type,
            pa.Table.from_pylist(rows, schema),
            write_id=statement.write_id,
            statement_id=statement.statement_id,
        )


def delete(store: Store, values: list[int], name: str = "t") -> None:
    found = store.load_table(f"default.{name}").scan(row_ids=True).to_arrow().to_pylist()
    table = store.site.metastore.catalog.table("default", name)
    ids = pa.Table.from_pylist([row["row__id"] for row in found if row["a"] in values])
    with transaction(store.site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
        write_deletes(
            statement.location,
            table.row_type,
            ids,
            write_id=statement.write_id,
            statement_id=statement.statement_id,
        )


def test_a_scan_returns_the_visible_rows(store: Store) -> None:
    insert(store, ROWS)
    delete(store, [2])
    insert(store, [{"a": 4, "b": "four"}])
    table = store.load_table("default.t")
    assert table.name == "default.t"
    assert table.schema == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert table.partitions == ()
    assert table.properties["transactional"] == "true"
    wanted = [ROWS[0], ROWS[2], {"a": 4, "b": "four"}]
    assert table.scan().to_arrow().to_pylist() == wanted
    assert table.scan().count() == 3
    assert table.scan().to_arrow_batch_reader().read_all().to_pylist() == wanted
    assert table.scan().to_pandas()["a"].tolist() == [1, 3, 4]
    assert table.scan().to_polars()["a"].to_list() == [1, 3, 4]
    assert table.scan().to_duckdb("t").sql("select sum(a) from t").fetchall() == [(8,)]
    assert store.site.metastore.transactions.open_transactions() == []


def test_row_ids_and_selected_fields(store: Store) -> None:
    insert(store, ROWS)
    found = store.load_table("default.t").scan(selected_fields=("B",), row_ids=True).to_arrow()
    assert found.schema.names == ["row__id", "b"]
    assert found.to_pylist()[1] == {"row__id": {"writeid": 1, "bucketid": 536870912, "rowid": 1}, "b": None}


def test_a_transaction_sees_one_snapshot_of_all_tables(store: Store, warehouse: Path) -> None:
    make_table(store.site, warehouse, "u")
    insert(store, ROWS)
    with store.transaction() as txn:
        assert txn.load_table("default.t").scan().count() == 3
        insert(store, ROWS)
        insert(store, ROWS, "u")
        assert txn.load_table("default.t").scan().count() == 3
        assert txn.load_table("default.u").scan().count() == 0
    assert store.load_table("default.t").scan().count() == 6
    with pytest.raises(SnapshotExpired, match="has ended"):
        txn.load_table("default.t").scan().count()


def planned(store: Store) -> ScanPlan:
    with transaction(store.site) as txn:
        return plan_scan(txn, store.site.metastore.catalog.table("default", "t"), ScanRequest())


def test_a_file_that_is_gone_ends_the_scan(store: Store) -> None:
    insert(store, ROWS)
    plan = planned(store)
    Path(plan.tasks[0].paths[0]).unlink()
    with pytest.raises(SnapshotExpired, match="is gone"):
        list(read_task(plan, plan.tasks[0], store.site.storage))


def test_a_file_of_another_length_ends_the_scan(store: Store) -> None:
    insert(store, ROWS)
    plan = planned(store)
    path = Path(plan.tasks[0].paths[0])
    insert(store, ROWS * 100)
    path.write_bytes(Path(planned(store).tasks[0].paths[1]).read_bytes())
    with pytest.raises(SnapshotExpired, match="when it was listed"):
        list(read_task(plan, plan.tasks[0], store.site.storage))


@pytest.mark.parametrize("name", ["t", "default.", ".t", ""])
def test_a_name_needs_both_parts(store: Store, name: str) -> None:
    with pytest.raises(Refused, match="expected <database>"):
        store.load_table(name)


def test_an_unknown_column_is_named(store: Store) -> None:
    with pytest.raises(NotFound, match="no column 'c'; it has a, b"):
        store.load_table("default.t").scan(selected_fields=("c",))


def test_other_tables_are_refused(store: Store, warehouse: Path) -> None:
    make_table(store.site, warehouse, "only", transactional_properties="insert_only")
    with pytest.raises(NotSupported, match="only full ACID tables"):
        store.load_table("default.only").scan().to_arrow()


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_scan_that_is_held_open_sees_one_snapshot_while_all_is_compacted_and_cleaned(store: Store, kind: str) -> None:
    """PROTOCOL 13.2, 13.3: a cleaner waits for the reader's transaction; nothing is listed twice."""
    for number in range(4):
        insert(store, [{"a": number, "b": "x" * 100}] * 50)
    delete(store, [1])
    with store.transaction() as txn:
        held = txn.load_table("default.t").scan(row_ids=True).to_arrow_batch_reader()
        first = held.read_next_batch()
        insert(store, [{"a": 9, "b": "later"}])
        assert compact(store.site, kind).result is Result.COMPACTED
        clean(store.site)
        rest = held.read_all()
        again = txn.load_table("default.t").scan(row_ids=True).to_arrow()
    seen = pa.concat_tables([pa.Table.from_batches([first]), rest])
    assert sorted(set(seen["a"].to_pylist())) == [0, 2, 3]
    assert seen.num_rows == 150
    assert again.equals(seen)
    clean_all(store.site)
    assert store.load_table("default.t").scan().count() == 151


def test_a_scan_holds_the_lock_of_hives_select_until_its_last_row(store: Store) -> None:
    insert(store, ROWS)
    reader = store.load_table("default.t").scan().to_arrow_batch_reader()
    (lock,) = store.site.metastore.locks.show()
    assert (lock.type.name, lock.table) == ("SHARED_READ", "t")
    reader.read_all()
    assert store.site.metastore.locks.show() == []
    assert store.site.metastore.transactions.open_transactions() == []


def test_a_scan_that_is_given_up_ends_its_transaction(store: Store) -> None:
    insert(store, ROWS)
    reader = store.load_table("default.t").scan().to_arrow_batch_reader()
    del reader
    gc.collect()
    assert store.site.metastore.transactions.open_transactions() == []


def expires(store: Store, abort: bool) -> TxnId:
    """Waits within a transaction until its snapshot expires, and raises what a scan then does."""
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        if abort:
            store.site.metastore.transactions.abort(TxnId(txn.id), "by hand")
        until("the snapshot expires", lambda: _is_expired(table))
        table.scan().count()
    return TxnId(txn.id)


@pytest.mark.parametrize(
    ("abort", "age", "why"), [(True, "24h", "is aborted"), (False, "100ms", r"older than compactor\.read\.max\.age")]
)
def test_a_transaction_that_is_ended_has_no_snapshot(store: Store, abort: bool, age: str, why: str) -> None:
    insert(store, ROWS)
    short = Store(with_settings(store.site, compactor_read_max_age=age, hive_txn_timeout="200ms"))
    with pytest.raises(SnapshotExpired, match=why):
        expires(short, abort)
    assert store.site.metastore.transactions.open_transactions() == []


def loses_its_lock(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        assert table.scan().count() == 3
        with store.site.metastore.database.write() as conn:
            conn.execute(sql_delete(HIVE_LOCKS))
        until("the lock is missed", lambda: _is_lost(table))


def test_a_lock_that_somebody_removed_is_lost(store: Store) -> None:
    insert(store, ROWS)
    with pytest.raises(LockLost, match="its locks are gone"):
        loses_its_lock(Store(with_settings(store.site, hive_txn_timeout="200ms")))
    assert store.site.metastore.transactions.open_transactions() == []


def _is_lost(table: Table) -> bool:
    try:
        table.scan().count()
    except LockLost:
        return True
    return False


def _is_expired(table: Table) -> bool:
    try:
        table.scan().count()
    except SnapshotExpired:
        return True
    return False


def test_a_partition_that_is_added_before_the_snapshot_is_read(
    store: Store, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 13.1: one writer's rows are seen in all of its partitions or in none."""
    embedded = store.site.metastore.embedded_catalog
    columns = [Column(name="a", type="int"), Column(name="b", type="string")]
    new = NewTable(
        "default",
        "parts",
        str(warehouse / "parts"),
        columns,
        partition_keys=[Column(name="p", type="int")],
        parameters={"transactional": "true"},
    )
    table = embedded.create_table(new)

    def write(txn: Transaction, value: int) -> None:
        part = embedded.add_partition(table, (str(value),))
        Path(part.location).mkdir(parents=True, exist_ok=True)
        entity = Entity(database="default", table="parts", partition=part.name)
        made = txn.begin_statement(entity, WriteOperation.INSERT)
        rows = pa.table({"a": pa.array([value], pa.int32()), "b": ["x"]})
        write_rows(made.location, table.row_type, rows, write_id=made.write_id, statement_id=made.statement_id)

    older = ExitStack()
    writer = older.enter_context(transaction(store.site))
    write(writer, 1)
    take = Transaction.lock_for_reading

    def slow(self: Transaction, *arguments: Any) -> None:
        if store.site.metastore.transactions.state(writer.id) == "o":
            write(writer, 2)
            older.close()
        take(self, *arguments)

    monkeypatch.setattr(Transaction, "lock_for_reading", slow)
    found = store.load_table("default.parts").scan().to_arrow()
    assert sorted(found["p"].to_pylist()) == [1, 2]


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """A table of three rows in two files."""
    make_table(deployment, warehouse)
    table = TablesStore(deployment).load_table("default.t")
    for rows in ([1, 2], [3]):
        table.append(pa.table({"a": rows}))
    return with_settings(deployment, compactor_reads_own="true")


def told(site: Site) -> list[Read]:
    return list(reversed(own_state(site).reads.of_table(site.name, "default", "t", 0, 10)))


def test_a_scan_that_is_read_to_its_end_is_told(site: Site) -> None:
    table = TablesStore(site).load_table("default.t")
    assert table.scan("a > 1", selected_fields=["a"]).to_arrow().num_rows == 2
    assert table.scan("a > 2").to_arrow().num_rows == 1
    assert table.scan("a > 7", selected_fields=["A"]).count() == 0
    one, two, three = sorted(told(site), key=lambda read: read.at)
    assert (one.engine, one.files) == ("compactor", 2)
    assert one.seconds > 0
    assert one.bytes is not None
    assert one.bytes > 0
    assert len({one.like, two.like, three.like}) == 3


def test_like_scans_are_alike(site: Site) -> None:
    table = TablesStore(site).load_table("default.t")
    for text in ("a > 1", "a  >  2"):
        table.scan(text).to_arrow()
    assert len({read.like for read in told(site)}) == 1
    assert len(told(site)) == 2


def test_what_is_left_unread_is_not_told_and_by_default_nothing_is(site: Site, deployment: Site) -> None:
    with TablesStore(site).load_table("default.t").scan().to_arrow_batch_reader() as reader:
        reader.read_next_batch()
    TablesStore(deployment).load_table("default.t").scan().to_arrow()
    assert told(site) == []


def test_a_state_that_cannot_be_written_spoils_no_scan(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> int:
        raise OSError("no space")

    monkeypatch.setattr(Reads, "add", fail)
    with caplog.at_level(logging.WARNING):
        assert TablesStore(site).load_table("default.t").scan().to_arrow().num_rows == 3
    assert "recording a scan of default.t" in caplog.text
