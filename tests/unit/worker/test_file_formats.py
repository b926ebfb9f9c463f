"""The format that a table or partition is compacted in."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from compactor.base.errors import Refused
from compactor.compaction.entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import PARTITIONS, SDS, SERDE_PARAMS, TBLS
from compactor.rewrite.plan.file_format import FileFormat
from compactor.site.site import Site
from compactor.worker.file_formats import file_format_of
from tests.support.insert_only import INPUTS, make_insert_only
from tests.support.tables import entity_of, make_table, with_settings


def format_of(site: Site, table: Table) -> FileFormat | None:
    return file_format_of(site, site.target(entity_of(table)))


@pytest.mark.parametrize("file_format", list(INPUTS), ids=lambda one: one.name)
def test_formats_of_tables(deployment: Site, warehouse: Path, file_format: FileFormat) -> None:
    assert format_of(deployment, make_insert_only(deployment, warehouse, file_format)) is file_format


def test_full_acid_tables_have_none(deployment: Site, warehouse: Path) -> None:
    assert format_of(deployment, make_table(deployment, warehouse)) is None


def test_the_switch(deployment: Site, warehouse: Path) -> None:
    table = make_insert_only(deployment, warehouse)
    with pytest.raises(Refused, match=r"hive\.compactor\.compact\.insert\.only is false"):
        format_of(with_settings(deployment, hive_compactor_compact_insert_only="false"), table)


def test_what_table_and_serde_say_of_lines(deployment: Site, warehouse: Path) -> None:
    header = {"skip.header.line.count": "1"}
    headed = make_insert_only(deployment, warehouse, FileFormat.TEXT, "h", parameters=header)
    assert format_of(deployment, headed) is FileFormat.WHOLE
    table = make_insert_only(deployment, warehouse, FileFormat.TEXT)
    with deployment.metastore.database.write() as conn:
        serde = select(SDS.c.SERDE_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID).where(table.id == TBLS.c.TBL_ID)
        number = conn.execute(serde).scalar_one()
        conn.execute(insert(SERDE_PARAMS).values(SERDE_ID=number, PARAM_KEY="line.delim", PARAM_VALUE="|"))
    assert format_of(deployment, table) is FileFormat.WHOLE


def test_a_partition_keeps_its_own_format(deployment: Site, warehouse: Path) -> None:
    """ALTER TABLE SET FILEFORMAT changes what later partitions are made of."""
    embedded = deployment.metastore.embedded_catalog
    embedded.create_database("default", str(warehouse))
    table = embedded.create_table(
        NewTable(
            "default",
            "p",
            str(warehouse / "p"),
            [],
            partition_keys=[Column(name="p", type="int")],
            parameters={"transactional": "true", "transactional_properties": "insert_only"},
            input_format=INPUTS[FileFormat.TEXT],
        )
    )
    partition = embedded.add_partition(table, ["1"], str(warehouse / "p" / "p=1"))
    with deployment.metastore.database.write() as conn:
        mine = select(PARTITIONS.c.SD_ID).where(partition.id == PARTITIONS.c.PART_ID)
        conn.execute(update(SDS).where(SDS.c.SD_ID.in_(mine)).values(INPUT_FORMAT=INPUTS[FileFormat.PARQUET]))
    entity = Entity(database="default", table="p", partition="p=1")
    assert file_format_of(deployment, deployment.target(entity)) is FileFormat.PARQUET
