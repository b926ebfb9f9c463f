from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]
T = Entity(database="default", table="t")


@pytest.fixture(autouse=True)
def table(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))


def test_a_table_is_paused_and_resumed(compactor: Compactor) -> None:
    assert compactor("pause", "default.t").stdout == "default.t is paused; `compactor resume` ends the pause\n"
    paused = json.loads(compactor("pause", "default.t", "--json").stdout)
    assert paused["table"] == "default.t"
    resumed = compactor("resume", "default.t").stdout
    assert resumed == f"default.t: no longer paused (it was paused by {paused['paused_by']})\n"
    assert "neither paused by `compactor pause` nor failed" in compactor("resume", "default.t").stdout


def test_a_table_that_failed_is_considered_again(compactor: Compactor, metastore: Metastore) -> None:
    failed = metastore.requests.did_not_initiate(T, "too many failures")
    resumed = compactor("resume", "default.t").stdout
    removed = f"default.t: removed compaction {failed} (did not initiate) from the history: too many failures\n"
    assert resumed == removed
    assert metastore.entries.history() == []
    assert "neither paused by `compactor pause` nor failed" in compactor("resume", "default.t").stdout
    assert compactor("resume", "default.x").exit_code == 2
