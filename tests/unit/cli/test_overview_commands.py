from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from click.testing import Result

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cli.overview_commands import HEIGHT, WIDTH, line_plot
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.read_events import plain
from tests.support.tables import insert, make_table, with_settings

Compactor = Callable[..., Result]


def test_the_overview_of_a_metastore(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    empty = compactor("overview")
    assert "the initiator has not looked at any table yet" in empty.stdout
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="default.t", type="major")
    initiate(deployment)
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    told = compactor("overview").stdout
    assert "due: 0 tables and partitions (at " in told
    assert "last 7 days: 1 run, 1 directory and 0 files fewer to read" in told
    found = json.loads(compactor("overview", "--json").stdout)
    assert [one["table"] for one in found["worst"]] == ["t"]
    assert found["returns"][1]["days"] == 30


def test_alarms_are_told_with_what_to_do(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    for _ in range(11):
        (asked,) = request_compaction(deployment, table="default.t", type="major")
        entry = deployment.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[asked.entry_id or 0])
        assert entry is not None
        deployment.metastore.claims.finish(entry, State.FAILED, "no space")
    told = compactor("overview").stdout
    assert "alarm (warn) failed_compaction_ratio: 11 of the 11 compactions failed" in told
    assert "; compactor show history shows why" in told
    assert "failed in 7 days: 1 more" in told


def test_reads_are_taken_in_and_shown(compactor: Compactor, deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    make_table(deployment, warehouse)
    assert "no read has been reported" in compactor("reads", "show").stdout
    now = deployment.metastore.now_ms() / 1000
    file = tmp_path / "events.json"
    file.write_text("\n".join(json.dumps(plain(n, at=now - n, seconds=2)) for n in range(3)))
    assert (
        "3 events, 3 queries that read tables; 3 reads of tables here stored"
        in compactor("reads", "import", str(file)).stdout
    )
    again = json.loads(compactor("--json", "reads", "import", str(file)).stdout)
    assert again == {"events": 3, "queries": 3, "stored": 0}
    assert "default.t" in compactor("reads", "show").stdout
    (shown,) = json.loads(compactor("--json", "reads", "show", "default.t").stdout)["tables"]
    assert (shown["queries"], shown["seconds"], shown["before"]) == (3, 6.0, None)
    assert "reads of default.t: 3 queries, 6 s" in compactor("overview").stdout
    (of_overview,) = json.loads(compactor("--json", "overview").stdout)["reads"]
    assert of_overview == shown


def test_a_bad_line_is_named(compactor: Compactor, deployment: Site, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_text("nonsense")
    found = compactor("reads", "import", str(file))
    assert found.exit_code == 1
    assert f"{file}, line 1: not JSON" in found.output


def test_the_last_days_under_other_settings(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in range(4):
        insert(deployment, table, [value])
    initiate(with_settings(deployment, compactor_mode="observe"))
    initiate(with_settings(deployment, compactor_mode="observe"))
    told = compactor("simulate", "--days", "1", "--set", "hive.compactor.delta.num.threshold=2").stdout
    assert "1 table or partition in 2 passes of the last 1 day" in told
    assert "simulated as given" in told
    found = json.loads(compactor("simulate", "--set", "hive.compactor.delta.num.threshold=2", "--json").stdout)
    assert (found["happened"]["runs"], found["present"]["runs"], found["other"]["runs"]) == (0, 0, 1)
    assert found["happened"]["worst_directories"] == 4


def test_order_and_budget_are_known_and_it_is_drawn(
    compactor: Compactor, deployment: Site, warehouse: Path, tmp_path: Path
) -> None:
    table = make_table(deployment, warehouse)
    for value in range(4):
        insert(deployment, table, [value])
    initiate(with_settings(deployment, compactor_mode="observe"))
    more = ("--set", "compactor.order=benefit", "--set", "compactor.budget=60", "--plot", str(tmp_path / "it.svg"))
    assert "simulated as given" in compactor("simulate", "--days", "1", *more).stdout
    drawn = ElementTree.parse(tmp_path / "it.svg").getroot()
    assert len(drawn.findall("{*}polyline")) == 3
    assert "compactor.order" in compactor("simulate", "--set", "compactor.order=chance").output


def test_what_is_not_understood_is_named(compactor: Compactor, deployment: Site) -> None:
    assert "--set 'nonsense': expected KEY=VALUE" in compactor("simulate", "--set", "nonsense").output


def test_curves_are_drawn_within_the_picture() -> None:
    drawn = ElementTree.fromstring(line_plot("A <title>", {"one": [(0, 1.0), (10, 4.0)], "two & more": [(0, 0.0)]}))
    lines = [line.attrib["points"] for line in drawn.findall("{*}polyline")]
    assert len(lines) == 2
    points = [tuple(map(float, point.split(","))) for line in lines for point in line.split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert points[1][1] < points[0][1] < points[2][1]  # what is larger is higher
    texts = [text.text for text in drawn.findall("{*}text")]
    assert {"A <title>", "— one", "— two & more"} <= set(texts)


def test_nothing_is_drawn_of_nothing() -> None:
    drawn = ElementTree.fromstring(line_plot("Nothing", {"one": []}))
    assert [line.attrib["points"] for line in drawn.findall("{*}polyline")] == [""]
