"""Statistics are written by the database transaction that commits a compaction, under Hive's rules for their write IDs, and
never where anybody else may have changed the rows that they describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, event, inspect, select, text, update
from sqlalchemy.exc import OperationalError

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Partition, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.queue.commit_section import EntryCommit
from compactor.metastore.schema import tables as t
from compactor.metastore.statistics import subjects as s
from compactor.metastore.statistics.commit_statistics import CommitStatistics
from compactor.metastore.transactions.transaction_rows import TxnType

FLAGS = "COLUMN_STATS_ACCURATE"
KINDS = ("a table", "a partition")
FIGURES = RowFigures(
    rows=4,
    raw_size=0,
    columns=(
        ColumnFigures(name="a", type="int", values=3, low=-1, high=7),
        ColumnFigures(name="b", type="boolean", values=4, trues=1),
    ),
)


class Subject:
    """A table or partition with one committed write, and a compaction of it that is about to commit."""

    def __init__(self, metastore: Metastore, kind: str) -> None:
        self.metastore = metastore
        columns = [Column(name="a", type="int"), Column(name="b", type="boolean")]
        keys = [Column(name="p", type="string")] if kind == "a partition" else []
        new = NewTable("default", "t", "/warehouse/t", columns, partition_keys=keys)
        self.table: Table = metastore.embedded_catalog.create_table(new)
        self.partition: Partition | None = self.add("a b=c") if keys else None
        self.write()
        self.begin()

    def add(self, value: str) -> Partition:
        return self.metastore.embedded_catalog.add_partition(self.table, [value])

    @property
    def entity(self) -> Entity:
        return Entity(database="default", table="t", partition=self.partition.name if self.partition else None)

    @property
    def id(self) -> int:
        return self.partition.id if self.partition else self.table.id

    def write(self, *, entity: Entity | None = None, ends: bool = True, operation: str = "i") -> tuple[TxnId, WriteId]:
        """Writes rows as a transaction of Hive's streaming does, which leaves statistics alone."""
        [txn] = self.metastore.transactions.open("u", "h")
        write_id = self.metastore.write_ids.allocate(txn, "default", "t")
        self.metastore.write_ids.add_component(txn, entity or self.entity, operation, write_id)
        if ends:
            self.metastore.transactions.commit(txn)
        return txn, write_id

    def begin(self) -> None:
        """Begins the compaction: its view is that of now."""
        self.metastore.requests.request(
            Request(entity=self.entity, type=CompactionType.MAJOR, initiator="compactor-test")
        )
        entry = self.metastore.claims.claim("compactor-1", "test", pool_timeout_ms=0)
        assert entry is not None
        [self.txn] = self.metastore.transactions.open("u", "h", type=TxnType.COMPACTION)
        txns = self.metastore.transactions.snapshot(self.txn)
        self.view = self.metastore.write_ids.valid("default", "t", txns).for_compactor()
        self.known = CommitStatistics(
            files=1,
            bytes=99,
            txns=txns,
            write_ids=self.view,
            highest=self.view.high_watermark,
            rows=FIGURES,
            sets_flags=self.metastore.dialect.layout.has_visibility,  # on SQLite too, where no Hive would read them
        )
        self.entry = self.metastore.claims.record(entry, "compactor-1", self.txn, None, self.view.high_watermark)

    def commit(self, body: Callable[[], object] = lambda: None, **known: Any) -> None:
        place = self.partition or self.table
        commit = EntryCommit(
            entry=self.entry,
            worker_id="compactor-1",
            txn=self.txn,
            table_id=self.table.id,
            partition_id=self.partition.id if self.partition else None,
            location=place.location,
            statistics=replace(self.known, **known),
        )
        with self.metastore.commits.committing_all([commit]):
            body()

    # --- what the metastore has ---------------------------------------------------------------------------------------

    @property
    def _parameters(self) -> tuple[Any, Any]:
        parameters = t.PARTITION_PARAMS if self.partition else t.TABLE_PARAMS
        return parameters, parameters.c.PART_ID if self.partition else parameters.c.TBL_ID

    @property
    def parameters(self) -> dict[str, str]:
        table, owner = self._parameters
        with self.metastore.database.read() as conn:
            found = conn.execute(select(table.c.PARAM_KEY, table.c.PARAM_VALUE).where(owner == self.id)).all()
        return {key: value for key, value in found if not key.startswith("transient")}

    @property
    def flags(self) -> Any:
        return json.loads(self.parameters.get(FLAGS, "{}"))

    def set(self, **parameters: str) -> None:
        table, owner = self._parameters
        with self.metastore.database.write() as conn:
            for key, value in parameters.items():
                conn.execute(table.insert().values({owner.name: self.id, "PARAM_KEY": key, "PARAM_VALUE": value}))

    @property
    def _owner(self) -> tuple[Any, Any]:
        return (t.PARTITIONS, t.PARTITIONS.c.PART_ID) if self.partition else (t.TBLS, t.TBLS.c.TBL_ID)

    @property
    def write_id(self) -> int:
        table, owner = self._owner
        with self.metastore.database.read() as conn:
            return conn.execute(select(table.c.WRITE_ID).where(owner == self.id)).scalar() or 0

    def set_write_id(self, number: int) -> None:
        table, owner = self._owner
        with self.metastore.database.write() as conn:
            conn.execute(update(table).where(owner == self.id).values(WRITE_ID=number))

    def add_column(self, number: int, name: str, type: str, engine: str = "hive", **figures: object) -> None:
        table = s.PART_COL_STATS if self.partition else s.TAB_COL_STATS
        owner = {"PART_ID" if self.partition else "TBL_ID": self.id}
        named = {"COLUMN_NAME": name, "COLUMN_TYPE": type, "LAST_ANALYZED": 1, **figures}
        if self.metastore.dialect.layout.has_visibility:
            named["ENGINE"] = engine
        with self.metastore.database.write() as conn:
            if self.metastore.dialect.database == "sqlite":
                s.metadata.create_all(conn)
            else:  # columns of a release that are not ours, and may not be null
                there = {c["name"] for c in inspect(conn).get_columns(table.name)}
                named |= {
                    key: value
                    for key, value in (
                        ("CAT_NAME", "hive"),
                        ("DB_NAME", "default"),
                        ("TABLE_NAME", "t"),
                        ("PARTITION_NAME", "p"),
                    )
                    if key in there
                }
            values = {"CS_ID": number, **owner, **named}
            names = ", ".join(f":{key}" for key in values)
            quoted = ", ".join(conn.dialect.identifier_preparer.quote_identifier(key) for key in values)
            quoted_table = conn.dialect.identifier_preparer.quote_identifier(table.name)
            conn.execute(text(f"INSERT INTO {quoted_table} ({quoted}) VALUES ({names})"), values)

    def column(self, number: int) -> dict[str, Any]:
        """Returns the figures of a row of column statistics that are not null."""
        table = s.PART_COL_STATS if self.partition else s.TAB_COL_STATS
        with self.metastore.database.read() as conn:
            row = conn.execute(select(table).where(number == table.c.CS_ID)).mappings().one()
        shown = {*s.FIGURES, "NUM_DISTINCTS", "AVG_COL_LEN", "MAX_COL_LEN"}
        return {key: value for key, value in row.items() if key in shown and value is not None}


@pytest.fixture(params=KINDS)
def subject(request: pytest.FixtureRequest, metastore: Metastore) -> Subject:
    return Subject(metastore, request.param)


def is_hive4(subject: Subject) -> bool:
    return subject.metastore.dialect.layout.has_visibility


SIZES = {"numFiles": "1", "totalSize": "99"}
ROWS = {"numRows": "4", "rawDataSize": "0"}


def test_figures_of_files_are_written_in_any_case(subject: Subject) -> None:
    subject.set(numFiles="12")
    subject.commit(rows=None)
    assert subject.parameters == SIZES
    assert subject.write_id == 0


def test_what_is_proved_is_marked_under_a_write_id_of_the_compaction(subject: Subject, hive4: None) -> None:
    """Only readers who see the compaction may use it: for all others the write ID is none that they see."""
    before = subject.metastore.transactions.snapshot()
    subject.set_write_id(1)
    subject.commit()
    assert subject.parameters == {**SIZES, **ROWS, FLAGS: '{"BASIC_STATS":"true"}'}
    assert subject.write_id == 2
    assert subject.metastore.write_ids.allocated_to(subject.txn) == [("default", "t", 2)]
    assert subject.metastore.write_ids.next("default", "t") == 3
    valid = subject.metastore.write_ids.valid
    assert valid("default", "t", subject.metastore.transactions.snapshot()).is_valid(WriteId(2))
    assert not valid("default", "t", before).is_valid(WriteId(2))


def test_where_a_writer_left_statistics_alone_nothing_is_marked(subject: Subject, hive4: None) -> None:
    """He would leave the mark alone, too. What was marked wrongly for that reason is so no longer."""
    subject.set(numRows="0", **{FLAGS: '{"BASIC_STATS":"true"}'})
    subject.commit()
    assert subject.parameters == {**SIZES, **ROWS, FLAGS: "{}"}
    assert subject.write_id == 0
    assert subject.metastore.write_ids.next("default", "t") == 2


def test_hive_3_marks_nothing(subject: Subject, hive3: None) -> None:
    """Its statistics of transactional tables are estimates, and have no write ID."""
    subject.commit()
    assert subject.parameters == SIZES | ROWS
    assert subject.metastore.write_ids.next("default", "t") == 2


def test_what_is_true_already_stays_as_it_is(subject: Subject, hive4: None) -> None:
    stored = ROWS | {"rawDataSize": "7", FLAGS: '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true","c":"true"}}'}
    subject.set(**stored)
    subject.set_write_id(1)
    subject.add_column(1, "a", "int", LONG_LOW_VALUE=-1, LONG_HIGH_VALUE=7, NUM_NULLS=1, NUM_DISTINCTS=3)
    subject.commit()
    assert subject.parameters == SIZES | stored
    assert subject.column(1) == {"LONG_LOW_VALUE": -1, "LONG_HIGH_VALUE": 7, "NUM_NULLS": 1, "NUM_DISTINCTS": 3}
    assert subject.write_id == 1
    assert subject.metastore.write_ids.next("default", "t") == 2


def test_columns_with_statistics_get_new_ones(subject: Subject, hive4: None) -> None:
    """A distinct count stays as the estimate that it was, and so its column without a mark."""
    subject.add_column(1, "a", "int", LONG_LOW_VALUE=-5, LONG_HIGH_VALUE=9, NUM_NULLS=0, NUM_DISTINCTS=3)
    subject.add_column(2, "b", "boolean", NUM_TRUES=2, NUM_FALSES=3, NUM_NULLS=1)
    subject.add_column(3, "a", "int", "impala", LONG_LOW_VALUE=-5, LONG_HIGH_VALUE=9, NUM_NULLS=0)
    subject.set_write_id(1)
    subject.commit()
    assert subject.column(1) == {"LONG_LOW_VALUE": -1, "LONG_HIGH_VALUE": 7, "NUM_NULLS": 1, "NUM_DISTINCTS": 3}
    assert subject.column(2) == {"NUM_TRUES": 1, "NUM_FALSES": 3, "NUM_NULLS": 0}
    assert subject.column(3) == {"LONG_LOW_VALUE": -5, "LONG_HIGH_VALUE": 9, "NUM_NULLS": 0}
    assert subject.flags == {"BASIC_STATS": "true", "COLUMN_STATS": {"b": "true"}}


def test_hive_3s_columns_get_new_figures_too(subject: Subject, hive3: None) -> None:
    subject.add_column(1, "a", "int", LONG_LOW_VALUE=-5, LONG_HIGH_VALUE=9, NUM_NULLS=0, NUM_DISTINCTS=3)
    subject.commit()
    assert subject.column(1) == {"LONG_LOW_VALUE": -1, "LONG_HIGH_VALUE": 7, "NUM_NULLS": 1, "NUM_DISTINCTS": 3}
    assert subject.flags == {}


def _writes_now(subject: Subject) -> None:
    subject.write(ends=False)


def _writes_anywhere(subject: Subject) -> None:
    subject.write(entity=Entity(database="default", table="t"), ends=False)


def _has_written(subject: Subject) -> None:
    subject.write()


def _has_deleted(subject: Subject) -> None:
    subject.write(operation="d")


def _has_written_beside_an_open_one(subject: Subject) -> None:
    """The write ID of the committed one is above that of the open one, which is in another partition."""
    other = Entity(database="default", table="t", partition="p=other") if subject.partition else None
    subject.write(entity=other, ends=False)
    subject.write()


@pytest.mark.parametrize(
    "meanwhile", [_writes_now, _writes_anywhere, _has_written, _has_deleted, _has_written_beside_an_open_one]
)
def test_nothing_is_said_of_rows_that_others_may_have_changed(
    subject: Subject, meanwhile: Callable[[Subject], None]
) -> None:
    subject.add_column(1, "b", "boolean", NUM_TRUES=2, NUM_FALSES=3, NUM_NULLS=1)
    meanwhile(subject)
    subject.commit()
    assert subject.parameters == SIZES
    assert subject.column(1) == {"NUM_TRUES": 2, "NUM_FALSES": 3, "NUM_NULLS": 1}
    assert subject.write_id == 0


def test_writers_of_other_partitions_do_not_matter(metastore: Metastore) -> None:
    subject = Subject(metastore, "a partition")
    other = Entity(database="default", table="t", partition="p=other")
    subject.write(entity=other)
    subject.write(entity=other, ends=False)
    subject.commit()
    assert subject.parameters.items() >= (SIZES | ROWS).items()


@pytest.mark.parametrize("form", ["stored", "escaped again"])
def test_a_write_counts_under_every_form_of_its_partitions_name(metastore: Metastore, form: str) -> None:
    subject = Subject(metastore, "a partition")
    name = subject.entity.partition
    assert name == "p=a b%3Dc"
    named = name if form == "stored" else "p=a b%253Dc"
    subject.write(entity=Entity(database="default", table="t", partition=named))
    subject.commit()
    assert subject.parameters == SIZES


def test_a_write_without_a_write_id_counts_by_its_transaction(subject: Subject) -> None:
    """Trino's components have none; the first one's is in TXN_TO_WRITE_ID, of the second one nothing is left there."""
    with subject.metastore.database.write() as conn:
        conn.execute(update(t.COMPLETED_TXN_COMPONENTS).values(CTC_WRITEID=None))
    subject.commit()
    assert subject.parameters.items() >= (SIZES | ROWS).items()


def test_a_later_write_without_a_write_id_counts_too(subject: Subject) -> None:
    subject.write()
    with subject.metastore.database.write() as conn:
        conn.execute(update(t.COMPLETED_TXN_COMPONENTS).values(CTC_WRITEID=None))
        conn.execute(t.TXN_TO_WRITE_ID.delete())
    subject.commit()
    assert subject.parameters == SIZES


def test_statistics_that_others_wrote_later_stay(subject: Subject, hive4: None) -> None:
    """Hive's rule: only statistics whose write ID the view sees may be replaced."""
    subject.set(numRows="77", **{FLAGS: '{"BASIC_STATS":"true"}'})
    subject.set_write_id(2)
    subject.commit()
    assert subject.parameters == SIZES | {"numRows": "77", FLAGS: '{"BASIC_STATS":"true"}'}
    assert subject.write_id == 2


def test_statistics_of_an_aborted_write_are_replaced(metastore: Metastore, hive4: None) -> None:
    subject = Subject(metastore, "a table")
    metastore.transactions.abort(subject.txn, "again")
    metastore.claims.requeue(subject.entry.id, "compactor-1")
    txn, write_id = subject.write(ends=False)
    metastore.transactions.abort(txn, "rollback")
    subject.set(numRows="4", **{FLAGS: '{"BASIC_STATS":"true","COLUMN_STATS":{"z":"true"}}'})
    subject.set_write_id(write_id)
    with metastore.database.write() as conn:
        conn.execute(t.COMPACTION_QUEUE.delete())
    subject.begin()
    subject.commit()
    assert subject.flags == {"BASIC_STATS": "true"}
    assert subject.write_id == write_id + 1


def test_a_rebalance_has_its_write_id_already(metastore: Metastore, hive4: None) -> None:
    subject = Subject(metastore, "a table")
    own = metastore.write_ids.allocate(subject.txn, "default", "t")
    subject.set_write_id(1)
    subject.commit(write_id=own)
    assert subject.write_id == own == 2
    assert metastore.write_ids.next("default", "t") == 3


def test_nothing_is_written_unless_the_compaction_commits(subject: Subject) -> None:
    def fail() -> None:
        raise KeyError("naming")

    subject.add_column(1, "b", "boolean", NUM_TRUES=2, NUM_FALSES=3, NUM_NULLS=1)
    with pytest.raises(KeyError):
        subject.commit(fail)
    assert subject.parameters == {}
    assert subject.column(1)["NUM_TRUES"] == 2
    assert subject.metastore.write_ids.next("default", "t") == 2


@contextmanager
def failing(word: str) -> Iterator[list[str]]:
    """Lets every statement with ``word`` in it fail in the block, except those about the queue; yields those that did."""
    failed: list[str] = []

    def fail(conn: Any, cursor: Any, statement: str, *rest: object) -> None:
        if word in statement and t.COMPACTION_QUEUE.name not in statement:
            failed.append(statement)
            raise OperationalError(statement, {}, Exception(f"no space left for {word}"))

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        yield failed
    finally:
        event.remove(Engine, "before_cursor_execute", fail)


@pytest.mark.parametrize("what", ["SELECT", "INSERT INTO"])
def test_an_error_of_the_statistics_keeps_no_compaction_from_committing(
    subject: Subject, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever was written before the error is undone with it."""
    name = subject._parameters[0].name
    with failing(name if what == "SELECT" else f"INSERT INTO {_quoted(subject, name)}") as failed:
        subject.commit()
    assert failed
    assert "statistics are left as they are" in caplog.text
    assert subject.metastore.entries.get(subject.entry.id).state is State.READY_FOR_CLEANING
    assert subject.parameters == {}
    assert subject.metastore.write_ids.next("default", "t") == 2


def _quoted(subject: Subject, name: str) -> str:
    return subject.metastore.database.engine.dialect.identifier_preparer.quote(name)


def test_what_somebody_else_changes_right_now_is_not_waited_for(subject: Subject, store: str) -> None:
    if store == "sqlite":  # where no two can write at once
        return
    table, owner = subject._owner
    with subject.metastore.database.engine.connect() as other:
        held = select(table.c[owner.name]).where(owner == subject.id).with_for_update()
        assert other.execute(held).scalar() == subject.id
        subject.commit()
        other.rollback()
    assert subject.parameters == {}
    assert subject.metastore.entries.get(subject.entry.id).state is State.READY_FOR_CLEANING


def test_a_group_takes_as_many_statements_as_one(metastore: Metastore) -> None:
    """Each of 20 partitions gets its own write ID, and statements are counted in a round trip each."""
    subject = Subject(metastore, "a partition")
    with counted() as alone:
        subject.commit()
    compactions = []
    for number in range(20):
        one = subject.add(f"{number}")
        subject.partition = one
        _, write_id = subject.write()
        if is_hive4(subject):
            subject.set_write_id(write_id)
        subject.begin()
        compactions.append((one, subject.entry, subject.txn, subject.known))
    commits = [
        EntryCommit(
            entry=entry,
            worker_id="compactor-1",
            txn=txn,
            table_id=subject.table.id,
            partition_id=one.id,
            location=one.location,
            statistics=known,
        )
        for one, entry, txn, known in compactions
    ]
    with counted() as together, metastore.commits.committing_all(commits):
        pass
    seen = []
    for one, *_ in compactions:
        subject.partition = one
        assert subject.parameters.items() >= (SIZES | ROWS).items()
        seen.append(subject.write_id)
    if is_hive4(subject):
        assert len(set(seen)) == 20
    assert len(together) <= 2 * len(alone), "\n".join(together)


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yields the statements of the block that are about statistics."""
    seen: list[str] = []
    words = ("_PARAMS", "COL_STATS", "NEXT_WRITE_ID SET", "INSERT INTO TXN_TO_WRITE_ID", "TXN_COMPONENTS")

    def see(conn: Any, cursor: Any, statement: str, *rest: object) -> None:
        plain = statement.upper().replace('"', "").replace("`", "")
        if any(word in plain for word in words):
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", see)
