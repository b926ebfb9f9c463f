"""A live Hive 4.2.0 and Compactor on one PostgreSQL with that release's schema.

Most of it is told in full beside Hive 4.1, and here by the same tests; what is only here is what 4.2 does otherwise.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from sqlalchemy import select

from compactor.base.errors import CompactorError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.metastore.notifications.notification_tables import NOTIFICATION_LOG
from compactor.metastore.schema.tables import TXN_WRITE_NOTIFICATION_LOG
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.live import test_cleaning, test_locks, test_rebalance, test_requests, test_rows
from tests.support.beside import TRANSACTIONAL, Beside, Meanwhile, side_by_side
from tests.support.hive4 import HIVE_4_1
from tests.support.hive42 import HIVE_4_2
from tests.support.hive_defaults import OTHERWISE_4_2, compared
from tests.support.live_hive import Place, Release, placed
from tests.support.patience import PATIENCE, until
from tests.support.servers import Server
from tests.support.stories import Story, begun

test_what_one_compacted_the_other_reads = test_rows.test_what_one_compacted_the_other_reads_changes_and_compacts_again
test_hive_writes_and_compacts_over_our_rebalance = test_rebalance.test_hive_writes_and_compacts_over_our_rebalance
test_one_cleans_what_the_other_compacted = test_cleaning.test_one_cleans_what_the_other_compacted
test_what_hive_aborted = test_cleaning.test_what_hive_aborted
test_what_hive_emptied_and_overwrote = test_cleaning.test_what_hive_emptied_and_overwrote
test_ours_refuses_hives_and_hives_refuses_ours = test_requests.test_ours_refuses_hives_and_hives_refuses_ours
test_hive_shows_our_compaction_in_every_state = test_requests.test_hive_shows_our_compaction_in_every_state
test_each_compacts_what_the_other_asks_for = test_requests.test_hive_compacts_what_we_ask_for_and_we_what_hive_asks_for
test_hives_initiator_and_ours_ask_once = test_requests.test_hives_initiator_and_ours_ask_once
test_we_wait_for_an_exclusive_lock_of_hive = test_locks.test_our_compaction_waits_for_an_exclusive_lock_of_hive
test_hive_waits_for_our_exclusive_lock = test_locks.test_a_statement_of_hive_waits_for_our_exclusive_lock_on_a_partition
test_shared_locks_show_on_both_sides = test_locks.test_shared_locks_show_on_both_sides
test_a_drop_of_hive_goes_before_our_compaction = test_locks.test_a_drop_of_hive_goes_before_our_compaction


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Place, Server]]:
    """Yields a database with the schema of Hive 4.2, and a folder for a warehouse."""
    with placed(HIVE_4_2) as found:
        yield found


@pytest.fixture(scope="module")
def both(place: tuple[Place, Server]) -> Iterator[Beside]:
    """Yields both sides, running until this file's tests are done."""
    with side_by_side(*place) as made:
        yield made


@pytest.fixture(params=("plain", "partitioned"))
def story(request: pytest.FixtureRequest, beside: Beside) -> Story:
    return begun(beside, request.param)


@pytest.mark.parametrize("partition", [None, "d=1"])
def test_the_notification_log_tells_of_our_compaction_as_of_hives(beside: Beside, partition: str | None) -> None:
    """By COMMIT_COMPACTION_EVENT (HIVE-24329) others drop their lists of files; both draw numbers from one sequence."""
    for name in ("told_by_hive", "told_by_us"):
        by_hive, key = name == "told_by_hive", ""
        if partition:
            name, key = f"{name}_d", "partitioned by (d int)"
        beside.hive.sql(f"create table {name} (a int) {key} {TRANSACTIONAL}")
        for a in (1, 2):
            beside.hive.sql(f"insert into {name} {'partition (d=1)' if partition else ''} values ({a})")
        before = len(events(beside))
        if by_hive:
            beside.hive_compact(name, "major", "d='1'" if partition else None)
        else:
            beside.compact(name, "major", partition)
        told = [event for event in events(beside)[before:] if event["EVENT_TYPE"] == "COMMIT_COMPACTION_EVENT"]
        assert [(event["DB_NAME"], event["TBL_NAME"]) for event in told] == [("default", name)]
        message = decoded(told[0])
        beside.clean_all()
        [done] = beside.history(name, partition)
        assert message.pop("timestamp") == told[0]["EVENT_TIME"]
        assert message == {
            "txnid": done.txn_id,
            "server": "",
            "servicePrincipal": "",
            "compactionId": done.id,
            "type": "MAJOR",
            "dbname": "default",
            "tableName": name,
            "partName": partition,
        }
        assert (told[0]["CAT_NAME"], told[0]["MESSAGE_FORMAT"]) == ("hive", "gzip(json-2.0)")
    beside.hive.sql(f"create table {name}_after (a int)")
    numbers = [event["EVENT_ID"] for event in events(beside)]
    assert numbers == list(range(1, len(numbers) + 1)), "one of both has overwritten or left out a number"


#: What Hive writes for statistics, which it keeps as it writes rows: who follows the log passes over changes of parameters.
STATISTICS = ("ALTER_TABLE", "ALTER_PARTITIONS")


def test_the_notification_log_tells_of_our_writes_as_of_hives(beside: Beside) -> None:
    """Each of ours after the same of Hive's, in tables of one kind: the same events with the same fields, and the same rows
    of TXN_WRITE_NOTIFICATION_LOG, whose objects differ in nothing but names, times, write IDs and statistics."""
    beside.hive.set("hive.metastore.dml.events", "true", session="teller")
    store = Store(beside.site)
    for name in ("of_hive", "of_us"):
        for statement in NOTED_TABLES:
            beside.hive.sql(statement.format(name=name), "teller")
    changes: tuple[tuple[str, Callable[[], object]], ...] = (
        ("insert into plain_{} values (1, 'x'), (2, 'y')", lambda: plain().append(PLAIN)),
        ("update plain_{} set b = 'z' where a = 1", lambda: plain().update({"b": "'z'"}, where="a = 1")),
        ("delete from plain_{} where a = 1", lambda: plain().delete("a = 1")),
        ("insert overwrite table plain_{} values (1, 'x'), (2, 'y')", lambda: plain().overwrite(PLAIN)),
        (
            "insert into parts_{} partition (d, e) values (1, 2.5, 'ü:/%', 3), (2, 3.5, 'b', 4)",
            lambda: parts().append(PARTS),
        ),
        ("insert into parts_{} partition (d, e) values (1, 2.5, 'b', 4)", lambda: parts().append(PARTS.slice(1))),
        ("delete from parts_{} where a = 2", lambda: parts().delete("a = 2")),
    )

    def plain() -> Table:
        return store.load_table("default.plain_of_us")

    def parts() -> Table:
        return store.load_table("default.parts_of_us")

    for statement, ours in changes:
        noted = []
        for change in (partial(beside.hive.sql, statement.format("of_hive"), "teller"), ours):
            before, rows_before = len(events(beside)), len(noted_writes(beside))
            change()
            noted.append((events(beside)[before:], noted_writes(beside)[rows_before:]))
        (hives, hives_rows), (own, own_rows) = noted
        assert [comparable(event) for event in own] == [
            comparable(event) for event in hives if event["EVENT_TYPE"] not in STATISTICS
        ], statement
        assert len(own_rows) == len(hives_rows), statement
        for row, of_hive in zip(map(comparable_row, own_rows), map(comparable_row, hives_rows), strict=True):
            assert {name: (row[name], of_hive[name]) for name in row if row[name] != of_hive[name]} == {}, statement
    numbers = [event["EVENT_ID"] for event in events(beside)]
    assert numbers == list(range(1, len(numbers) + 1)), "one of both has overwritten or left out a number"


def test_a_follower_of_the_notification_log_sees_our_writes(beside: Beside) -> None:
    """Hive's metastore serves our events, and its own classes read them, as Impala's catalog does."""
    beside.hive.set("hive.metastore.dml.events", "true", session="teller")
    beside.hive.sql(f"create table follow_plain (a int, b string) {TRANSACTIONAL}", "teller")
    beside.hive.sql(f"create table follow_parts (a int) partitioned by (d string) {TRANSACTIONAL}", "teller")
    beside.hive.sql("insert into follow_plain values (0, 'w')", "teller")  # so that the log of writes is kept
    after, store = len(events(beside)), Store(beside.site)
    with store.transaction() as txn:
        txn.load_table("default.follow_plain").append(PLAIN)
        txn.load_table("default.follow_parts").append(pa.table({"a": [1], "d": ["ü:1"]}))
    with suppress(CompactorError), store.transaction() as lost:
        lost.load_table("default.follow_plain").append(PLAIN)
        raise CompactorError("no")
    warehouse = f"file:{beside.directory('follow_plain').parent}"
    part, write = f"{warehouse}/follow_parts/d=ü%3A1", "delta_{0:07d}_{0:07d}_0000"
    told = [line.split("\t") for line in beside.hive.do("told", after=after)]
    pair = "[TxnToWriteId(txnId:{}, writeId:{})]"
    first, second = sorted({int(line[1]) for line in told if line[0] in ("COMMIT_TXN", "ABORT_TXN")})
    assert told == [
        ["OPEN_TXN", f"[{first}]"],
        ["ALLOC_WRITE_ID_EVENT", "default.follow_plain", pair.format(first, 2)],
        ["ALLOC_WRITE_ID_EVENT", "default.follow_parts", pair.format(first, 1)],
        ["ADD_PARTITION", "default.follow_parts", f"[ü:1] {part}"],
        [
            "COMMIT_TXN",
            str(first),
            f"follow_parts[ü:1] {part}/{write.format(1)}/bucket_00000###{write.format(1)}",
            f"follow_plain {warehouse}/follow_plain/{write.format(2)}/bucket_00000###{write.format(2)}",
        ],
        ["OPEN_TXN", f"[{second}]"],
        ["ALLOC_WRITE_ID_EVENT", "default.follow_plain", pair.format(second, 3)],
        ["ABORT_TXN", str(second)],
    ]


NOTED_TABLES = (
    "create table plain_{name} (a int, b string) clustered by (a) into 1 buckets " + TRANSACTIONAL,
    "create table parts_{name} (a int comment 'hm, \"quoted\" Größe', c decimal(10,2)) comment 'Ünï' "
    "partitioned by (d string comment 'der Tag', e int) stored as orc "
    "tblproperties ('transactional'='true', 'note'='say \"hi\" ü 漢')",
)
PLAIN = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]})
PARTS = pa.table({"a": [1, 2], "c": [Decimal("2.50"), Decimal("3.50")], "d": ["ü:/%", "b"], "e": [3, 4]})


def comparable(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an event without what differs between a table and another one of the same kind, and their transactions."""
    fields = decoded(event)
    for name in ("tableObjJson", "partitionListJson"):
        if name in fields:
            texts = [fields[name]] if isinstance(fields[name], str) else fields[name]
            fields[name] = sorted((comparable_object(text) for text in texts), key=repr)
    for name in ("partitions", "partitionFiles"):
        fields[name] = sorted(fields.get(name) or (), key=repr)
    own = ("timestamp", "txnid", "fromTxnId", "toTxnId", "txnIdList")
    named = {name: event[name] for name in ("EVENT_TYPE", "CAT_NAME", "DB_NAME", "TBL_NAME", "MESSAGE_FORMAT")}
    whole = named | {name: value for name, value in fields.items() if name not in own}
    return {name: _renamed(value) for name, value in whole.items()} | {name: name in fields for name in own}


def comparable_row(row: Mapping[str, Any]) -> dict[str, Any]:
    objects = {name: row[name] and comparable_object(row[name]) for name in ("WNL_TABLE_OBJ", "WNL_PARTITION_OBJ")}
    files = sorted(re.sub(r"bucket_(\d+)(_0)?#", "bucket#", _renamed(file)) for file in row["WNL_FILES"].split("]"))
    same = {name: _renamed(row[name]) for name in ("WNL_WRITEID", "WNL_DATABASE", "WNL_TABLE", "WNL_PARTITION")}
    return objects | same | {"WNL_FILES": [re.sub(r"_\d{4}(?=[/#]|$)", "", file) for file in files]}


def comparable_object(text: str) -> Any:
    """Returns a Thrift object without its times, ids, write IDs and parameters, of which Hive's have its statistics."""
    fields = json.loads(_renamed(text))
    is_table = "12" in fields
    for number in ("4", "9" if is_table else "7", "19" if is_table else "10", "25" if is_table else "4"):
        assert fields.pop(number, None) is not None or number == "4", (number, text)
    serde = fields["7" if is_table else "6"]["rec"]["7"]["rec"]["3"]["map"]
    serde[3].pop("serialization.format", None)  # a default, which Hive takes away with its first statistics
    serde[2] = len(serde[3])
    return fields


def _renamed(value: Any) -> Any:
    return value.replace("of_hive", "of_us") if isinstance(value, str) else value


def noted_writes(beside: Beside) -> list[dict[str, Any]]:
    """Returns TXN_WRITE_NOTIFICATION_LOG, by partition within a transaction."""
    table = TXN_WRITE_NOTIFICATION_LOG
    with beside.engine.connect() as conn:
        found = conn.execute(select(table).order_by(table.c.WNL_TXNID, table.c.WNL_TABLE, table.c.WNL_PARTITION))
        return [dict(row) for row in found.mappings()]


def events(beside: Beside) -> list[dict[str, Any]]:
    """Returns the notification log, oldest first."""
    query = select(NOTIFICATION_LOG).order_by(NOTIFICATION_LOG.c.EVENT_ID)
    with beside.engine.connect() as conn:
        return [dict(row) for row in conn.execute(query).mappings()]


def decoded(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an event's message."""
    fields: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(event["MESSAGE"])))
    return fields


def test_insert_only_tables(beside: Beside) -> None:
    """Its minor and ours, its major and ours, each over what the other left."""
    name = "only_inserts"
    properties = "'transactional'='true', 'transactional_properties'='insert_only'"
    beside.hive.sql(f"create table {name} (a int, b string) stored as parquet tblproperties({properties})")
    wanted: list[str] = []
    turns = (("ours", "minor"), ("hive", "minor"), ("ours", "major"), ("hive", "major"))
    for number, (master, kind) in enumerate(turns):
        for key in (2 * number + 1, 2 * number + 2):
            beside.hive.sql(f"insert into {name} values ({key}, 'row {key}')")
            wanted.append(f"{key}\trow {key}")
        if master == "hive":
            beside.hive_compact(name, kind)
            beside.clean_all()
        else:
            assert [done["fate"] for done in beside.compact(name, kind)] == ["compacted"]
            beside.hive_clean()
        [left] = beside.names(name)
        output = "delta_0000001" if kind == "minor" else "base"
        assert left.startswith(f"{output}_{2 * number + 2:07d}_v")
        for session in ("main", "by row"):
            assert sorted(beside.hive.sql(f"select * from {name}", session)) == wanted


def test_our_cleaner_waits_for_a_query_of_hive(beside: Beside) -> None:
    """PROTOCOL 7.1: whatever Hive 4.2 records of it: its write IDs, and nothing in MIN_HISTORY_LEVEL."""
    name = "being_read"
    beside.two_rows(name)
    slow = "reflect('java.lang.Thread', 'sleep', cast(a * 0 + 2500 as bigint))"
    reading = beside.later(f"select count(*), sum(a), max({slow}) from {name}", session="reader")
    until("the query reads", lambda: _held(beside, name) != [])
    [(reader, lowest)] = _held(beside, name)
    assert lowest == 3
    assert beside.sql('SELECT * FROM "MIN_HISTORY_LEVEL"') == []
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    before = beside.names(name)
    [waiting] = beside.clean()["waiting"]
    assert [blocker["txnid"] for blocker in waiting["blockers"]] == [reader]
    assert beside.names(name) == before
    assert reading.result(PATIENCE) == ["2\t3\tnull"]
    beside.clean_all()
    assert [directory[:12] for directory in beside.names(name)] == ["base_0000002"]


def test_the_cleaner_of_hive_4_2_0_does_not_wait_for_a_reader(beside: Beside) -> None:
    """PROTOCOL 7.5: it goes by the compaction's highest write ID, which is below the lowest that a reader of all of the
    inputs cannot see; and where no older transaction is aborted, it fails at the zero that it makes of the reader's."""
    name = "read_and_removed"
    beside.two_rows(name)
    for key, value in (("hive.in.test", "true"), ("hive.test.rollbacktxn", "true")):
        beside.hive.set(key, value, session="aborting")
    beside.hive.sql(f"insert into {name} values (3, 'never')", session="aborting")
    transactions, write_ids = beside.site.metastore.transactions, beside.site.metastore.write_ids
    [reader] = transactions.open("ada", beside.site.host)
    write_ids.hold(reader, write_ids.valid("default", name, transactions.snapshot(reader)))
    assert _held(beside, name) == [(reader, 4)]
    assert [done["fate"] for done in beside.compact(name, "major")] == ["compacted"]
    [waiting] = beside.clean()["waiting"]
    assert [blocker["txnid"] for blocker in waiting["blockers"]] == [reader]
    base, *inputs, aborted = beside.names(name)
    assert len(inputs) == 2
    beside.hive_clean()
    assert beside.names(name) == [base, aborted]
    transactions.commit(reader)


def test_write_ids_that_we_hold_keep_hives_cleaner_away(beside: Beside) -> None:
    """PROTOCOL 7.5: an entry above the lowest write ID that a transaction of ours may read is not even tried."""
    name = "held_back"
    beside.two_rows(name)
    transactions, write_ids = beside.site.metastore.transactions, beside.site.metastore.write_ids
    [writer] = transactions.open("ada", beside.site.host)
    assert write_ids.allocate(writer, "default", name) == 3
    [reader] = transactions.open("ada", beside.site.host)
    write_ids.hold(reader, write_ids.valid("default", name, transactions.snapshot(reader)))
    assert _held(beside, name) == [(reader, 3)]
    transactions.commit(writer)
    beside.hive.sql(f"insert into {name} values (4, 'row 4')")
    beside.hive_compact(name, "major")
    before = beside.names(name)
    beside.hive_clean()
    [entry] = beside.queue(State.READY_FOR_CLEANING)
    assert (entry.cleaner_start, entry.error, beside.names(name)) == (None, None, before)
    transactions.commit(reader)
    assert _held(beside, name) == []
    beside.hive_clean()
    assert [directory[:12] for directory in beside.names(name)] == ["base_0000004"]


def test_our_worker_holds_write_ids_as_hives_does(beside: Beside) -> None:
    """PROTOCOL 7.5: nobody has to set ``hive.txn.use.minhistorywriteid``: it follows the schema, as in Hive."""
    assert beside.site.metastore.schema_version == "4.2.0"
    assert beside.site.goes_by_write_ids
    beside.two_rows("worked_on")
    [asked] = beside.ours("--set", "compactor.mode=clean", "compact", "default.worked_on")
    held: list[tuple[int, int]] = []
    looking = Meanwhile(lambda check: held.extend(_held(beside, "worked_on")))
    [done] = run_entries(beside.site, list_claimable_ids(beside.site), looking).outcomes
    assert (done.entry.id, held) == (asked["compaction"], [(done.txn, 3)])
    assert _held(beside, "worked_on") == []
    beside.clean_all()


def test_defaults_are_those_of_hive(beside: Beside) -> None:
    other, number = compared(beside.hive.do("defaults"))
    assert other == OTHERWISE_4_2
    assert number > 100


def test_its_schema_has_what_its_classes_are_mapped_to_since_4_1(beside: Beside) -> None:
    """The script of its schema is in none of its jars: it is that of 4.0 with what changed since (``SCHEMA_4_2``)."""
    before, now = (_mapped_columns(release) for release in (HIVE_4_1, HIVE_4_2))
    assert before - now == set()
    assert {table for table, _ in now - before} == {"CATALOG_PARAMS"}
    found = beside.sql("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'")
    assert now - before <= {(str(table), str(column)) for table, column in found}


def _mapped_columns(release: Release) -> set[tuple[str, str]]:
    """Returns the tables and columns that a release of Hive maps its classes to."""
    with zipfile.ZipFile(release.libraries()[0]) as jar:
        return set(_mapped(ElementTree.fromstring(jar.read("package.jdo")), None))


def _mapped(element: ElementTree.Element, table: str | None) -> Iterator[tuple[str, str]]:
    """Yields the tables and columns below an element of Hive's mapping."""
    table = element.get("table", table)
    if element.tag == "column" and table is not None:
        yield table, element.attrib["name"]
    for child in element:
        yield from _mapped(child, table)


def _held(beside: Beside, name: str) -> list[tuple[int, int]]:
    """Transaction and lowest write ID of each row of MIN_HISTORY_WRITE_ID about the table."""
    found = beside.sql(f'SELECT "MH_TXNID", "MH_WRITEID" FROM "MIN_HISTORY_WRITE_ID" WHERE "MH_TABLE" = \'{name}\'')
    return [(int(txn), int(write_id)) for txn, write_id in found]
