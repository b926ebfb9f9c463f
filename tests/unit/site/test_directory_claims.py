"""Directories around a table are asked for claims of other metastores: each one, and not more often than needed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.names import CLAIM_PREFIX
from compactor.base.errors import Disagreement
from compactor.metastore.catalog.values import Table
from compactor.site import directory_claims
from compactor.site.directory_claims import ClaimsAround
from compactor.site.site import Site, claims_of
from compactor.storage.local import LocalStorage
from compactor.tables import Store
from tests.support.partitioned import make_partitioned
from tests.support.tables import make_table

CLAIM = f"{CLAIM_PREFIX}{'f' * 32}_7"


class Counting(LocalStorage):
    """Counts how often each directory is asked for claims; ``claimed`` has one."""

    def __init__(self, claimed: str = "") -> None:
        self.listed: Counter[str] = Counter()
        self._claimed = claimed

    def children(self, path: str, prefix: str = "") -> tuple[str, ...]:
        if prefix != CLAIM_PREFIX:
            return super().children(path, prefix)
        self.listed[path] += 1
        return (CLAIM,) if path == self._claimed else ()


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    return make_table(deployment, warehouse)


@pytest.mark.parametrize(
    ("location", "around"),
    [
        ("s3a://bucket/t", ["s3a://bucket"]),
        ("s3a://bucket/wh/t", ["s3a://bucket/wh", "s3a://bucket"]),
        ("hdfs://nn:8020/wh/t", ["hdfs://nn:8020/wh", "hdfs://nn:8020"]),
        ("abfss://c@a.dfs.core.windows.net/t", ["abfss://c@a.dfs.core.windows.net"]),
        ("s3a://bucket", []),
        ("/wh/t", ["/wh", "/"]),
    ],
)
def test_every_directory_around_is_looked_at_up_to_the_root_of_the_store(
    deployment: Site, table: Table, location: str, around: list[str]
) -> None:
    for claimed in around:
        site = replace(deployment, storage=Counting(claimed))
        with pytest.raises(Disagreement, match=f" {claimed} is claimed by"):
            claims_of(site).must_be_free_above(table, location)
    storage = Counting()
    claims_of(replace(deployment, storage=storage)).must_be_free_above(table, location)
    assert list(storage.listed) == around


def test_many_partitions_of_a_pass_ask_once_for_what_is_around_them(
    deployment: Site, warehouse: Path, tmp_path: Path
) -> None:
    table, storage = make_partitioned(deployment, warehouse, "parts"), Counting()
    site = replace(deployment, storage=storage).for_a_pass()
    for number in range(50):
        claims_of(site).must_be_free_above(table, f"{table.location}/p={number}")
    assert set(storage.listed.values()) == {1}
    assert storage.listed.total() == len(Path(table.location).parents) + 1


def test_transactions_of_a_program_ask_again_after_some_seconds(deployment: Site, table: Table) -> None:
    """Thousands of small ones cost no listing around the table for each."""
    storage = Counting()
    store = Store(replace(deployment, storage=storage))
    rows = pa.table({"a": pa.array([7], pa.int32()), "b": ["seven"]})
    for _ in range(5):
        store.load_table("default.t").append(rows)
    around = [str(path) for path in Path(table.location).parents]
    assert storage.listed == dict.fromkeys(around, 1)
    later = Store(replace(deployment, storage=storage, claims_around=ClaimsAround(fresh_s=0)))
    for _ in range(2):
        later.load_table("default.t").append(rows)
    assert storage.listed == dict.fromkeys(around, 3)


def test_what_is_kept_for_transactions_is_bounded(
    deployment: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_claims, "_MOST_AROUND", 3)
    storage, around = Counting(), ClaimsAround(10)
    for number in range(10):
        around.names(storage, f"/d{number}")
        assert len(around._directories) <= 3
