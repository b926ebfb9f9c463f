"""The format that a table or partition is compacted in."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from compactor.acid.names import Layout
from compactor.base.errors import Refused
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import PARTITIONS, SDS, SERDE_PARAMS, TBLS
from compactor.rewrite.plan.file_format import FileFormat
from compactor.settings.output_class import OutputClass
from compactor.site.site import Site
from compactor.worker.file_formats import file_format_of, must_suit
from tests.support.insert_only import INPUTS, make_insert_only
from tests.support.tables import entity_of, make_table, with_settings

TABLE = Table(
    id=1,
    database="default",
    name="t",
    location="/w/t",
    columns=(
        Column(name="name", type="string"),
        Column(name="flag", type="boolean"),
        Column(name="seen", type="timestamp"),
    ),
)


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


@pytest.mark.parametrize("asked", [None, OutputClass(compression="ZSTD"), OutputClass(bloom_filters=("*", "name"))])
def test_what_suits(asked: OutputClass | None) -> None:
    must_suit(TABLE, asked, Layout.VISIBILITY)


def test_a_codec_that_hive_3_1_cannot_read_is_refused_by_name() -> None:
    """ORC 1.5 reads no ZSTD."""
    must_suit(TABLE, OutputClass(compression="SNAPPY"), Layout.PLAIN)
    with pytest.raises(Refused, match=r"orc\.compress = ZSTD: Hive 3\.1, .* expected NONE, ZLIB, SNAPPY or LZ4"):
        must_suit(TABLE, OutputClass(compression="ZSTD"), Layout.PLAIN)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nam", "it has no column 'nam'; did you mean name?"),
        ("flag", "column flag is boolean, which cannot have a bloom filter"),
        ("seen", "column seen is timestamp, which cannot have a bloom filter"),
    ],
)
def test_a_filter_that_a_column_cannot_have_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        must_suit(TABLE, OutputClass(bloom_filters=("name", name)), Layout.VISIBILITY)
    assert said in str(refused.value)
