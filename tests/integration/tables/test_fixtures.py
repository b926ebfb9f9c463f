"""Tables that real Hives and a real Trino wrote, scanned: rows and ROW__IDs are as their writers showed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.site.site import Site
from compactor.tables.store import Store
from demo.fixtures import register_fixture
from tests.support.expected import HIVE_NULL_PARTITION, difference, read_expected, step, step_id, steps
from tests.support.scan_lines import lines_of_scan
from tests.support.tables import with_settings

#: Of Hive 2 what needs no major in Hive 2 before it is replaced (docs/before-hive-3.md).
OF_HIVE_2 = (
    "f1_basic/s1_insert",
    "f1_basic/s9_major_cleaned",
    "f6_types/s1_dml",
    "f7_v1/s3_major",
)
STEPS = [*(step(f"hive-2.3/{name}") for name in OF_HIVE_2), *steps("hive-3.1", "hive-4.1", "trino-476")]


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def check(site: Site, warehouse: Path, step: Path) -> None:
    table = register_fixture(site.metastore, step, warehouse)
    loaded = Store(site).load_table(str(table))
    expected = read_expected(step)
    kinds = [column.type for column in table.columns]
    lines = lines_of_scan(loaded, kinds, len(table.partition_keys))
    nulls = {HIVE_NULL_PARTITION: expected.null_partition}
    found = [
        (row_id, "\t".join([*texts, *(nulls.get(value, value) for value in values)])) for row_id, texts, values in lines
    ]
    assert difference([(tuple(k), v) for k, v in expected.row_ids], found) == ""
    assert loaded.scan().count() == len(expected.rows)


@pytest.mark.whole
@pytest.mark.parametrize("step", STEPS, ids=step_id)
def test_a_scan_shows_what_the_writer_showed(site: Site, warehouse: Path, step: Path) -> None:
    check(site, warehouse, step)


#: One of each writer and kind: types, partitions, aborts, originals, several stripes, Trino's files.
SOME = (
    "hive-2.3/f7_v1/s3_major",
    "hive-3.1/f3_abort/s1_aborts",
    "hive-4.1/f6_types/s1_dml",
    "trino-476/t2_part/s2_dml",
)


@pytest.mark.parametrize("name", SOME)
def test_a_scan_shows_some_of_them(site: Site, warehouse: Path, name: str) -> None:
    check(site, warehouse, step(name))
