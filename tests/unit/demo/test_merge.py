from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.initiator.initiator import initiate
from compactor.site.site import Site
from compactor.statements.parsed_actions import MergeStatement
from compactor.statements.parser import parse
from demo import merge
from demo.demo_folder import DemoPaths
from demo.tables import DATABASE


@pytest.fixture
def place(tmp_path: Path) -> DemoPaths:
    place = DemoPaths(folder=tmp_path / "demo")
    place.make()
    return place


@pytest.fixture
def site(place: DemoPaths) -> Iterator[Site]:
    with place.site() as site:
        site.metastore.embedded_catalog.create_database(DATABASE, str(place.warehouse / "demo.db"))
        yield site


def test_the_initiator_finds_the_orders_and_leaves_their_changes_alone(site: Site) -> None:
    merge.load(site)
    initiate(site)
    assert [entry.entity for entry in site.metastore.entries.queue()] == [merge.ORDERS]


def test_the_statement_is_one_merge_with_three_clauses() -> None:
    statement = parse(merge.STATEMENT)
    assert isinstance(statement.action, MergeStatement)
    assert len(statement.action.clauses) == 3


def test_a_merge_that_fails_names_its_log(place: DemoPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "demo.merge"]
        return subprocess.CompletedProcess(command, 3, "")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(merge.MergeFailed, match=rf"ended with 3; {place.folder}/merge\.log says why"):
        merge.run(place)
