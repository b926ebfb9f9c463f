"""A rebalance from its request to its cleaning, through the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

from compactor.acid import bucket
from compactor.acid.directory import acid_directory
from compactor.base.errors import LockNotGranted, Refused, TransactionAborted
from compactor.base.ids import WriteId
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Request
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXN_COMPONENTS, TXNS, WRITE_SET
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.metastore.transactions.write_id_rows import WriteIds
from compactor.requests.request import RebalanceOptions, request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.site.view import compactor_view
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.ending import Outcome, Result
from compactor.worker.rebalance_view import allocate_write_id, must_be_possible
from compactor.worker.under_way import Options
from demo.delta_writer import write_deletes, write_rows
from demo.snapshot_reader import read_snapshot
from tests.support.passes import clean_all, compact, rows_without_visibility, settle, work
from tests.support.tables import entity_of, insert, make_table, rows_of, story, with_settings
from tests.support.watching import Interrupted, names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="100ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    story(site, table)
    return table


def rebalance(site: Site, **asked: Any) -> Outcome:
    runner = asked.pop("runner", InProcessRunner())
    (one,) = request_compaction(site, table="default.t", type="rebalance", rebalance=RebalanceOptions(**asked))
    assert one.entry_id is not None
    outcome = work(site, one.entry_id, runner, Options(full_verify=True))
    assert outcome is not None
    return outcome


def values(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(row[3:] for row in rows)


def delete_where(site: Site, table: Table, gone: set[int]) -> None:
    """Deletes by ROW__ID into the file that the bucket property names, as Hive's writer does."""
    with transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
        txns = site.metastore.transactions.snapshot(txn.id)
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(statement.location), write_ids, txns)
        seen = pa.Table.from_batches(
            list(read_snapshot(statement.location, directory, write_ids, statement.table.row_type))
        )
        numbers = [bucket.decode(b).number for b in seen["bucketid"].to_pylist()]
        for number in set(numbers):
            wanted = [v in gone and n == number for v, n in zip(seen["a"].to_pylist(), numbers, strict=True)]
            part = seen.filter(pa.array(wanted))
            if part.num_rows:
                write_deletes(
                    statement.location,
                    statement.table.row_type,
                    part,
                    write_id=statement.write_id,
                    statement_id=statement.statement_id,
                    number=number,
                )


def files(table: Table, outcome: Outcome) -> dict[str, list[dict[str, Any]]]:
    (base,) = outcome.output
    found = sorted((Path(table.location) / base).glob("bucket_*"))
    return {path.name: pyarrow.orc.ORCFile(path).read().to_pylist() for path in found}


def test_rows_stay_and_files_are_even(site: Site, table: Table) -> None:
    """PROTOCOL 1.6: a base under a write ID of its own; write IDs are kept, row numbers run on over all files."""
    before = rows_of(site, table)
    own = site.metastore.write_ids.next("default", "t")
    outcome = rebalance(site, buckets=3)
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert site.metastore.write_ids.next("default", "t") == own + 1
    assert outcome.output == (f"base_{own:07d}_v{outcome.txn:07d}",)
    after = rows_of(site, table)
    assert values(after) == values(before)
    assert values(rows_without_visibility(site, table)) == values(before)
    found = files(table, outcome)
    assert list(found) == ["bucket_00000", "bucket_00001", "bucket_00002"]
    assert [len(rows) for rows in found.values()] == [22, 22, 21]
    every = [row for rows in found.values() for row in rows]
    assert [row["rowId"] for row in every] == list(range(65))
    assert {row["originalTransaction"] for row in every} == {row[0] for row in before}
    assert [row["originalTransaction"] for row in every] == sorted(row[0] for row in before)
    assert all(row["currentTransaction"] == row["originalTransaction"] for row in every)
    for number, rows in enumerate(found.values()):
        assert {row["bucket"] for row in rows} == {bucket.encode(number)}
    assert len({row[:3] for row in after}) == 65
    f = outcome.figures
    assert (f.rows_in, f.rows_out, f.rows_deleted) == (70, 65, 5)
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.highest_write_id) == (State.READY_FOR_CLEANING, own)
    assert None not in (entry.next_txn_id, entry.commit_time)


def test_the_number_of_files_stays_unless_it_is_given(site: Site, table: Table) -> None:
    assert len(files(table, rebalance(site))) == 2


def test_fewer_rows_than_files(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    insert(site, table, [1, 2])
    outcome = rebalance(site, buckets=5)
    assert [len(rows) for rows in files(table, outcome).values()] == [1, 1]
    assert values(rows_of(site, table)) == [(1, "row 1"), (2, "row 2")]


def test_nothing_left_is_a_base_with_an_empty_file(site: Site, warehouse: Path) -> None:
    """PROTOCOL 1.4: no directory is ever empty of files."""
    table = make_table(site, warehouse)
    insert(site, table, [1, 2])
    delete_where(site, table, {1, 2})
    assert [len(rows) for rows in files(table, rebalance(site, buckets=4)).values()] == [0]
    clean_all(site)
    assert rows_of(site, table) == rows_without_visibility(site, table) == []


def test_an_empty_table_is_refused(site: Site, warehouse: Path) -> None:
    make_table(site, warehouse)
    outcome = rebalance(site)
    assert outcome.result is Result.REFUSED
    assert "nothing to compact" in outcome.message


def test_order_by_over_all_files(site: Site, table: Table) -> None:
    """With ORDER BY all rows have one write ID: the rebalance's own."""
    wanted = sorted((row[3] for row in rows_of(site, table)), reverse=True)
    outcome = rebalance(site, buckets=4, order_by="a desc")
    found = files(table, outcome)
    assert [row["row"]["a"] for rows in found.values() for row in rows] == wanted
    own = site.metastore.write_ids.next("default", "t") - 1
    assert {row["originalTransaction"] for rows in found.values() for row in rows} == {own}
    assert site.metastore.entries.queue()[0].order_by == "order by a desc"
    assert [row[0] for row in rows_of(site, table)] == [own] * len(wanted)


def test_later_deletes_hit_the_right_rows(site: Site, table: Table) -> None:
    """PROTOCOL 1.6: for readers with and without visibility, after cleaning, a minor and a major."""
    keep = values(rows_of(site, table))
    rebalance(site, buckets=3)
    gone = {1, 22, 33, 59, 69}
    keep = [row for row in keep if row[0] not in gone]
    delete_where(site, table, gone)
    assert values(rows_of(site, table)) == values(rows_without_visibility(site, table)) == keep
    clean_all(site)
    assert values(rows_of(site, table)) == values(rows_without_visibility(site, table)) == keep
    insert(site, table, [100, 101])
    delete_where(site, table, {2, 100})
    keep = sorted([row for row in keep if row[0] != 2] + [(101, "row 101")])
    for kind in ("minor", "major"):
        assert compact(site, kind).result is Result.COMPACTED
        clean_all(site)
        assert values(rows_of(site, table)) == values(rows_without_visibility(site, table)) == keep
    rebalance(site, buckets=1, order_by="b")
    clean_all(site)
    assert values(rows_of(site, table)) == keep
    assert len(names_in(Path(table.location))) == 1


def test_an_old_snapshot_keeps_its_directories(site: Site, table: Table) -> None:
    """PROTOCOL 7.1: a reader who began before reads what he saw until he ends; then it is cleaned."""
    before = rows_of(site, table)
    reader = site.metastore.transactions.open("reader", "h")[0]
    txns = site.metastore.transactions.snapshot(reader)
    write_ids = site.write_ids(table, txns)

    def look() -> list[tuple[Any, ...]]:
        location = site.target(entity_of(table)).location
        directory = acid_directory(site.storage.listing(location), write_ids, txns)
        batches = read_snapshot(location, directory, write_ids, "struct<a:int,b:string>")
        return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    outcome = rebalance(site)
    assert look() == before
    for _ in range(3):
        assert clean(site).cleaned == ()
    assert look() == before
    site.metastore.transactions.commit(reader)
    clean_all(site)
    assert names_in(Path(table.location)) == set(outcome.output)


@pytest.mark.parametrize(("write_set", "base"), [(True, False), (False, True), (False, False)])
def test_whether_one_committed_whose_transaction_is_forgotten(
    site: Site, table: Table, write_set: bool, base: bool
) -> None:
    """PROTOCOL 7.4: Hive leaves no stamp on it, so what else a commit leaves tells; and nothing is removed in doubt."""
    outcome = rebalance(site)
    assert outcome.txn is not None
    (reader,) = site.metastore.transactions.open("reader", "h")
    with site.metastore.database.write() as conn:
        conn.execute(TXNS.delete().where(outcome.txn == TXNS.c.TXN_ID))
        conn.execute(COMPACTION_QUEUE.update().values(CQ_NEXT_TXN_ID=None, CQ_COMMIT_TIME=None))
        if not write_set:
            conn.execute(WRITE_SET.delete())
    location = Path(table.location)
    if not base:  # a delta that bears the number proves nothing
        number = outcome.output[0].partition("_v")[0].removeprefix("base_")
        (location / outcome.output[0]).rename(location / f"delta_0000001_{number}_v{outcome.txn:07d}")
    before = names_in(location)
    passed = clean(site)
    assert names_in(location) == before
    if write_set or base:
        assert [one.entry_id for one in passed.waiting] == [outcome.entry.id]  # for who was open at first sight
        site.metastore.transactions.open("later", "h")
        site.metastore.transactions.commit(reader)
        settle()
        assert [one.entry_id for one in clean(site).cleaned] == [outcome.entry.id]
    else:
        assert [(one.entry_id, one.state) for one in passed.ended] == [(outcome.entry.id, State.REFUSED)]


def test_what_the_metastore_says_while_it_runs(site: Site, table: Table) -> None:
    """PROTOCOL 1.6: EXCL_WRITE, a transaction of type 6 with its own write ID and an op u component. Deletes wait; an
    insert goes on where it takes a shared lock only."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="100ms", hive_txn_xlock_write="true")

    def look() -> None:
        (entry,) = site.metastore.entries.queue()
        assert entry.txn_id is not None
        (lock,) = site.metastore.locks.show()
        assert lock.type is LockType.EXCL_WRITE
        (open_one,) = site.metastore.transactions.open_transactions()
        assert (open_one.id, open_one.type) == (entry.txn_id, TxnType.REBALANCE_COMPACTION)
        with site.metastore.database.read() as conn:
            rows = conn.execute(TXN_COMPONENTS.select().where(TXN_COMPONENTS.c.TC_TXNID.in_([entry.txn_id]))).all()
        assert {(row.TC_OPERATION_TYPE, row.TC_WRITEID) for row in rows} == {
            ("u", entry.highest_write_id),
            ("c", entry.highest_write_id),
        }
        with pytest.raises(LockNotGranted, match="EXCL_WRITE: not granted"):
            delete_where(site, table, {1})
        insert(site, table, [500, 501])

    before = values(rows_of(site, table))
    outcome = rebalance(site, runner=Interrupted(before=look))
    assert (outcome.result, outcome.message) == (Result.COMPACTED, "")
    assert values(rows_of(site, table)) == [*before, (500, "row 500"), (501, "row 501")]
    assert site.metastore.locks.show() == []
    clean_all(site)
    assert values(rows_of(site, table)) == [*before, (500, "row 500"), (501, "row 501")]


@pytest.mark.parametrize("operation", [WriteOperation.INSERT, WriteOperation.DELETE])
def test_a_writer_lets_it_wait(site: Site, table: Table, operation: WriteOperation) -> None:
    """PROTOCOL 1.6: no EXCL_WRITE beside a writer; the request stays in the queue and no write ID is spent."""
    with transaction(site) as txn:
        txn.begin_statement(entity_of(table), operation)
        next_one = site.metastore.write_ids.next("default", "t")
        outcome = rebalance(site)
        assert outcome.result is Result.WAITING
        assert site.metastore.write_ids.next("default", "t") == next_one
    (entry,) = site.metastore.entries.queue()
    assert entry.state is State.INITIATED
    again = work(site, entry.id, InProcessRunner(), Options())
    assert again is not None
    assert again.result is Result.COMPACTED


def test_an_insert_under_a_smaller_write_id_lets_it_wait(site: Site, table: Table) -> None:
    """PROTOCOL 1.6: its shared lock doesn't keep the rebalance out; its open write ID does."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="100ms", hive_txn_xlock_write="true")
    before = values(rows_of(site, table))
    with transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
        outcome = rebalance(site)
        assert outcome.result is Result.WAITING
        assert f"write ID {statement.write_id} of the table is open" in outcome.message
        write_rows(
            statement.location,
            statement.table.row_type,
            pa.table({"a": pa.array([700], pa.int32()), "b": ["row 700"]}),
            write_id=statement.write_id,
            statement_id=0,
        )
    (entry,) = site.metastore.entries.queue()
    again = work(site, entry.id, InProcessRunner(), Options())
    assert again is not None
    assert again.result is Result.COMPACTED
    assert values(rows_of(site, table)) == [*before, (700, "row 700")]


class Meanwhile:
    """Steps of another transaction beside ``allocate_write_id``: ``before`` its write ID is given out, and ``after``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        allocate, add_component = WriteIds.allocate, WriteIds.add_component

        def allocated(ids: WriteIds, *args: Any) -> WriteId:
            while self.before:
                self.before.pop()()
            return allocate(ids, *args)

        def added(ids: WriteIds, *args: Any) -> None:
            add_component(ids, *args)
            while self.after:
                self.after.pop()()

        monkeypatch.setattr(WriteIds, "allocate", allocated)
        monkeypatch.setattr(WriteIds, "add_component", added)


def test_a_smaller_write_id_that_was_given_out_meanwhile_lets_it_wait(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 1.6: whoever draws one between the first look and the rebalance's own is seen by the second."""
    writer, own_txn = (site.metastore.transactions.open("u", "h")[0] for _ in range(2))
    number = site.metastore.write_ids.next("default", "t")
    meanwhile = Meanwhile(monkeypatch)
    meanwhile.before.append(lambda: site.metastore.write_ids.allocate(writer, "default", "t"))
    with pytest.raises(LockNotGranted, match=f"write ID {number} of the table is open"):
        allocate_write_id(site, site.target(entity_of(table)), own_txn)
    assert meanwhile.before == []


def test_a_larger_write_id_that_committed_meanwhile_is_not_read(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 1.6: a base must not hold rows that stand above its number as well: they would be read twice."""
    before = values(rows_of(site, table))
    older = site.metastore.transactions.open("u", "h")[0]
    own_txn = site.metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)[0]
    target = site.target(entity_of(table))
    below = [d.directory for d in compactor_view(site, target).directory.compactable()]

    def insert_above() -> None:
        larger = site.metastore.write_ids.allocate(older, "default", "t")
        row = pa.table({"a": pa.array([700], pa.int32()), "b": ["row 700"]})
        write_rows(target.location, target.row_type, row, write_id=larger, statement_id=0)
        site.metastore.transactions.commit(older)

    Meanwhile(monkeypatch).after.append(insert_above)
    view, own = allocate_write_id(site, target, own_txn)
    assert compactor_view(site, target, own_txn).write_ids.high_watermark == own + 1
    assert view.write_ids.high_watermark == own
    assert [d.directory for d in view.directory.compactable()] == below
    site.metastore.transactions.abort(own_txn, "the test is over")
    assert values(rows_of(site, table)) == [*before, (700, "row 700")]


def test_who_saw_the_old_row_ids_loses(site: Site, table: Table) -> None:
    """PROTOCOL 1.6: a delete whose snapshot is older than the rebalance must not commit: WRITE_SET says so."""
    before = rows_of(site, table)

    def late() -> None:
        with transaction(site) as txn:
            assert rebalance(site, buckets=3).result is Result.COMPACTED
            statement = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
            old = {"writeid": [before[0][0]], "bucketid": [before[0][1]], "rowid": [before[0][2]]}
            write_deletes(
                statement.location,
                statement.table.row_type,
                pa.table(old),
                write_id=statement.write_id,
                statement_id=0,
                number=bucket.decode(before[0][1]).number,
            )

    with pytest.raises(TransactionAborted):
        late()
    assert values(rows_of(site, table)) == values(before)


def test_aborted_rows_are_left_out_and_stay_out(site: Site, table: Table) -> None:
    insert(site, table, range(800, 810), commits=False)
    before = values(rows_of(site, table))
    assert rebalance(site).result is Result.COMPACTED
    clean_all(site)
    assert values(rows_of(site, table)) == before


@contextmanager
def table_with(site: Site, warehouse: Path, **changes: Any) -> Iterator[Table]:
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    (warehouse / "t").mkdir()
    columns = [Column(name="a", type="int"), Column(name="b", type="array<int>")]
    parameters = {"transactional": "true"} | changes.pop("parameters", {})
    yield site.metastore.embedded_catalog.create_table(
        NewTable("default", "t", str(warehouse / "t"), columns, parameters=parameters, **changes)
    )


def test_a_bucketed_table_is_refused(site: Site, warehouse: Path) -> None:
    """As in Hive: "Cannot execute rebalancing compaction on bucketed tables."."""
    with table_with(site, warehouse, buckets=2, bucket_columns=("a",)) as table:
        with pytest.raises(Refused, match="is bucketed"):
            request_compaction(site, table="default.t", type="rebalance")
        request = Request(entity=entity_of(table), type=CompactionType.REBALANCE, initiator="x")
        outcome = work(site, site.metastore.requests.request(request), InProcessRunner(), Options())
        assert outcome is not None
        assert outcome.result is Result.REFUSED
        assert "is bucketed" in outcome.message


def test_an_insert_only_table_is_refused(site: Site, warehouse: Path) -> None:
    parameters = {"transactional_properties": "insert_only"}
    with table_with(site, warehouse, parameters=parameters), pytest.raises(Refused, match="insert-only"):
        request_compaction(site, table="default.t", type="rebalance")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"buckets": 0}, "0 buckets"),
        ({"buckets": 4097}, "1 to 4096 files"),
        ({"order_by": "c"}, "no such column; there are a, b"),
        ({"order_by": "b"}, "array<int> has no order"),
        ({"order_by": "p"}, "partition column"),
        ({"order_by": "a + 1"}, "expressions are not supported"),
    ],
)
def test_what_cannot_be_made_is_refused_when_it_is_asked_for(
    site: Site, warehouse: Path, asked: dict[str, Any], said: str
) -> None:
    keys = [Column(name="p", type="string")]
    with (
        table_with(site, warehouse, partition_keys=keys) as table,
        pytest.raises(Refused, match=said.replace("+", ".")),
    ):
        must_be_possible(table, **{"buckets": None, "order_by": None, **asked})


def test_buckets_and_order_are_a_rebalances(site: Site, table: Table) -> None:
    for options in (RebalanceOptions(buckets=2), RebalanceOptions(order_by="a")):
        with pytest.raises(Refused, match="ask for a rebalance"):
            request_compaction(site, table="default.t", type="major", rebalance=options)


def test_what_hive_asked_for(site: Site, table: Table) -> None:
    """Its row of the queue holds the whole clause, and 0 or NULL for a number that was not given."""
    request = Request(
        entity=entity_of(table), type=CompactionType.REBALANCE, initiator="HOST-manual", order_by="order by `a` ASC"
    )
    outcome = work(site, site.metastore.requests.request(request), InProcessRunner(), Options())
    assert outcome is not None
    assert outcome.result is Result.COMPACTED
    assert [row[3] for row in rows_of(site, table)] == sorted(row[3] for row in rows_of(site, table))


def test_one_that_is_balanced_already(site: Site, table: Table) -> None:
    """It changes ROW__IDs whenever it is asked for, also of a base alone."""
    before = values(rows_of(site, table))
    first = rebalance(site)
    clean_all(site)
    second = rebalance(site, buckets=1)
    assert WriteId(int(first.output[0][5:12])) < WriteId(int(second.output[0][5:12]))
    assert values(rows_of(site, table)) == before
