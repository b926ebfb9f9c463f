"""Tables and partitions as texts: those that a live Hive 4.2 wrote into its notification log, by its own objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.metastore.notifications.thrift_json import (
    FieldSchema,
    PartitionObject,
    SerDeInfo,
    StorageDescriptor,
    TableObject,
    partition_text,
    table_text,
)

OF_HIVE: dict[str, str] = json.loads(Path(__file__).with_name("texts_of_hive.json").read_text("utf-8"))
ORC = "org.apache.hadoop.hive.ql.io.orc.Orc"
FLAGS = '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true","b":"true"}}'
A_AND_B = (FieldSchema(name="a", type="int"), FieldSchema(name="b", type="string"))
NESTED = (
    FieldSchema(name="a", type="int", comment='hm, "quoted" Größe'),
    FieldSchema(name="c", type="decimal(10,2)"),
    FieldSchema(name="s", type="struct<x:int,y:array<string>>"),
    FieldSchema(name="m", type="map<string,array<int>>"),
)
ALWAYS = {"transactional": "true", "transactional_properties": "default", "bucketing_version": "2"}
COUNTED = {"rawDataSize": "0", "numFilesErasureCoded": "0"}


def storage(location: str, columns: tuple[FieldSchema, ...] = A_AND_B, **given: Any) -> StorageDescriptor:
    serde = SerDeInfo(name=None, library=f"{ORC}Serde", parameters=given.pop("serde", {}))
    usual: dict[str, Any] = {"buckets": -1, "bucket_columns": (), "sort_columns": (), "parameters": {}}
    return StorageDescriptor(
        columns=columns,
        location=f"file:/warehouse/{location}",
        input_format=f"{ORC}InputFormat",
        output_format=f"{ORC}OutputFormat",
        is_compressed=False,
        serde=serde,
        in_subdirectories=False,
        **(usual | given),
    )


def table(name: str, created: int, **given: Any) -> TableObject:
    usual: dict[str, Any] = {
        "storage": storage(name),
        "partition_keys": (),
        "view_original": None,
        "view_expanded": None,
    }
    return TableObject(
        database="default",
        name=name,
        owner="root",
        owner_type="USER",
        created=created,
        accessed=0,
        retention=0,
        type="MANAGED_TABLE",
        is_rewritable=False,
        **(usual | given),
    )


TABLES = (
    table(
        "plain",
        1795552408,
        id=1,
        write_id=3,
        parameters=ALWAYS
        | COUNTED
        | {
            "totalSize": "1384",
            "numRows": "2",
            "numFiles": "2",
            "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}',
            "transient_lastDdlTime": "1795552423",
            "comment": "a plain one",
        },
    ),
    table(
        "bucketed",
        1795552433,
        id=2,
        write_id=1,
        storage=storage("bucketed", buckets=2, bucket_columns=("a",)),
        parameters=ALWAYS
        | COUNTED
        | {
            "totalSize": "0",
            "numRows": "0",
            "numFiles": "0",
            "COLUMN_STATS_ACCURATE": FLAGS,
            "transient_lastDdlTime": "1795552434",
        },
    ),
    table(
        "nested",
        1795552434,
        id=3,
        write_id=5,
        storage=storage("nested", NESTED, serde={'a"b': "ü"}),
        partition_keys=(FieldSchema(name="d", type="string", comment="der Tag"), FieldSchema(name="e", type="int")),
        parameters=ALWAYS
        | {
            "note": 'say "hi" \\ back ü 漢',
            "tab": "x\ty",
            "comment": "Ünï",
            "transient_lastDdlTime": "1795552445",
            "last_modified_time": "1795552445",
            "last_modified_by": "root",
        },
    ),
)


@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.name)
def test_tables_have_hives_texts(made: TableObject) -> None:
    """Field by field, in Hive's order, with Hive's escapes; only the order within a map is that of a Java HashMap."""
    text, of_hive = table_text(made), OF_HIVE[made.name]
    assert json.loads(text) == json.loads(of_hive)
    assert list(json.loads(text)) == list(json.loads(of_hive))
    assert sorted(text) == sorted(of_hive)


def test_partitions_have_hives_texts() -> None:
    name = "d=2026-01-01 ü%3A%2F%25/e=3"
    flags = '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true","c":"true","m":"true","s":"true"}}'
    text = partition_text(
        PartitionObject(
            name=name,
            values=("2026-01-01 ü:/%", "3"),
            database="default",
            table="nested",
            created=1795552436,
            accessed=0,
            storage=storage(f"nested/{name}", NESTED),
            parameters=COUNTED
            | {
                "totalSize": "1108",
                "numRows": "0",
                "numFiles": "1",
                "COLUMN_STATS_ACCURATE": flags,
                "transient_lastDdlTime": "1795552436",
            },
            write_id=1,
        )
    )
    of_hive = OF_HIVE["partition"]
    assert json.loads(text) == json.loads(of_hive)
    assert sorted(text) == sorted(of_hive)


def test_what_is_not_set_is_left_out_and_what_is_rare_is_there() -> None:
    rare = SerDeInfo(name="n", library="l", parameters={}, description="d", serializer="s", deserializer="u", type=1)
    text = json.loads(
        table_text(
            TableObject(
                id=9,
                database="default",
                name="rare",
                owner=None,
                owner_type="ROLE",
                created=1,
                accessed=2,
                retention=3,
                storage=StorageDescriptor(
                    columns=(),
                    location=None,
                    input_format=None,
                    output_format=None,
                    is_compressed=True,
                    buckets=4,
                    serde=rare,
                    bucket_columns=("a", "b"),
                    sort_columns=(("b", 0),),
                    parameters={"k": "v"},
                    in_subdirectories=True,
                ),
                partition_keys=(),
                parameters={},
                view_original="o",
                view_expanded=None,
                type="MATERIALIZED_VIEW",
                is_rewritable=True,
                write_id=7,
            )
        )
    )
    assert "3" not in text
    assert "11" not in text
    assert (text["10"], text["15"], text["18"]) == ({"str": "o"}, {"tf": 1}, {"i32": 2})
    descriptor = text["7"]["rec"]
    assert descriptor["9"] == {"lst": ["rec", 1, {"1": {"str": "b"}, "2": {"i32": 0}}]}
    assert descriptor["10"] == {"map": ["str", "str", 1, {"k": "v"}]}
    assert descriptor["7"]["rec"]["7"] == {"i32": 1}
    assert {"1", "2", "3", "4", "5", "6"} <= set(descriptor["7"]["rec"])
