"""Rows and ROW__IDs through compactions of both sides: each writes, compacts and cleans over what the other left."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from compactor.acid import bucket
from compactor.acid.names import Base, parse_directory
from compactor.compaction.states import State
from compactor.tables.transaction import WriteOperation, writing
from compactor.tables.writer import write_deletes, write_rows
from tests.support.beside import TRANSACTIONAL, Beside, entity
from tests.support.trino import Trino

HOSTILE = "a b=c/d%"  #: a value whose directory's name is escaped
STORED = "p=a b%3Dc%2Fd%25"


@dataclass(slots=True, kw_only=True)
class Story:
    """A table, the statements that Hive runs on it, and the rows that it must hold by them."""

    beside: Beside
    name: str
    columns: str
    insert: str  #: up to the values
    partition: str | None = None  #: as stored
    spec: str | None = None  #: the same as a statement has it
    tail: tuple[str, ...] = ()  #: values of partition columns in a row
    rows: dict[int, str] = field(default_factory=dict)

    def create(self) -> None:
        self.beside.hive.sql(f"create table {self.name} {self.columns} {TRANSACTIONAL}")

    def add(self, *keys: int) -> None:
        values = ", ".join(f"({key}, 'row {key}')" for key in keys)
        self.beside.hive.sql(f"{self.insert} values {values}")
        self.rows |= {key: f"row {key}" for key in keys}

    def change(self, key: int) -> None:
        self.rows[key] += " changed"
        self.beside.hive.sql(f"update {self.name} set b = '{self.rows[key]}' where a = {key}")

    def remove(self, key: int) -> None:
        self.beside.hive.sql(f"delete from {self.name} where a = {key}")
        del self.rows[key]

    def merge(self, changed: int, removed: int, added: int) -> None:
        """One statement that updates, deletes and inserts."""
        source = f"inline(array(struct({changed}, 'u'), struct({removed}, 'd'), struct({added}, 'i'))) as (k, what)"
        new = ", ".join(["s.k", f"'row {added}'", *(f"'{value}'" for value in self.tail)])
        self.rows[changed] += " changed"
        self.beside.hive.sql(
            f"merge into {self.name} t using (select {source}) s on t.a = s.k "
            f"when matched and s.what = 'u' then update set b = '{self.rows[changed]}' "
            f"when matched and s.what = 'd' then delete when not matched then insert values ({new})"
        )
        del self.rows[removed]
        self.rows[added] = f"row {added}"

    def check(self, *keys: int) -> None:
        """All rows by both sides, and Hive's answer about each of ``keys``, by batch and row by row."""
        self.beside.rows(self.name, ["\t".join([str(a), b, *self.tail]) for a, b in self.rows.items()])
        for key in keys:
            point = f"select a, b, count(*) from {self.name} where a = {key} group by a, b"
            wanted = [f"{key}\t{self.rows[key]}\t1"] if key in self.rows else []
            for session in ("main", "by row"):
                assert self.beside.hive.sql(point, session) == wanted, session

    def ours(self, kind: str) -> None:
        [done] = self.beside.compact(self.name, kind, self.partition)
        assert done["fate"] == "compacted", done

    def theirs(self, kind: str) -> None:
        self.beside.hive_compact(self.name, kind, self.spec)
        newest = self.beside.queue(State.READY_FOR_CLEANING)[-1]
        assert newest.type.label.lower() == kind
        assert newest.worker_version == "4.1.0"

    def only(self, kind: type) -> None:
        """One directory is left, of ``kind``."""
        [name] = self.beside.names(self.name, self.partition)
        assert isinstance(parse_directory(name), kind), name


STORIES = {
    "plain": {"columns": "(a int, b string)", "insert": "insert into {}"},
    "bucketed": {"columns": "(a int, b string) clustered by (a) into 2 buckets", "insert": "insert into {}"},
    "partitioned": {
        "columns": "(a int, b string) partitioned by (p string)",
        "insert": f"insert into {{}} partition (p='{HOSTILE}')",
        "partition": STORED,
        "spec": f"p='{HOSTILE}'",
        "tail": (HOSTILE,),
    },
}


@pytest.fixture(params=STORIES)
def story(request: pytest.FixtureRequest, beside: Beside) -> Story:
    given = dict(STORIES[request.param])
    name = f"rows_{request.param}"
    made = Story(beside=beside, name=name, **{**given, "insert": str(given["insert"]).format(name)})
    made.create()
    return made


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
    with writing(beside.site) as txn:
        for start in (0, 10):
            made = txn.statement(entity(name), WriteOperation.INSERT)
            rows = pa.table({"a": pa.array([start, start + 1], pa.int32()), "b": ["x", "y"]})
            write_rows(made.location, row_type, rows, write_id=made.write_id, statement_id=made.statement_id)
        gone = txn.statement(entity(name), WriteOperation.DELETE)
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
