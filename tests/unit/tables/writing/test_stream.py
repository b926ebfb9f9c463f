"""Streams: small commits, each at once visible, and what is left of one that fails."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import BadFile, CommitUnknown, NotConforming, Refused, TransactionAborted
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.transactions import batch as batches
from compactor.tables.writing import statement_files
from compactor.tables.writing.stream import Stream
from tests.support.partitioned import make_partitioned
from tests.support.passes import compact
from tests.support.patience import until
from tests.support.tables import make_table, with_settings


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="0s")
    make_table(site, warehouse)
    make_partitioned(site, warehouse, "p")
    return Store(site)


def values(store: Store, name: str = "t") -> list[int]:
    return sorted(store.load_table(f"default.{name}").scan().to_arrow().column("a").to_pylist())


def is_idle(store: Store) -> bool:
    return not store.site.metastore.transactions.open_transactions()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put(stream: Stream, *numbers: int) -> int:
    stream.write(pa.table({"a": list(numbers)}))
    return stream.commit()


def test_each_commit_is_a_delta_that_is_seen_at_once(store: Store, warehouse: Path) -> None:
    with store.load_table("default.t").stream() as stream:
        for number in range(1, 6):
            stream.write(pa.table({"a": [number]}))
            assert values(store) == list(range(1, number))
            assert stream.commit() == 1
            assert values(store) == list(range(1, number + 1))
    deltas = names_in(warehouse / "t")
    assert len(deltas) == 5
    assert all(name.startswith("delta_") for name in deltas)
    assert is_idle(store)


def test_several_writes_are_one_commit(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        assert stream.write(pa.table({"a": [1, 2]})) == 2
        stream.write(pa.record_batch({"A": [3]}))
        assert stream.waiting_rows == 3
        assert stream.commit() == 3
        assert stream.commit() == 0
    assert values(store) == [1, 2, 3]
    assert (stream.committed.commits, stream.committed.rows, stream.committed.write_id) == (1, 3, 1)


def test_rows_beyond_the_memory_wait_on_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_files, "IN_MEMORY", 40)
    with store.load_table("default.t").stream() as stream:
        for first in range(0, 100, 10):
            stream.write(pa.table({"a": range(first, first + 10)}))
        assert stream.commit() == 100
        put(stream, *range(100, 110))
    assert values(store) == list(range(110))


def test_rows_go_to_the_partitions_that_they_name(store: Store) -> None:
    table = store.load_table("default.p")
    with table.stream() as stream:
        for number in range(4):
            stream.write(pa.table({"a": [number, number + 10], "p": [1, 2 + number % 2]}))
            stream.commit()
            assert len(values(store, "p")) == 2 * number + 2
    assert table.partitions == ("p=1", "p=2", "p=3")
    assert is_idle(store)


def test_a_stream_into_one_partition_adds_it(store: Store) -> None:
    table = store.load_table("default.p")
    with table.stream(partition={"p": 7}) as stream:
        assert [put(stream, 1), put(stream, 2), put(stream, 3), put(stream, 4)] == [1, 1, 1, 1]
    assert (values(store, "p"), table.partitions) == ([1, 2, 3, 4], ("p=7",))
    with table.stream(partition={"p": 7}) as stream:
        put(stream, 5)
        assert [lock.partition for lock in store.site.metastore.locks.show()] == []
    assert values(store, "p") == [1, 2, 3, 4, 5]


def test_a_write_that_is_refused_takes_none_of_its_rows(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        stream.write(pa.table({"a": [1]}))
        parts = [pa.record_batch({"a": [2]}), pa.record_batch({"a": [1 << 40]})]
        with pytest.raises(NotConforming):
            stream.write(pa.RecordBatchReader.from_batches(parts[0].schema, parts))
        assert stream.commit() == 1
    assert values(store) == [1]


def test_rows_that_nobody_committed_are_no_silent_loss(store: Store) -> None:
    with pytest.raises(Refused, match="2 rows were written into the stream but not committed"):
        _leave_rows(store)
    assert values(store) == [1]
    with store.load_table("default.t").stream() as stream:
        stream.write(pa.table({"a": [3]}))
        assert stream.discard() == 1
    with pytest.raises(Refused, match="closed"):
        stream.write(pa.table({"a": [3]}))
    assert values(store) == [1]
    assert is_idle(store)


def _leave_rows(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        put(stream, 1)
        stream.write(pa.table({"a": [2, 3]}))


def test_a_program_that_fails_keeps_what_is_committed(store: Store) -> None:
    with pytest.raises(RuntimeError):
        _fail(store)
    assert values(store) == [1]
    assert is_idle(store)


def _fail(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        put(stream, 1)
        stream.write(pa.table({"a": [2]}))
        raise RuntimeError


def test_a_commit_that_fails_says_what_is_committed_and_can_be_tried_again(store: Store, warehouse: Path) -> None:
    with store.load_table("default.t").stream() as stream:
        put(stream, 1)
        stream.write(pa.table({"a": [2, 3]}))
        (warehouse / "t").rename(warehouse / "elsewhere")
        with pytest.raises(BadFile) as raised:
            stream.commit()
        (note,) = raised.value.__notes__
        assert "the stream has committed 1 rows in 1 commits" in note
        assert "2 rows wait" in note
        (warehouse / "elsewhere").rename(warehouse / "t")
        assert stream.commit() == 2
    assert values(store) == [1, 2, 3]
    assert not [name for name in names_in(warehouse / "t") if name.startswith(".")]


def test_a_batch_that_somebody_aborts_names_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AGE_S", 1e9)
    with store.load_table("default.t").stream() as stream:
        put(stream, 1)
        put(stream, 2)  # the first of two
        stream.write(pa.table({"a": [3]}))
        transactions = store.site.metastore.transactions
        for one in transactions.open_transactions():
            transactions.abort(one.id, "a test times it out")
        with pytest.raises(TransactionAborted):
            stream.commit()
        assert values(store) == [1, 2]
        assert stream.commit() == 1
    assert values(store) == [1, 2, 3]


def test_after_a_lost_answer_nobody_goes_on_as_if_nothing_had_happened(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = store.site.metastore.transactions
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(Refused, match="but not committed"))
        stream = stack.enter_context(store.load_table("default.t").stream())
        put(stream, 1)
        kept = transactions._commit_unless_lost

        def lose(*args: object) -> None:
            raise CommitUnknown("the connection is gone")

        monkeypatch.setattr(transactions, "_commit_unless_lost", lose)
        with pytest.raises(CommitUnknown):
            put(stream, 2)
        monkeypatch.setattr(transactions, "_commit_unless_lost", kept)
        with pytest.raises(Refused, match="and perhaps 1 rows more"):
            stream.commit()


def test_an_interrupt_behind_a_commit_doubles_no_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, and a program that commits once more before it ends."""
    with store.load_table("default.t").stream() as stream:
        stream.write(pa.table({"a": [1]}))
        with monkeypatch.context() as patched:
            patched.setattr(batches.TransactionBatch, "remember", interrupt)
            with pytest.raises(KeyboardInterrupt):
                stream.commit()
        with pytest.raises(Refused, match="KeyboardInterrupt came between"):
            stream.commit()
        stream.discard()
    assert store.load_table("default.t").scan().count() == 1


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_stream_may_be_closed_twice(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        stream.close()
    stream.close()
    assert stream.discard() == 0
    with pytest.raises(Refused, match="is closed"):
        stream.commit()


def test_an_idle_stream_holds_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its open write IDs would keep compactions from its own rows, and its transactions every cleaner from working."""
    monkeypatch.setattr(batches, "AGE_S", 0.0)
    with store.load_table("default.t").stream() as stream:
        for number in range(3):
            put(stream, number)
        stream.rest()
        assert is_idle(store)
        assert compact(store.site).result is not None
        assert put(stream, 3) == 1
    assert values(store) == [0, 1, 2, 3]


def test_the_rest_comes_by_itself(store: Store) -> None:
    with store.load_table("default.t").stream() as stream:
        for number in range(4):
            put(stream, number)
        until("the batch is given back", lambda: is_idle(store))


def test_a_stream_has_transactions_of_its_own(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        with pytest.raises(Refused, match="its own transactions"), table.stream():
            pass


def test_readers_see_commits_of_later_write_ids(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the batch that are open are exceptions in a reader's list, and hide nothing else."""
    monkeypatch.setattr(batches, "AGE_S", 1e9)
    table = store.load_table("default.t")
    with table.stream() as stream:
        put(stream, 1)
        put(stream, 2)
        table.append(pa.table({"a": [3]}))
        assert values(store) == [1, 2, 3]
        assert len(store.site.metastore.transactions.open_transactions()) == 1


def test_a_partition_is_looked_up_once_in_a_batch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AGE_S", 1e9)
    catalog, asked = store.site.metastore.catalog, []
    kept = catalog.partitions
    monkeypatch.setattr(catalog, "partitions", lambda table, names=None: asked.append(names) or kept(table, names))
    with store.load_table("default.p").stream() as stream:
        for number in range(7):  # batches of one, two and four
            stream.write(pa.table({"a": [number], "p": [1]}))
            stream.commit()
    assert asked == [["p=1"]] * 6, "for its location, and for its ground"


def test_units_of_timestamps_may_differ_from_write_to_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_files, "IN_MEMORY", 20)
    table = store.create_table("default.times", {"at": "timestamp"})
    with table.stream() as stream:
        for unit in ("s", "us", "us", "ns"):
            stream.write(pa.table({"at": pa.array([1], pa.timestamp(unit))}))
        stream.write(pa.table({"at": pa.array([1, 2, 3], pa.timestamp("ns"))}))
        stream.write(pa.table({"at": pa.array([1, 2, 3], pa.timestamp("us"))}))
        assert stream.commit() == 10
    found = table.scan().to_arrow().column("at").cast(pa.int64()).to_pylist()
    assert sorted(found) == [1, 1, 2, 3, 1000, 1000, 1000, 2000, 3000, 10**9]


def test_a_table_is_compacted_up_to_what_a_stream_has_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AGE_S", 1e9)
    folder = Path(store.site.metastore.catalog.table("default", "t").location)
    with store.load_table("default.t").stream() as stream:
        put(stream, 1)
        put(stream, 2)
        store.load_table("default.t").append(pa.table({"a": [4]}))  # above the write ID that is open
        compact(store.site)
        bases = [name for name in names_in(folder) if name.startswith("base_")]
        assert [name[:12] for name in bases] == ["base_0000002"]
        assert values(store) == [1, 2, 4]
        put(stream, 3)
        assert values(store) == [1, 2, 3, 4]
    compact(store.site)
    assert values(store) == [1, 2, 3, 4]
