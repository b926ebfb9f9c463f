"""Statement by statement, our store changes the rows that a real Hive 4.1 was recorded to change.

``DIFFERENCES`` is the whole list of what is deliberately otherwise, each with its reason; what is only written in another
order or at another moment is put right in ``_rewrite``, each with its reason too. Ids are the same in both, since both
begin with an empty metastore; times are not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import compactor
from compactor.acid.partition_names import part_name
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType
from compactor.locking import statement_locks
from compactor.locking.lock_types import LockRequest, LockType
from compactor.locking.statement_locks import TableFacts
from compactor.locking.statement_rules import Name
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.settings.precedence import Settings
from compactor.statements.parser import parse
from tests.support.committing import committing
from tests.support.row_changes import Recorded, State, changes, recording

RECORD = Path(__file__).parents[1] / "fixtures" / "hive-4.1" / "rows_by_statement.txt"
ODD = "p=a b%3Dc%2Fd%25"  #: as in PARTITIONS.PART_NAME and the directory
ODD_TWICE = "p=a b%253Dc%252Fd%2525"
WORKER = {"HOST-605": "compactor-1", "HOST-968": "compactor-2", "HOST-1021": "compactor-3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Lines that only Hive has (``hive``), and lines that only we have (``ours``), in one statement."""

    statement: str
    because: str
    hive: Sequence[str] = ()
    ours: Sequence[str] = ()


def line(sign: str, table: str, **columns: object) -> str:
    """A line of ``Changes``."""
    return f"{sign} {table} " + " ".join(f"{name}={value}" for name, value in sorted(columns.items()))


def component(sign: str, prefix: str, table: str, txn: int, write_id: int, **more: object) -> str:
    """A row of TXN_COMPONENTS or COMPLETED_TXN_COMPONENTS."""
    columns = {"DATABASE": "default", "TABLE": table, "TXNID": txn, "WRITEID": write_id} | more
    name = {"TC": "TXN_COMPONENTS", "CTC": "COMPLETED_TXN_COMPONENTS"}[prefix]
    return line(sign, name, **{f"{prefix}_{column}": value for column, value in columns.items()})


def entry(sign: str, prefix: str, id: int, type: str, table: str, txn: int, write_id: int, **more: object) -> str:
    """A worked row of the queue or of its history."""
    columns = {
        "ID": id,
        "TYPE": type,
        "DATABASE": "default",
        "TABLE": table,
        "TXN_ID": txn,
        "HIGHEST_WRITE_ID": write_id,
    }
    columns |= {"ENQUEUE_TIME": "T", "START": "T", "RUN_AS": "root", "INITIATOR_ID": "HOST-manual"}
    columns |= {"INITIATOR_VERSION": "V", "WORKER_VERSION": "4.1.0"}
    columns |= {"STATE": "r", "RETRY_RETENTION": 0} if prefix == "CQ" else {"STATE": "s", "END": "T"}
    name = {"CQ": "COMPACTION_QUEUE", "CC": "COMPLETED_COMPACTIONS"}[prefix]
    return line(sign, name, **{f"{prefix}_{column}": value for column, value in (columns | more).items()})


def _truncated(sign: str, table: str) -> list[str]:
    """The rows that a committed TRUNCATE leaves."""
    return [
        component(sign, "CTC", table, 18, 5, TIMESTAMP="T", UPDATE_DELETE="Y"),
        line(
            sign,
            "WRITE_SET",
            WS_COMMIT_ID=18,
            WS_DATABASE="default",
            WS_OPERATION_TYPE="u",
            WS_TABLE=table,
            WS_TXNID=18,
        ),
    ]


_STAMPS = {"NEXT_TXN_ID": 15, "COMMIT_TIME": "T"}
_REBALANCE = (3, "r", "tu", 15, 3)
_BUCKETS = {"NUMBER_OF_BUCKETS": 2}
_BOTH_OR_NEITHER = (
    "Hive sets ready for cleaning before it commits, and a row without a committed transaction stays behind when that "
    "fails; PROTOCOL 5: both or neither"
)
_PARTITIONS_KNOWN = "our writer knows its partitions before it writes: no component covers the whole table meanwhile"
DIFFERENCES = (
    Difference(
        statement="INSERT dynamic partition",
        because=_PARTITIONS_KNOWN,
        hive=[component("~", "TC", "tr", 3, 2, OPERATION_TYPE="i")],
    ),
    Difference(
        statement="UPDATE", because=_PARTITIONS_KNOWN, hive=[component("~", "TC", "tr", 5, 3, OPERATION_TYPE="u")]
    ),
    Difference(
        statement="DELETE", because=_PARTITIONS_KNOWN, hive=[component("~", "TC", "tr", 6, 4, OPERATION_TYPE="u")]
    ),
    Difference(
        statement="ALTER TABLE COMPACT major",
        because="the row of the mutex CompactionScheduler, which both lock while they enter a request, is made by whoever "
        "needs it first and then stays",
        ours=[line("+", "AUX_TABLE", MT_KEY1="CompactionScheduler", MT_KEY2=0)],
    ),
    Difference(
        statement="Worker",
        because=_BOTH_OR_NEITHER,
        hive=[entry("~", "CQ", 1, "a", "tr", 7, 4, PARTITION=ODD, HADOOP_JOB_ID="job_local591540618_0001")],
    ),
    Difference(
        statement="Cleaner",
        because="Hive's cleaner leaves the rows of a static INSERT, which name the partition twice escaped, for ever",
        ours=[component("-", "CTC", "tr", 2, 1, PARTITION=ODD, TIMESTAMP="T", UPDATE_DELETE="N")],
    ),
    Difference(
        statement="Initiator",
        because="Hive's row says when Hive's initiator began its last cycle, which doctor reads; ours holds a lease",
        hive=[line("+", "AUX_TABLE", MT_KEY1="Initiator", MT_KEY2=1795198872367)],
    ),
    Difference(
        statement="minor: request, Worker, Cleaner",
        because=_BOTH_OR_NEITHER,
        hive=[entry("~", "CQ", 2, "i", "tu", 13, 3, HADOOP_JOB_ID="job_local789438815_0002")],
    ),
    Difference(
        statement="REBALANCE: request, Worker, Cleaner",
        because="Hive stamps a rebalance with neither its next transaction nor its commit's time, so that a cleaner cannot "
        "tell who still reads what it made obsolete; PROTOCOL 7 wants both of every compaction",
        hive=[
            entry("~", "CQ", *_REBALANCE, **_BUCKETS),
            entry("~", "CQ", *_REBALANCE, **_BUCKETS, CLEANER_START="T"),
            entry("+", "CC", *_REBALANCE, **_BUCKETS),
        ],
        ours=[
            entry("~", "CQ", *_REBALANCE, **_BUCKETS, **_STAMPS),
            entry("~", "CQ", *_REBALANCE, **_BUCKETS, **_STAMPS, CLEANER_START="T"),
            entry("+", "CC", *_REBALANCE, **_BUCKETS, **_STAMPS),
        ],
    ),
    Difference(
        statement="TRUNCATE",
        because="PROTOCOL 8: without a component an aborted TRUNCATE is forgotten while its base is there, and empties the "
        "table; so ours is recorded as INSERT OVERWRITE is",
        ours=[component("~", "TC", "tu", 18, 5, OPERATION_TYPE="u"), *_truncated("+", "tu")],
    ),
    Difference(
        statement="ALTER TABLE RENAME",
        because="the rows that TRUNCATE and the rebalance have otherwise are renamed too",
        hive=[entry(sign, "CC", 3, "r", name, 15, 3, **_BUCKETS) for sign, name in (("-", "tu"), ("+", "tu2"))],
        ours=[
            *(
                entry(sign, "CC", 3, "r", name, 15, 3, **_BUCKETS, **_STAMPS)
                for sign, name in (("-", "tu"), ("+", "tu2"))
            ),
            *_truncated("-", "tu"),
            *_truncated("+", "tu2"),
        ],
    ),
    Difference(
        statement="DROP TABLE",
        because="and go with the table; WRITE_SET is left to its reaper by Hive and by us",
        hive=[entry("-", "CC", 3, "r", "tu2", 15, 3, **_BUCKETS)],
        ours=[entry("-", "CC", 3, "r", "tu2", 15, 3, **_BUCKETS, **_STAMPS), _truncated("-", "tu2")[0]],
    ),
)


def _rewrite(table: str, values: dict[str, str]) -> dict[str, str]:
    """The same row without what cannot or need not be the same."""
    for name in ("HL_AGENT_INFO", "HL_LOCK_INT_ID"):  # a query's name; which of a lock's rows came first
        values.pop(name, None)
    # A lower bound that Hive takes from whoever was open a moment ago; ours is exact, and checked below.
    values.pop("MHL_MIN_OPEN_TXNID", None)
    if table == "HIVE_LOCKS" and values["HL_LOCK_STATE"] == "w":
        # With nobody in the way Hive asks in one transaction and is granted in the next; we do both in one.
        values |= {"HL_LOCK_STATE": "a", "HL_ACQUIRED_AT": "T"}
    for name in ("TC_PARTITION", "CTC_PARTITION"):
        if values.get(name) == ODD_TWICE:  # Hive's static INSERT records a partition that there is not
            values[name] = ODD
    for name in ("CQ_INITIATOR_VERSION", "CC_INITIATOR_VERSION"):
        if name in values:
            assert values[name] in ("4.1.0", compactor.__version__)
            values[name] = "V"
    if values.get("CQ_WORKER_ID") in WORKER:  # PROTOCOL 6: what begins with its host's name a restarting Hive takes
        values["CQ_WORKER_ID"] = WORKER[values["CQ_WORKER_ID"]]
    return values


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[State]]:
    return Recorded(RECORD, _rewrite).statements


class Replay:
    """Every statement of the record, by the calls with which our store does it."""

    def __init__(self, metastore: Metastore) -> None:
        self.metastore = metastore
        self.entry: Entry | None = None

    # --- what every statement is made of ------------------------------------------------------------------------

    def open(self, type: TxnType = TxnType.DEFAULT) -> TxnId:
        return self.metastore.transactions.open("root", "HOST", type=type)[0]

    def lock(self, txn: TxnId, sql: str) -> None:
        """Takes the locks that EXPLAIN LOCKS lists for the statement."""
        planned = statement_locks.locks(parse(sql), self.facts, Settings())
        assert self.metastore.locks.acquire(txn, [p.request for p in planned], "root", "HOST").is_acquired

    def facts(self, name: Name) -> TableFacts:
        table = self.metastore.catalog.table("default", name.table)
        return TableFacts(
            database="default",
            table=table.name,
            transactional=True,
            keys=tuple(key.name for key in table.partition_keys),
            partitions=self.metastore.catalog.partitions(table) if table.partition_keys else (),
            name_of=part_name,
        )

    def write(self, sql: str, table: str, *components: tuple[str | None, str]) -> TxnId:
        """A statement up to its commit: transaction, write ID, components of (partition, operation), locks."""
        txn = self.open()
        write_id = self.metastore.write_ids.allocate(txn, "default", table)
        for partition, operation in components:
            entity = Entity(database="default", table=table, partition=partition)
            self.metastore.write_ids.add_component(txn, entity, operation, write_id)
        self.lock(txn, sql)
        return txn

    def read(self, sql: str) -> None:
        txn = self.open()
        self.lock(txn, sql)
        self.metastore.transactions.commit(txn)

    def commit(self, txn: TxnId) -> None:
        self.metastore.transactions.commit(txn)

    def table(self, name: str) -> Table:
        return self.metastore.catalog.table("default", name)

    # --- compaction ---------------------------------------------------------------------------------------------

    def request(self, entity: Entity, type: CompactionType, buckets: int | None = None) -> None:
        self.metastore.requests.request(Request(entity=entity, type=type, initiator="HOST-manual", buckets=buckets))

    def work(self, worker: str, highest: int, job: str | None) -> None:
        entry = self.metastore.claims.claim(worker, "4.1.0", pool_timeout_ms=0)
        assert entry is not None
        rebalance = entry.type is CompactionType.REBALANCE
        txn = self.open(TxnType.REBALANCE_COMPACTION if rebalance else TxnType.COMPACTION)
        if rebalance:
            self.metastore.write_ids.add_component(txn, entry.entity, "u", None)
        kind = LockType.EXCL_WRITE if rebalance else LockType.SHARED_READ
        names = {"database": "default", "table": entry.entity.table, "partition": entry.entity.partition}
        assert self.metastore.locks.acquire(txn, [LockRequest(**names, type=kind)], "root", "HOST").is_acquired
        asked = {"worker_id": worker, "txn": txn, "run_as": "root", "highest_write_id": WriteId(highest)}
        entry = self.metastore.claims.record(entry, **asked)
        if job is not None:
            entry = self.metastore.claims.record(entry, **asked, component=False, job=job)
        table = self.table(entry.entity.table)
        part = None
        if entry.entity.partition is not None:
            part = self.metastore.catalog.partition(table, entry.entity.partition)
        place = {
            "table_id": table.id,
            "partition_id": None if part is None else part.id,
            "location": table.location if part is None else part.location,
        }
        with committing(self.metastore, entry, worker, txn, **place):
            pass
        self.entry = self.metastore.entries.get(entry.id)

    def clean(self) -> None:
        assert self.entry is not None
        assert self.metastore.cleaning.take([self.entry], 0)
        self.metastore.cleaning.mark_cleaned(self.metastore.entries.get(self.entry.id), [], all_below=True)

    # --- the statements -----------------------------------------------------------------------------------------

    def statements(self) -> Iterator[str]:
        """Runs one statement after another and yields its name."""
        embedded = self.metastore.embedded_catalog
        columns = [Column(name="a", type="int"), Column(name="b", type="string")]
        txn = self.open()
        self.lock(txn, "create table tr (a int) stored as orc tblproperties('transactional'='true')")
        embedded.create_table(
            NewTable("default", "tr", "/w/tr", columns, partition_keys=[Column(name="p", type="string")])
        )
        self.commit(txn)
        yield "CREATE TABLE (partitioned)"
        txn = self.write("insert into tr partition(p='a b=c/d%') values (1,'one')", "tr", (ODD, "i"))
        embedded.add_partition(self.table("tr"), ["a b=c/d%"])
        self.commit(txn)
        yield "INSERT static partition with an odd value"
        txn = self.write("insert into tr partition(p) values (4,'four','q')", "tr", (ODD, "i"), ("p=q", "i"))
        embedded.add_partition(self.table("tr"), ["q"])
        self.commit(txn)
        yield "INSERT dynamic partition"
        self.read("select count(*), sum(a) from tr where p='q'")
        yield "SELECT"
        self.commit(self.write("update tr set b='U' where a=1", "tr", (ODD, "d"), (ODD, "i")))
        yield "UPDATE"
        self.commit(self.write("delete from tr where a=3", "tr", (ODD, "d")))
        yield "DELETE"
        self.request(Entity(database="default", table="tr", partition=ODD), CompactionType.MAJOR)
        yield "ALTER TABLE COMPACT major"
        self.work("compactor-1", 4, "job_local591540618_0001")
        self.read("select * from tr")  # Hive's worker gathers statistics
        yield "Worker"
        self.clean()
        yield "Cleaner"
        yield "Initiator"
        txn = self.open()
        self.lock(txn, "create table tu (a int) stored as orc tblproperties('transactional'='true')")
        embedded.create_table(NewTable("default", "tu", "/w/tu", columns))
        self.commit(txn)
        for value in (1, 2):
            self.commit(self.write(f"insert into tu values ({value},'one')", "tu", (None, "i")))
        yield "CREATE TABLE (unpartitioned), INSERT twice"
        merge = (
            "merge into tu t using (select 1 as k) s on t.a=s.k when matched then update set b='M' "
            "when not matched then insert values (s.k,'new')"
        )
        self.commit(self.write(merge, "tu", (None, "d")))
        yield "MERGE"
        yield from self._compactions()
        yield from self._definitions()

    def _compactions(self) -> Iterator[str]:
        tu = Entity(database="default", table="tu")
        self.request(tu, CompactionType.MINOR)
        self.work("compactor-2", 3, "job_local789438815_0002")
        self.read("select * from tu")
        self.clean()
        yield "minor: request, Worker, Cleaner"
        self.request(tu, CompactionType.REBALANCE, buckets=2)
        self.work("compactor-3", 3, None)
        self.read("select * from tu")
        self.clean()
        yield "REBALANCE: request, Worker, Cleaner"

    def _definitions(self) -> Iterator[str]:
        embedded = self.metastore.embedded_catalog
        self.commit(self.write("insert overwrite table tu select a, b from tu", "tu", (None, "u")))
        yield "INSERT OVERWRITE"
        self.commit(self.write("truncate table tu", "tu", (None, "u")))
        yield "TRUNCATE"
        self.commit(self.write("alter table tu add columns (c int)", "tu"))
        yield "ALTER TABLE ADD COLUMNS"
        txn = self.write("alter table tr drop partition (p='q')", "tr")
        embedded.drop_partition(self.table("tr"), "p=q")
        self.commit(txn)
        yield "ALTER TABLE DROP PARTITION"
        txn = self.write("alter table tu rename to tu2", "tu")
        embedded.rename_table(self.table("tu"), "tu2")
        self.commit(txn)
        yield "ALTER TABLE RENAME"
        txn = self.write("insert into tr partition(p='a b=c/d%') values (9,'nine')", "tr", (ODD, "i"))
        assert self.metastore.transactions.abort(txn, "rollback")
        yield "aborted INSERT"
        txn = self.open()
        self.lock(txn, "drop table tu2")
        embedded.drop_table(self.table("tu2"))
        self.commit(txn)
        yield "DROP TABLE"


def _twice_escaped_too(lines: list[str]) -> list[str]:
    """PROTOCOL 9: where Hive locks a partition by its twice escaped name, we lock the stored name besides."""
    return sorted([*lines, *(line.replace(ODD_TWICE, ODD) for line in lines if ODD_TWICE in line)])


@pytest.mark.usefixtures("hive4")
def test_the_rows_of_every_statement(metastore: Metastore, recorded: dict[str, list[State]]) -> None:
    """All statements of the record, in its order; each exactly as recorded but for its ``DIFFERENCES``."""
    done = []
    with recording(metastore, _rewrite) as states:
        for name in Replay(metastore).statements():
            found, wanted = Counter(changes(states).lines), _expected(name, recorded)
            del states[:-1]
            apart = [f"ours: {line}" for line in found - wanted] + [f"Hive: {line}" for line in wanted - found]
            assert not apart, "\n".join([name, *sorted(apart)])
            done.append(name)
    assert done == [name for name in recorded if name != "end"]


def _expected(name: str, recorded: dict[str, list[State]]) -> Counter[str]:
    lines = Counter(_twice_escaped_too(changes(recorded[name]).lines))
    for difference in DIFFERENCES:
        if difference.statement == name:
            missing = Counter(difference.hive) - lines
            assert not missing, f"{name}: Hive doesn't write {missing}"
            lines = lines - Counter(difference.hive) + Counter(difference.ours)
    return lines


_DOCUMENT = """\
# Row for row as Hive

Every row that a real Hive 4.1 changes in its transaction tables was recorded, statement by statement: CREATE, INSERT,
SELECT, UPDATE, DELETE, MERGE, INSERT OVERWRITE, TRUNCATE, ALTER, RENAME, DROP, an aborted INSERT, and minor, major and
rebalance compactions from request to cleaning. `tests/contract/test_hive_trace.py` does the same statements with our
store on SQLite, PostgreSQL and MariaDB and compares every row. Deliberately otherwise is only:

| statement | what is otherwise, and why |
|---|---|
{differences}

Everywhere: a lock that nothing blocks is requested and granted in one database transaction, not in two; a
lock on a partition whose name needs escaping is taken in both of Hive's forms; a component names the partition as the
catalog does, where Hive's static INSERT escapes the name twice; MHL_MIN_OPEN_TXNID is exact, where Hive's may name a
transaction that has just ended; worker ids begin with `compactor-`. ALTER and DROP PARTITION take a write ID without a
component, as Hive's do: they write no file that could come back.
"""


def document() -> str:
    """docs/internals/hive-rows.md; ``python -m tests.contract.test_hive_trace`` prints it."""
    rows = (f"| {difference.statement} | {difference.because} |" for difference in DIFFERENCES)
    return _DOCUMENT.format(differences="\n".join(rows))


def test_the_document_lists_every_difference() -> None:
    assert (RECORD.parents[3] / "docs" / "internals" / "hive-rows.md").read_text() == document()


if __name__ == "__main__":
    print(document(), end="")
