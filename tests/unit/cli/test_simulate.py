from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from click.testing import Result

from compactor.initiator.initiator import initiate
from compactor.site.site import Site
from tests.support.tables import insert, make_table, with_settings

Compactor = Callable[..., Result]


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
    assert "--set 'nonsense': expected K=V" in compactor("simulate", "--set", "nonsense").output
