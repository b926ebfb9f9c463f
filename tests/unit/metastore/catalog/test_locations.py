"""``tests/contract/test_kept_decisions.py`` reads them from every database."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.metastore.catalog import locations
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from tests.support.many import make_partitions


@pytest.fixture
def table(metastore: Metastore, tmp_path: Path) -> Table:
    return make_partitions(metastore, tmp_path, 5, deltas=0, name="t")


@pytest.mark.parametrize(("few", "share"), [(20, 4), (0, 9), (0, 1)], ids=["by name", "whole", "too many others"])
def test_partitions_are_found_however_they_are_read(
    metastore: Metastore, table: Table, few: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "_FEW", few)
    monkeypatch.setattr(locations, "_SHARE", share)
    wanted = {table.id: {"p=000001", "p=none"}, table.id + 1: {"p=000001"}}
    found = metastore.locations.for_partitions(wanted)
    whole = {part.name: part for part in metastore.catalog.partitions(table)}
    assert {number: list(of_table) for number, of_table in found.items()} == {table.id: ["p=000001"], table.id + 1: []}
    place = found[table.id]["p=000001"]
    assert (place.id, place.name, place.location, place.sort_columns) == (
        whole["p=000001"].id,
        "p=000001",
        whole["p=000001"].location,
        (),
    )


def test_a_sorted_partition_is_known_as_one(metastore: Metastore, table: Table) -> None:
    with metastore.database.write() as conn:
        conn.exec_driver_sql(
            'INSERT INTO SORT_COLS (SD_ID, COLUMN_NAME, "ORDER", INTEGER_IDX) '
            "SELECT SD_ID, 'b', 1, 0 FROM PARTITIONS WHERE PART_NAME = 'p=000002'"
        )
    found = metastore.locations.for_partitions({table.id: {"p=000001", "p=000002"}})[table.id]
    assert {name: place.sort_columns for name, place in found.items()} == {"p=000001": (), "p=000002": ("b",)}
