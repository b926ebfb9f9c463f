from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.tables import delete, insert, make_table

Compactor = Callable[..., Result]


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
