"""``compactor restore``, over the public command line (PROTOCOL 11.15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.oracle import read_lines
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings
from tests.support.watching import names_in

Compactor = Callable[..., Result]
DELTAS = {"delta_0000001_0000001_0000", "delta_0000002_0000002_0000"}


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    """Compacted and cleaned, with its two deltas in quarantine."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, table, range(start, start + 10))
    compact(site)
    clean_all(site)
    return table


def test_the_whole_way(compactor: Compactor, deployment: Site, table: Table) -> None:
    (shown,) = json.loads(compactor("show", "quarantine", "default.t", "--json").stdout)
    assert (shown["compactionid"], set(shown["directories"])) == (1, DELTAS)
    rows, there = read_lines(deployment.metastore, table), names_in(Path(table.location))
    (output,) = (name for name in there if name.startswith("base_"))

    said = compactor("restore", "default.t", "--before", "1")
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert lines[0] == "default.t: compaction 1 would be undone"
    assert {line.split()[-1] for line in lines if "back from quarantine" in line} == DELTAS
    assert f"  into quarantine: {output}" in lines
    assert lines[-1] == "nothing was changed; --yes does it"
    assert names_in(Path(table.location)) == there

    done = compactor("restore", "default.t", "--before", "1", "--yes", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["done"], found["taken_away"], set(found["put_back"])) == (True, [output], DELTAS)
    assert (found["table"], found["partition"], found["compactionid"]) == ("default.t", None, 1)
    assert names_in(Path(table.location)) == {*DELTAS, ".compactor_quarantine_1"}
    assert read_lines(deployment.metastore, table) == rows
    (shown,) = json.loads(compactor("show", "quarantine", "--json").stdout)
    assert (shown["directories"], shown["until"]) == ([output], found["until"])

    again = compactor("restore", "default.t", "--before", "1", "--yes")
    assert (again.exit_code, "compactor: refused: " in again.stderr) == (3, True)
    assert "or it was undone already" in again.stderr


def test_as_people_read_it(compactor: Compactor, table: Table) -> None:
    lines = compactor("restore", "default.t", "--before", "1", "--yes").stdout.splitlines()
    assert lines[0] == "default.t: compaction 1 is undone"
    assert "`compactor resume default.t`" in lines[-1]
    assert compactor("resume", "default.t").exit_code == 0


def test_a_later_write_is_named(compactor: Compactor, deployment: Site, table: Table) -> None:
    insert(deployment, table, [100])
    refused = compactor("restore", "default.t", "--before", "1")
    assert (refused.exit_code, "delta_0000003_0000003_0000 has later writes" in refused.stderr) == (3, True)


@pytest.mark.parametrize(("arguments", "code"), [(("default.nope",), 2), (("default.t", "--partition", "p=1"), 3)])
def test_what_is_not_there(compactor: Compactor, table: Table, arguments: tuple[str, ...], code: int) -> None:
    assert compactor("restore", *arguments, "--before", "1").exit_code == code


def test_a_partition(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    """The others stay as they are."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    table = make_partitioned(site, warehouse)
    for value in (1, 2):
        add_partition(site, table, value)
        for start in (0, 10):
            insert_into(site, table, value, range(start, start + 10))
    request_compaction(site, table="default.t")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    rows = read_lines(site.metastore, table)
    other = names_in(warehouse / "t" / "p=2")
    missing = compactor("restore", "default.t", "--before", "1")
    assert (missing.exit_code, "the table is partitioned; name the partition" in missing.stderr) == (3, True)
    done = compactor("restore", "default.t", "--partition", "p=1", "--before", "1", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert (json.loads(done.stdout)["partition"], names_in(warehouse / "t" / "p=2")) == ("p=1", other)
    assert {name[:6] for name in names_in(warehouse / "t" / "p=1")} == {"delta_", ".compa"}
    assert read_lines(site.metastore, table) == rows
