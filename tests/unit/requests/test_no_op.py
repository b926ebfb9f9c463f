from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.requests.no_op import must_do_something
from compactor.requests.request import RequestWords, request_as
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.passes import clean_all
from tests.support.tables import insert, make_table

WORDS = RequestWords(table="default.t")


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    return table


def test_what_would_do_nothing_is_refused(deployment: Site, table: Table) -> None:
    must_do_something(deployment, WORDS)
    request_as(deployment, WORDS)
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    must_do_something(deployment, WORDS)  # the cleaner has not been here yet
    clean_all(deployment)
    with pytest.raises(Refused, match=r"default\.t: .*, and nothing to clean; nothing was queued"):
        must_do_something(deployment, WORDS)
    assert list_claimable_ids(deployment) == []


def test_of_many_partitions_each_is_left_to_its_worker(deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse, "other")
    location = warehouse / "p"
    location.mkdir()
    keys, columns = [Column(name="d", type="string")], [Column(name="a", type="int")]
    parameters = {"transactional": "true", "transactional_properties": "default"}
    new = NewTable("default", "p", str(location), columns, partition_keys=keys, parameters=parameters)
    table = deployment.metastore.embedded_catalog.create_table(new)
    for value in ("1", "2"):
        deployment.metastore.embedded_catalog.add_partition(table, [value])
        (location / f"d={value}").mkdir()
    must_do_something(deployment, RequestWords(table="default.p"))
    with pytest.raises(Refused, match="nothing was queued"):
        must_do_something(deployment, RequestWords(table="default.p", partition="d=1"))
