from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.base.errors import BadSetting
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cli.context import parse_pairs
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.oracle import read_lines
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings
from tests.support.watching import names_in

Compactor = Callable[..., Result]


@pytest.fixture
def _tables(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    acid = {"transactional": "true"}
    metastore.embedded_catalog.create_table(
        NewTable("default", "t", "/w/t", [Column(name="a", type="int")], parameters=acid)
    )
    metastore.embedded_catalog.create_table(NewTable("default", "plain", "/w/plain", [Column(name="a", type="int")]))


def test_properties_are_pairs() -> None:
    assert parse_pairs((" a.b =1", "c=x=y", "d="), "--set") == {"a.b": "1", "c": "x=y", "d": ""}


@pytest.mark.parametrize("pair", ["nothing", "=1", " =1"])
def test_a_property_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(BadSetting, match="expected KEY=VALUE"):
        parse_pairs((pair,), "--property")


@pytest.mark.usefixtures("_tables")
def test_a_request_is_queued_as_given(compactor: Compactor, metastore: Metastore) -> None:
    asked = ("compact", "Default.T", "--type", "MINOR", "--pool", "etl", "--property", "tblprops.orc.compress=ZSTD")
    (output,) = json.loads(compactor(*asked, "--json").stdout)
    (entry,) = metastore.entries.queue()
    assert output["compaction"] == entry.id
    assert (str(entry.entity), entry.type.label, entry.pool) == ("default.t", "MINOR", "etl")
    assert entry.properties["tblprops.orc.compress"] == "ZSTD"


@pytest.mark.usefixtures("_tables")
def test_a_rebalance_with_files_and_order(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("compact", "default.t", "--type", "rebalance", "--buckets", "4", "--order-by", "a desc")
    assert done.exit_code == 0
    (entry,) = metastore.entries.queue()
    assert (entry.type.label, entry.buckets, entry.order_by) == ("REBALANCE", 4, "order by a desc")
    assert compactor("compact", "default.t", "--type", "rebalance", "--order-by", "a + 1").exit_code == 3
    assert compactor("compact", "default.t", "--type", "rebalance", "--buckets", "0").exit_code == 2
    assert compactor("compact", "default.t", "--buckets", "2").exit_code == 3


@pytest.mark.usefixtures("_tables")
def test_exit_codes_show_the_outcome(compactor: Compactor) -> None:
    assert compactor("compact", "default.plain").exit_code == 3
    assert compactor("compact", "default.nowhere").exit_code == 2
    assert compactor("compact", "default.t", "--property", "x").exit_code == 2
    first = compactor("compact", "default.t", "--wait", "--timeout", "0")
    assert (first.exit_code, first.stdout.startswith("default.t: compaction 1 ")) == (4, True)
    again = compactor("compact", "default.t")
    assert again.exit_code == 3
    assert again.stderr.startswith("compactor: refused: default.t: ")


T = Entity(database="default", table="t")


def test_an_open_transaction_is_aborted_and_no_other(compactor: Compactor, metastore: Metastore) -> None:
    first, second = (metastore.transactions.open("u", "h")[0] for _ in range(2))
    done = compactor("abort", "transaction", str(first), "--json")
    assert json.loads(done.stdout) == {"txnid": first, "state": "ABORTED"}
    assert (metastore.transactions.state(first), metastore.transactions.state(second)) == ("a", "o")
    metastore.transactions.commit(second)
    for txn, word, code in ((first, "aborted already", 1), (second, "committed", 1), (99, "not in TXNS", 2)):
        again = compactor("abort", "transaction", str(txn))
        assert (again.exit_code, word in again.stderr) == (code, True)


def test_several_transactions_are_aborted_and_those_that_cannot_be_are_named(
    compactor: Compactor, metastore: Metastore
) -> None:
    first, second, third = (metastore.transactions.open("u", "h")[0] for _ in range(3))
    metastore.transactions.commit(second)
    done = compactor("abort", "transaction", *map(str, (first, second, first, 99, third)))
    assert done.stdout == f"transaction {first} is aborted\ntransaction {third} is aborted\n"
    assert done.exit_code == 1
    assert f"transaction {second} is committed; transaction 99 is not in TXNS" in done.stderr
    assert [metastore.transactions.state(txn) for txn in (first, second, third)] == ["a", "c", "a"]


def test_one_reason_is_given_once_and_ids_that_never_were_end_with_2(
    compactor: Compactor, metastore: Metastore
) -> None:
    """``transactions`` is how Hive's statement spells it."""
    [txn] = metastore.transactions.open("u", "h")
    observer = compactor("--set", "compactor.mode=observe", "abort", "transactions", str(txn), "77777")
    assert (observer.exit_code, observer.stderr.count("compactor.mode is observe")) == (1, 1)
    never = compactor("abort", "transactions", "77777", "88888")
    assert (never.exit_code, never.stderr.count("is not in TXNS")) == (2, 2)
    assert compactor("abort", "transactions", str(txn), "77777").exit_code == 2
    assert compactor("abort", "transactions", str(txn), "77777").exit_code == 1  # one is there, and has ended


def test_a_request_is_taken_off_the_queue(compactor: Compactor, metastore: Metastore) -> None:
    entry = metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))
    assert compactor("abort", "compaction", str(entry)).stdout == f"compaction {entry} is aborted\n"
    assert metastore.entries.queue() == []
    assert compactor("abort", "compaction", str(entry)).exit_code == 2


def test_an_observer_aborts_nothing(compactor: Compactor, metastore: Metastore) -> None:
    [txn] = metastore.transactions.open("u", "h")
    entry = metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))
    for what, number in (("transaction", txn), ("compaction", entry)):
        refused = compactor("--set", "compactor.mode=observe", "abort", what, str(number))
        assert refused.exit_code == 1
        assert "compactor.mode is observe (flag); set request or more" in refused.stderr
    assert metastore.transactions.state(txn) == "o"
    assert [e.id for e in metastore.entries.queue()] == [entry]


@pytest.mark.parametrize("number", ["0", "-1", "x", ""])
def test_ids_are_above_zero(compactor: Compactor, number: str) -> None:
    assert compactor("abort", "transaction", "--", number).exit_code == 2


@pytest.fixture
def _plain_table(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))


@pytest.mark.usefixtures("_plain_table")
def test_a_table_is_paused_and_resumed(compactor: Compactor) -> None:
    assert compactor("pause", "default.t").stdout == "default.t is paused; `compactor resume` ends the pause\n"
    paused = json.loads(compactor("pause", "default.t", "--json").stdout)
    assert paused["table"] == "default.t"
    resumed = compactor("resume", "default.t").stdout
    assert resumed == f"default.t: no longer paused (it was paused by {paused['paused_by']})\n"
    assert "neither paused by `compactor pause` nor failed" in compactor("resume", "default.t").stdout


@pytest.mark.usefixtures("_plain_table")
def test_a_table_that_failed_is_considered_again(compactor: Compactor, metastore: Metastore) -> None:
    failed = metastore.requests.did_not_initiate(T, "too many failures")
    resumed = compactor("resume", "default.t").stdout
    removed = f"default.t: removed compaction {failed} (did not initiate) from the history: too many failures\n"
    assert resumed == removed
    assert metastore.entries.history() == []
    assert "neither paused by `compactor pause` nor failed" in compactor("resume", "default.t").stdout
    assert compactor("resume", "default.x").exit_code == 2


NUM = "hive.compactor.delta.num.threshold"


@pytest.mark.usefixtures("_plain_table")
def test_an_override_is_kept_and_removed(compactor: Compactor) -> None:
    output = compactor("override", "default.t", f"{NUM}=3").stdout
    assert output == f"default.t: {NUM}=3, whatever the table's properties say\n"
    said = compactor("override", "default.t", f"{NUM}=4", "--json").stdout
    assert json.loads(said) == {"table": "default.t", "key": NUM, "value": "4"}
    gone = compactor("override", "default.t", NUM, "--remove")
    assert gone.stdout == f"default.t: the override {NUM}=4 is removed\n"
    assert compactor("override", "default.t", NUM, "--remove").exit_code == 2


@pytest.mark.usefixtures("_plain_table")
@pytest.mark.parametrize("said", [(NUM,), (f"{NUM}=3", "--remove"), ("compactor.colour=red",)])
def test_a_contradictory_override_is_a_usage_error(compactor: Compactor, said: tuple[str, ...]) -> None:
    assert compactor("override", "default.t", *said).exit_code == 2


DELTAS = {"delta_0000001_0000001_0000", "delta_0000002_0000002_0000"}


@pytest.fixture
def compacted_table(deployment: Site, warehouse: Path) -> Table:
    """Compacted and cleaned, with its two deltas in quarantine."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    compacted_table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, compacted_table, range(start, start + 10))
    compact(site)
    clean_all(site)
    return compacted_table


def test_the_whole_way(compactor: Compactor, deployment: Site, compacted_table: Table) -> None:
    (shown,) = json.loads(compactor("show", "quarantine", "default.t", "--json").stdout)
    assert (shown["compactionid"], set(shown["directories"])) == (1, DELTAS)
    rows, there = read_lines(deployment.metastore, compacted_table), names_in(Path(compacted_table.location))
    (output,) = (name for name in there if name.startswith("base_"))

    said = compactor("restore", "default.t", "--before", "1")
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert lines[0] == "default.t: compaction 1 would be undone"
    assert {line.split()[-1] for line in lines if "back from quarantine" in line} == DELTAS
    assert f"  into quarantine: {output}" in lines
    assert lines[-1] == "nothing was changed; --yes does it"
    assert names_in(Path(compacted_table.location)) == there

    done = compactor("restore", "default.t", "--before", "1", "--yes", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["done"], found["taken_away"], set(found["put_back"])) == (True, [output], DELTAS)
    assert (found["table"], found["partition"], found["compactionid"]) == ("default.t", None, 1)
    assert names_in(Path(compacted_table.location)) == {*DELTAS, ".compactor_quarantine_1"}
    assert read_lines(deployment.metastore, compacted_table) == rows
    (shown,) = json.loads(compactor("show", "quarantine", "--json").stdout)
    assert (shown["directories"], shown["until"]) == ([output], found["until"])

    again = compactor("restore", "default.t", "--before", "1", "--yes")
    assert (again.exit_code, "compactor: refused: " in again.stderr) == (3, True)
    assert "or it was undone already" in again.stderr


def test_as_people_read_it(compactor: Compactor, compacted_table: Table) -> None:
    lines = compactor("restore", "default.t", "--before", "1", "--yes").stdout.splitlines()
    assert lines[0] == "default.t: compaction 1 is undone"
    assert "`compactor resume default.t`" in lines[-1]
    assert compactor("resume", "default.t").exit_code == 0


def test_a_later_write_is_named(compactor: Compactor, deployment: Site, compacted_table: Table) -> None:
    insert(deployment, compacted_table, [100])
    refused = compactor("restore", "default.t", "--before", "1")
    assert (refused.exit_code, "delta_0000003_0000003_0000 has later writes" in refused.stderr) == (3, True)


@pytest.mark.parametrize(("arguments", "code"), [(("default.nope",), 2), (("default.t", "--partition", "p=1"), 3)])
def test_what_is_not_there(compactor: Compactor, compacted_table: Table, arguments: tuple[str, ...], code: int) -> None:
    assert compactor("restore", *arguments, "--before", "1").exit_code == code


def test_a_partition(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    """The others stay as they are."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    compacted_table = make_partitioned(site, warehouse)
    for value in (1, 2):
        add_partition(site, compacted_table, value)
        for start in (0, 10):
            insert_into(site, compacted_table, value, range(start, start + 10))
    request_compaction(site, table="default.t")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    rows = read_lines(site.metastore, compacted_table)
    other = names_in(warehouse / "t" / "p=2")
    missing = compactor("restore", "default.t", "--before", "1")
    assert (missing.exit_code, "the table is partitioned; name the partition" in missing.stderr) == (3, True)
    done = compactor("restore", "default.t", "--partition", "p=1", "--before", "1", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert (json.loads(done.stdout)["partition"], names_in(warehouse / "t" / "p=2")) == ("p=1", other)
    assert {name[:6] for name in names_in(warehouse / "t" / "p=1")} == {"delta_", ".compa"}
    assert read_lines(site.metastore, compacted_table) == rows
