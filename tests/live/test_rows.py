"""Rows and ROW__IDs through compactions of both sides: each writes, compacts and cleans over what the other left."""

from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.acid import bucket
from compactor.acid.names import Base
from compactor.compaction.states import State
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from demo.delta_writer import write_deletes, write_rows
from tests.support.beside import TRANSACTIONAL, Beside, entity
from tests.support.stories import KINDS, Story, begun
from tests.support.trino import Trino


@pytest.fixture(params=KINDS)
def story(request: pytest.FixtureRequest, beside: Beside) -> Story:
    return begun(beside, request.param)


def test_what_one_compacted_the_other_reads_changes_and_compacts_again(story: Story) -> None:
    """PROTOCOL 1, 2: every reader sees the same rows and ROW__IDs, whoever compacted last, and a point predicate too."""
    story.add(1, 2, 3, 4)
    story.add(5, 6)
    story.change(2)
    story.remove(3)
    story.check()
    story.ours("minor")
    story.check(2)
    story.merge(5, 6, 9)
    story.theirs("minor")
    story.check(5)
    story.beside.hive_clean()  # what we compacted, under what they did
    story.add(7)
    story.ours("major")
    story.check(6)
    story.change(7)
    story.theirs("major")
    story.check()
    assert story.beside.clean()["failed"] == []
    story.beside.clean_all()
    story.only(Base)
    story.add(8)
    story.remove(1)
    story.ours("major")
    story.check(8)
    story.beside.hive_clean()
    story.check()
    story.only(Base)
    assert {entry.state for entry in story.beside.history(story.name, story.partition)} == {State.SUCCEEDED}
    assert len(story.beside.history(story.name, story.partition)) == 5


def test_a_minor_of_one_transactions_statements_shows_no_row_that_the_last_deleted(
    beside: Beside, trino: Trino
) -> None:
    """PROTOCOL 1.5: two statements insert and a third deletes one of their rows, all under one write ID. Hive has no such
    transactions by itself; by batch it would show the deleted row beside a delete delta of the same write ID."""
    name = "one_write_id"
    beside.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
    row_type = "struct<a:int,b:string>"
    with transaction(beside.site) as txn:
        for start in (0, 10):
            made = txn.begin_statement(entity(name), WriteOperation.INSERT)
            rows = pa.table({"a": pa.array([start, start + 1], pa.int32()), "b": ["x", "y"]})
            write_rows(made.location, row_type, rows, write_id=made.write_id, statement_id=made.statement_id)
        gone = txn.begin_statement(entity(name), WriteOperation.DELETE)
        ids = pa.table({"writeid": [gone.write_id], "bucketid": [bucket.encode(0, 0)], "rowid": [1]})
        write_deletes(gone.location, row_type, ids, write_id=gone.write_id, statement_id=gone.statement_id)
    [done] = beside.compact(name, "minor")
    assert done["fate"] == "compacted", done
    beside.rows(name, ["0\tx", "10\tx", "11\ty"])
    for session in ("main", "by row"):
        assert sorted(beside.hive.sql(f"select a from {name}", session)) == ["0", "10", "11"], session
        assert beside.hive.sql(f"select a from {name} where a = 1", session) == [], session
    assert sorted(trino.sql(f"select a from {name}")) == [[0], [10], [11]]
    beside.clean_all()
    [left] = beside.names(name)
    assert left.startswith("delta_0000001_0000001_v")
    beside.rows(name, ["0\tx", "10\tx", "11\ty"])
