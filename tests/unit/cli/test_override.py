from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]
NUM = "hive.compactor.delta.num.threshold"


@pytest.fixture(autouse=True)
def table(metastore: Metastore) -> None:
    metastore.embedded_catalog.create_database("default", "/w")
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/w/t", [Column(name="a", type="int")]))


def test_an_override_is_kept_and_removed(compactor: Compactor) -> None:
    output = compactor("override", "default.t", f"{NUM}=3").stdout
    assert output == f"default.t: {NUM}=3, whatever the table's properties say\n"
    said = compactor("override", "default.t", f"{NUM}=4", "--json").stdout
    assert json.loads(said) == {"table": "default.t", "key": NUM, "value": "4"}
    gone = compactor("override", "default.t", NUM, "--remove")
    assert gone.stdout == f"default.t: the override {NUM}=4 is removed\n"
    assert compactor("override", "default.t", NUM, "--remove").exit_code == 2


@pytest.mark.parametrize("said", [(NUM,), (f"{NUM}=3", "--remove"), ("compactor.colour=red",)])
def test_a_contradictory_override_is_a_usage_error(compactor: Compactor, said: tuple[str, ...]) -> None:
    assert compactor("override", "default.t", *said).exit_code == 2
