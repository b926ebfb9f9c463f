"""Tables that real Hives and a real Trino wrote, as data files and position deletes, read by readers of Iceberg."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from compactor.metastore.catalog.values import Table
from compactor.mirror.data_files import DetachedFile, write_data_file
from compactor.mirror.position_deletes import deleted_positions, read_deleted_positions
from compactor.rewrite.full_acid.delete_events import load_delete_events
from compactor.rows.keys import Numbers
from compactor.site.site import Site
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.schema import arrow_schema
from compactor.tables.store import Store
from compactor.tables.transactions.transaction_block import transaction
from demo.fixtures import register_fixture
from tests.integration.tables.test_fixtures import STEPS
from tests.judges.iceberg_java import iceberg_1_12, rows_of_arrow
from tests.support.detached import read_by_pyiceberg
from tests.support.expected import step, step_id
from tests.support.tables import with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def _detach(
    site: Site, table: Table, folder: Path, schema: Schema, *, for_pyiceberg: bool
) -> list[tuple[DetachedFile, Numbers]]:
    """Writes the data file of each file of a table; returns it with the positions of deleted rows."""
    detached = []
    folder.mkdir()
    with transaction(site) as txn:
        plan = plan_scan(txn, table, ScanRequest(timestamps="parts"))
        for task in plan.tasks:
            events = load_delete_events(
                task.location, task.deletes, task.number, plan.write_ids, str(folder), site.storage
            ).events
            for source in task.inserts:
                file = write_data_file(
                    plan,
                    task,
                    source,
                    schema=schema,
                    target=str(folder / f"{len(detached)}.orc"),
                    storage=site.storage,
                    timestamps="us",
                    for_pyiceberg=for_pyiceberg,
                )
                if file is None:
                    continue
                read = read_deleted_positions(plan, task, source, events, site.storage, rows=file.rows)
                if file.keys is not None:
                    assert deleted_positions(file.keys, events).tolist() == read.tolist()
                detached.append((file, read))
    return detached


def check(site: Site, warehouse: Path, step: Path, folder: Path, *, for_pyiceberg: bool = True) -> None:
    table = register_fixture(site.metastore, step, warehouse)
    columns = pa.schema(list(arrow_schema(table, timestamps="us"))[: len(table.columns)])
    schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(columns))
    detached = _detach(site, table, folder, schema, for_pyiceberg=for_pyiceberg)
    rows = Store(site).load_table(str(table)).scan(timestamps="us").to_arrow().select(range(len(table.columns)))
    for place, column in enumerate(table.columns):
        if column.type.startswith("char"):
            rows = rows.set_column(place, column.name, pc.utf8_rtrim(rows.column(place), " "))
    expected = sorted(rows_of_arrow(rows))
    by_java, by_pyiceberg = [], []
    for file, deleted in detached:
        shown = iceberg_1_12().rows_of_file(file.path, schema.model_dump_json())
        by_java += [row for at, row in enumerate(shown) if at not in set(deleted.tolist())]
        if for_pyiceberg:
            by_pyiceberg += rows_of_arrow(read_by_pyiceberg(schema, [file], deleted.tolist()))
    assert sorted(by_java) == expected
    assert not for_pyiceberg or sorted(by_pyiceberg) == expected


@pytest.mark.whole
@pytest.mark.parametrize("step", STEPS, ids=step_id)
def test_readers_of_iceberg_show_what_we_show(site: Site, warehouse: Path, tmp_path: Path, step: Path) -> None:
    """PROTOCOL 15: a mirror of every table that a real writer made."""
    check(site, warehouse, step, tmp_path / "data", for_pyiceberg=not step.match("hive-4.1/f6_types/*"))


@pytest.mark.parametrize("name", ["hive-3.1/f3_abort/s1_aborts", "trino-476/t2_part/s2_dml"])
def test_readers_of_iceberg_show_some_of_them(site: Site, warehouse: Path, tmp_path: Path, name: str) -> None:
    check(site, warehouse, step(name), tmp_path / "data")


def test_all_types_of_hive_4(site: Site, warehouse: Path, tmp_path: Path) -> None:
    """PyIceberg shows one of its NULL arrays as an empty one, and does not read one of its timestamps."""
    check(site, warehouse, step("hive-4.1/f6_types/s3_major"), tmp_path / "data", for_pyiceberg=False)
