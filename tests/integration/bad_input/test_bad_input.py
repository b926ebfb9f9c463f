"""Bad input: each with a message that names the thing, what was found and what to do, while the rest of the batch goes on.

One batch holds a partition that is spoilt and one that is sound.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import update

from compactor.acid.listing import Listing
from compactor.answers.explain import explain
from compactor.base.errors import BadSetting, Refused, StorageError
from compactor.batches.assembly import plan_batches
from compactor.batches.driver import WorkerPass, run_batch
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.doctor.checks import doctor
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import SDS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import Runner
from compactor.site.deployment import configure
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.ending import Result
from demo.delta_writer import write_rows
from tests.support.kept_tables import KeptTables
from tests.support.passes import with_storage
from tests.support.tables import insert, make_table, with_settings
from tests.support.watching import Interrupted, files_below

BAD, GOOD = (
    Entity(database="default", table="p", partition="k=bad"),
    Entity(database="default", table="p", partition="k=good"),
)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1")


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    return kept_tables.get(site, warehouse, make_two_partitions)


def make_two_partitions(site: Site, warehouse: Path) -> Table:
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    (warehouse / "p").mkdir()
    table = site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "p",
            str(warehouse / "p"),
            [Column(name="a", type="int")],
            partition_keys=[Column(name="k", type="string")],
            parameters={"transactional": "true"},
        )
    )
    for value in ("bad", "good"):
        (warehouse / "p" / f"k={value}").mkdir()
        site.metastore.embedded_catalog.add_partition(table, [value])
    for start in (0, 10):
        with transaction(site) as txn:
            for entity in (BAD, GOOD):
                made = txn.begin_statement(entity, WriteOperation.INSERT)
                rows = pa.table({"a": pa.array(range(start, start + 10), pa.int32())})
                write_rows(made.location, "struct<a:int>", rows, write_id=made.write_id, statement_id=made.statement_id)
    return table


def batch(site: Site, runner: Runner | None = None) -> WorkerPass:
    """Everything that waits, as one batch of one application."""
    (planned,) = plan_batches(site)
    return run_batch(site, planned.batch_id, runner or Interrupted())


def bad_file(table: Table) -> Path:
    return sorted(Path(table.location, "k=bad").glob("delta_*/bucket_00000"))[0]


def truncate(site: Site, table: Table) -> None:
    path = bad_file(table)
    path.write_bytes(path.read_bytes()[:-40])


def empty(site: Site, table: Table) -> None:
    bad_file(table).write_bytes(b"")


def not_orc(site: Site, table: Table) -> None:
    bad_file(table).write_text("a,b\n1,2\n" * 200)


def garbled(site: Site, table: Table) -> None:
    """A sound footer over stripes that are none."""
    path = bad_file(table)
    content = bytearray(path.read_bytes())
    content[3:200] = b"\xff" * 197
    path.write_bytes(content)


def no_directory(site: Site, table: Table) -> None:
    os.rename(Path(table.location, "k=bad"), Path(table.location, "_moved"))


def strange_name(site: Site, table: Table) -> None:
    Path(table.location, "k=bad", "delta_12_oops").mkdir()


def strange_file(site: Site, table: Table) -> None:
    Path(bad_file(table).parent, "data.csv").write_text("1,2")


def far_away(site: Site, table: Table) -> None:
    location = f"{table.location}/k=bad" == SDS.c.LOCATION
    with site.metastore.database.write() as conn:
        conn.execute(update(SDS).where(location).values(LOCATION="wasb://bucket/p/k=bad"))


CASES: list[tuple[Callable[[Site, Table], None], Result, list[str]]] = [
    (truncate, Result.FAILED, ["k=bad/delta_0000001_0000001", "bucket_00000", "damaged"]),
    (empty, Result.FAILED, ["k=bad/delta_0000001_0000001", "0 bytes", "restore"]),
    (not_orc, Result.FAILED, ["k=bad/delta_0000001_0000001", "ORC"]),
    (garbled, Result.FAILED, ["k=bad/delta_0000001_0000001"]),
    (no_directory, Result.FAILED, ["p/k=bad", "does not exist", "restore it"]),
    (strange_name, Result.FAILED, ["delta_12_oops", "move it out of the table"]),
    (strange_file, Result.FAILED, ["data.csv", "expected a data file", "move it out"]),
    (far_away, Result.FAILED, ["wasb://bucket/p/k=bad", "not supported", "file:/"]),
]


@pytest.mark.parametrize(("spoil", "fate", "said"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_bad_partition_fails_alone_and_says_what_is_wrong(
    site: Site, table: Table, warehouse: Path, spoil: Callable[[Site, Table], None], fate: Result, said: list[str]
) -> None:
    request_compaction(site, table="default.p")
    spoil(site, table)
    before = {k: v[2] for k, v in files_below(warehouse).items() if "k=bad" in k}
    *bad, good = batch(site).outcomes
    assert (good.entry.entity, good.result) == (GOOD, Result.COMPACTED)
    (row,) = [e for e in site.metastore.entries.history() if e.entity == BAD]
    assert row.state is State.FAILED
    for words in said:
        assert words in str(row.error), row.error
    # what is known before an application starts ends there
    wanted = [] if spoil is far_away else [(BAD, fate, row.error)]
    assert [(outcome.entry.entity, outcome.result, outcome.message) for outcome in bad] == wanted
    assert {k: v[2] for k, v in files_below(warehouse).items() if "k=bad" in k} == before
    assert site.metastore.transactions.open_transactions() == []


@pytest.mark.parametrize("spoil", [no_directory, strange_name, far_away], ids=lambda f: f.__name__)
def test_the_initiator_reports_and_goes_on(site: Site, table: Table, spoil: Callable[[Site, Table], None]) -> None:
    spoil(site, table)
    considered = {c.entity: c for c in initiate(site).considered}
    assert considered[GOOD].entry_id is not None
    assert considered[BAD].entry_id is None
    assert any(words in considered[BAD].because for words in ("does not exist", "delta_12_oops", "wasb://bucket"))


def test_the_cleaner_removes_nothing_beside_a_name_that_it_cannot_read(site: Site, table: Table) -> None:
    """PROTOCOL 6: a row that cannot be cleaned backs off and keeps its place; the others are cleaned."""
    request_compaction(site, table="default.p")
    assert [o.result for o in batch(site).outcomes] == [Result.COMPACTED] * 2
    strange_name(site, table)
    before = {entry.name for entry in Path(table.location, "k=bad").iterdir()}
    for _ in range(100):
        passed = clean(site)
        if passed.cleaned:
            break
    assert [c.entity for c in passed.cleaned] == [GOOD]
    (failed,) = passed.failed
    assert failed.entity == BAD
    assert "delta_12_oops" in failed.because
    assert "move it out of the table" in failed.because
    assert {entry.name for entry in Path(table.location, "k=bad").iterdir()} == before
    (row,) = site.metastore.entries.queue()
    assert (row.state, row.error) == (State.READY_FOR_CLEANING, failed.because)
    assert row.retry_retention > 0
    again = clean(site)
    (waits,) = again.waiting
    assert (waits.entity, again.failed) == (BAD, ())
    assert f"cleaning failed ({failed.because}); tried again from 20" in waits.because


def test_a_file_that_vanishes_while_it_is_compacted(site: Site, table: Table) -> None:
    request_compaction(site, table="default.p", partition="k=bad")
    path = bad_file(table)
    (bad,) = batch(site, Interrupted(before=path.unlink)).outcomes
    assert bad.result is Result.FAILED
    assert str(path) in bad.message
    assert "gone" in bad.message
    assert site.metastore.entries.history()[0].error == bad.message


class Full(LocalStorage):
    """A file system with hardly any room left for one partition."""

    def free_bytes(self, path: str) -> int | None:
        return 10 if path.endswith("k=bad") else super().free_bytes(path)


class Denied(LocalStorage):
    """A partition that this user may only read."""

    def make_private(self, path: str, inside: Sequence[str] = ()) -> None:
        if "k=bad" in path:
            raise StorageError(f"cannot create {path}: Permission denied")
        super().make_private(path, inside)


class Unlisted(LocalStorage):
    """A partition that this user may not even list."""

    def listing(self, path: str) -> Listing:
        if path.endswith("k=bad"):
            raise StorageError(f"cannot list {path}: Permission denied")
        return super().listing(path)


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        (Full(), ["p/k=bad", "10 are free", "make room"]),
        (Denied(), ["p/k=bad/.compactor_v", "Permission denied"]),
        (Unlisted(), ["p/k=bad", "Permission denied"]),
    ],
    ids=["disk full", "no writing", "no listing"],
)
def test_storage_that_refuses_fails_one_entry_and_leaves_nothing(
    site: Site, table: Table, warehouse: Path, storage: LocalStorage, said: list[str]
) -> None:
    request_compaction(site, table="default.p")
    before = {k: v[2] for k, v in files_below(warehouse).items() if "k=bad" in k}
    bad, good = batch(with_storage(site, storage)).outcomes
    assert (bad.result, good.result) == (Result.FAILED, Result.COMPACTED)
    for words in said:
        assert words in bad.message
    assert {k: v[2] for k, v in files_below(warehouse).items() if "k=bad" in k} == before
    assert [e.error for e in site.metastore.entries.history()] == [bad.message]


# --- tables and settings ---------------------------------------------------------------------------------------


def test_a_table_without_transactional(site: Site, warehouse: Path, table: Table) -> None:
    plain = site.metastore.embedded_catalog.create_table(
        NewTable("default", "plain", str(warehouse / "plain"), list(table.columns))
    )
    with pytest.raises(Refused, match=r"default\.plain: the table is not transactional"):
        request_compaction(site, table="default.plain")
    entity = Entity(database="default", table=plain.name)
    # As a row that another tool put there, or from before the property went.
    site.metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="x"))
    request_compaction(site, table="default.p", partition="k=good")
    outcomes = {o.entry.entity: o for o in batch(site).outcomes}
    assert outcomes[GOOD].result is Result.COMPACTED
    assert outcomes[entity].result is Result.REFUSED
    assert "default.plain: the table is not transactional" in outcomes[entity].message
    (row,) = [e for e in site.metastore.entries.history() if e.entity == entity]
    assert (row.state, row.error) == (State.REFUSED, outcomes[entity].message)


def test_an_unknown_setting_is_refused_where_a_person_gives_it(site: Site, table: Table) -> None:
    with pytest.raises(BadSetting, match=r"compactor\.no\.such\.thing"):
        request_compaction(site, table="default.p", properties={"compactor.no.such.thing": "1"})
    with pytest.raises(BadSetting, match=r"compactor\.no\.such\.thing"):
        configure(flags={"compactor.no.such.thing": "1"}, environment={"COMPACTOR_METASTORE_URL": "sqlite:////x"})
    assert site.metastore.entries.queue() == []


def test_a_value_that_is_not_of_its_unit_names_key_and_value(site: Site, table: Table) -> None:
    with pytest.raises(BadSetting, match=r"hive\.compactor\.delta\.num\.threshold.*many"):
        configure(
            flags={"hive.compactor.delta.num.threshold": "many"},
            environment={"COMPACTOR_METASTORE_URL": "sqlite:////x"},
        )


def test_an_unknown_property_of_a_table_is_left_out_and_reported(site: Site, table: Table) -> None:
    site.metastore.embedded_catalog.set_table_parameter(table, "compactor.no.such.thing", "1")
    site.metastore.embedded_catalog.set_table_parameter(
        table, "compactorthreshold.hive.compactor.delta.num.threshold", "lots"
    )
    request_compaction(site, table="default.p", partition="k=good")
    assert [o.result for o in batch(site).outcomes] == [Result.COMPACTED]
    ignored = dict(site.settings_of(GOOD).ignored)
    assert "table: compactor.no.such.thing" in ignored
    assert "lots" in ignored["table: compactorthreshold.hive.compactor.delta.num.threshold"]
    told = " ".join(f.found for f in doctor(site))
    assert "compactor.no.such.thing" in told


JARS = ("compactor.spark.jars", "compactor.spark.driver.extraJavaOptions", "compactor.spark.submit.pyFiles")


@pytest.mark.parametrize("key", JARS)
def test_code_cannot_be_passed_by_a_table_or_a_request(site: Site, table: Table, key: str) -> None:
    """Whoever may ALTER a table must not thereby run code in the cluster."""
    site.metastore.embedded_catalog.set_table_parameter(table, key, "/tmp/evil.jar")
    request_compaction(site, table="default.p", partition="k=good")
    (planned,) = plan_batches(site)
    assert planned.conf == {}
    assert [o.result for o in run_batch(site, planned.batch_id, Interrupted()).outcomes] == [Result.COMPACTED]
    assert f"table: {key}" in dict(site.settings_of(GOOD).ignored)
    assert key in str(explain(site, "default.p").to_json())
    with pytest.raises(BadSetting, match=key.replace(".", r"\.")):
        request_compaction(site, table="default.p", partition="k=bad", properties={key: "/tmp/evil.jar"})


def test_a_queue_row_with_forbidden_properties_cannot_pass_code_either(site: Site, table: Table) -> None:
    """A row may come from Hive's ALTER TABLE ... COMPACT, which checks nothing."""
    site.metastore.requests.request(
        Request(entity=GOOD, type=CompactionType.MAJOR, initiator="hive", properties={"compactor.spark.jars": "/e.jar"})
    )
    (planned,) = plan_batches(site)
    assert planned.conf == {}


def test_an_entry_of_a_table_that_is_gone_ends_refused(site: Site, table: Table, warehouse: Path) -> None:
    gone = make_table(site, warehouse, "gone")
    insert(site, gone, range(4))
    request_compaction(site, table="default.gone")
    request_compaction(site, table="default.p", partition="k=good")
    (row,) = [e for e in site.metastore.entries.queue() if e.entity.table == "gone"]
    site.metastore.embedded_catalog.drop_table(gone)
    site.metastore.requests.request(Request(entity=row.entity, type=CompactionType.MAJOR, initiator="hive"))
    (good,) = batch(site).outcomes
    assert (good.entry.entity, good.result) == (GOOD, Result.COMPACTED)
    (ended,) = (entry for entry in site.metastore.entries.history() if entry.entity == row.entity)
    assert ended.state is State.REFUSED
    assert "default.gone" in str(ended.error)


def test_a_partitioned_table_needs_a_partition(site: Site, table: Table) -> None:
    whole = Entity(database="default", table="p")
    site.metastore.requests.request(Request(entity=whole, type=CompactionType.MAJOR, initiator="hive"))
    assert plan_batches(site) == []
    (ended,) = site.metastore.entries.history()
    assert ended.state is State.REFUSED
    assert "name the partition" in str(ended.error)
