from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.answers.explain import explain
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cli.explain_commands import explanation_lines
from compactor.compaction.quarantine_rules import Quarantined
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, own_state
from tests.support.backups import Backup
from tests.support.tables import delete, entity_of, insert, make_table

Compactor = Callable[..., Result]


def test_the_explanation_as_text(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse, **{"compactor.spark.jars": "/x.jar", "no_auto_compaction": "true"})
    insert(deployment, table, range(2))
    request_compaction(deployment, table="default.t", partition=None, type="major", pool=None, properties={})
    output = list(explanation_lines(explain(deployment, "default.t")))
    assert output[0] == f"default.t: full ACID, {warehouse / 't'}"
    assert output[1].startswith("  mode clean (from ")
    assert any(line.startswith("  without effect: table: compactor.spark.jars: ") for line in output)
    assert any(line.startswith("the table: 1 directory (1 delta), ") for line in output)
    assert any(line.startswith("  now: ") and ", because " in line for line in output)
    assert any(line.startswith("  compaction 1 major: initiated") for line in output)
    shown = compactor("explain", "default.t")
    assert [line for line in shown.stdout.splitlines() if "compaction" in line] == [
        x for x in output if "compaction" in x
    ]
    assert json.loads(compactor("explain", "default.t", "--json").stdout)["table"] == "default.t"


def test_what_is_kept_of_a_partition(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 11.15."""
    table = make_table(deployment, warehouse)
    one = Quarantined(
        entry_id=7, entity=entity_of(table), location="/w", since=0, until=86_400_000, bytes=1500, names=("delta_1_1",)
    )
    own_state(deployment).quarantines.keep(deployment.name, one)
    wanted = "  quarantine of compaction 7: 1 directory, 1.5 kB, until 1970-01-02T00:00:00Z"
    assert wanted in list(explanation_lines(explain(deployment, "default.t")))


def test_a_missing_table_ends_with_2(compactor: Compactor, deployment: Site) -> None:
    done = compactor("explain", "default.nope")
    assert (done.exit_code, "nope" in done.stderr) == (2, True)


def test_a_restored_metastore_is_the_first_thing_said(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    """PROTOCOL 11.2."""
    table = make_table(deployment, warehouse)
    backup = Backup(tmp_path / "metastore.db")
    backup.take()
    insert(deployment, table, range(2))
    must_be_newest(deployment)
    backup.restore()
    assert list(explanation_lines(explain(deployment, "default.t")))[1].startswith(
        "  nothing is done now: metastore default (sqlite"
    )


@pytest.fixture
def _table(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("sales", "/w")
    acid = {"transactional": "true"}
    metastore.embedded_catalog.create_table(
        NewTable("sales", "t", "/w/t", [Column(name="a", type="int")], parameters=acid)
    )


@pytest.mark.usefixtures("_table")
def test_locks_as_hive_prints_them(compactor: Compactor) -> None:
    output = compactor("explain-locks", "delete from t", "--database", "SALES").stdout
    assert output == "LOCK INFORMATION:\nsales.t -> SHARED_WRITE\n"


@pytest.mark.usefixtures("_table")
def test_locks_of_the_manager_without_transactions(compactor: Compactor) -> None:
    output = compactor("explain-locks", "drop table sales.t", "--old").stdout
    assert output == "LOCK INFORMATION:\nsales -> S\nsales.t -> X\n"


@pytest.mark.usefixtures("_table")
def test_nothing_is_locked(compactor: Compactor, metastore: Metastore) -> None:
    assert json.loads(compactor("explain-locks", "drop table sales.t", "--json").stdout)
    assert metastore.locks.show() == []
    assert metastore.transactions.open_transactions() == []


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize(
    ("statement", "word", "code"), [("grant all to me", "GRANT", 1), ("select * from nope", "nope", 2)]
)
def test_a_statement_that_cannot_be_explained(compactor: Compactor, statement: str, word: str, code: int) -> None:
    done = compactor("explain-locks", statement)
    assert (done.exit_code, word in done.stderr) == (code, True)


def test_a_dry_run_shows_the_plan_and_writes_nothing(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(4))
    delete(deployment, table, [1])
    before = sorted(warehouse.rglob("*"))
    output = compactor("plan", "default.t", "--type", "major")
    assert output.exit_code == 0, output.output
    first, reads, writes, stripes, rows, expected = output.stdout.splitlines()
    assert expected == "  expected: unknown, too few compactions like it have ended"
    assert first.startswith("default.t: major, because ")
    assert reads.startswith("  reads  delta_0000001_0000001_0000, delete_delta_0000002_0000002_0000 (")
    assert writes.startswith("  writes base_0000002_v")
    assert stripes.startswith("  stripes: 1 copied (")
    assert ", 1 re-encoded (" in stripes
    assert rows == "  rows: 4 -> 3; delete events: 1 -> 0"
    (found,) = json.loads(compactor("plan", "default.t", "--type", "major", "--json").stdout)
    assert (found["rows_in"], found["rows_out"], found["error"]) == (4, 3, None)
    assert sorted(warehouse.rglob("*")) == before


def test_nothing_to_do_and_no_partitions_are_reported(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    assert "nothing to do" in compactor("plan", "default.t", "--type", "minor").stdout
    columns = [Column(name="a", type="int")]
    keys, acid = [Column(name="p", type="int")], {"transactional": "true"}
    deployment.metastore.embedded_catalog.create_table(
        NewTable("default", "p", "/w/p", columns, partition_keys=keys, parameters=acid)
    )
    assert compactor("plan", "default.p").stdout == "default.p has no partitions\n"


def test_a_partition_that_cannot_be_read_ends_with_1(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(4))
    insert(deployment, table, range(4, 8))
    for file in (warehouse / "t").rglob("bucket_*"):
        file.write_bytes(b"not ORC at all")
    done = compactor("plan", "default.t", "--type", "major")
    assert (done.exit_code, "ORC" in done.output) == (1, True)


def test_slices_and_the_naming_delay_are_reported(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(
        deployment,
        warehouse,
        **{
            "compactor.hive.compactor.max.num.delta": "2",
            "compactor.compactor.naming.delay": "true",
            "compactorthreshold.hive.compactor.delta.num.threshold": "3",
        },
    )
    for value in range(4):
        insert(deployment, table, [value])
    wanted = [
        "  2 slices of at most 2 deltas are merged in the staging directory first (hive.compactor.max.num.delta)",
        "  compactor.naming.delay: every open transaction sees all that is to be merged",
    ]
    for command in (["plan", "default.t", "--type", "major"], ["explain", "default.t"]):
        output = compactor(*command)
        assert output.exit_code == 0, output.output
        assert [
            line for line in output.stdout.splitlines() if line.startswith(("  2 slices", "  compactor.naming.delay:"))
        ] == wanted
    (found,) = json.loads(compactor("plan", "default.t", "--type", "major", "--json").stdout)
    (explained,) = json.loads(compactor("explain", "default.t", "--json").stdout)["partitions"]
    for row in (found, explained):
        assert (row["slices"], row["delay"]) == (2, "every open transaction sees all that is to be merged")


def test_what_runs_like_it_let_expect(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "next"):
        table = make_table(deployment, warehouse, name)
        for value in (1, 2, 3):
            insert(deployment, table, [value])
        if name != "next":
            request_compaction(deployment, table=f"default.{name}", type="major")
            run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    said = compactor("plan", "default.next", "--type", "major").stdout
    assert re.search(r"expected: about .* \(.* to .*, by 5 runs\), .* core-seconds, about .* written", said)
    (plan,) = json.loads(compactor("plan", "default.next", "--type", "major", "--json").stdout)
    assert plan["expected"]["low"] <= plan["expected"]["seconds"] <= plan["expected"]["high"]
