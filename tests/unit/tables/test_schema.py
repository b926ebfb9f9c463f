from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import BadSetting, NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type
from compactor.tables.schema import arrow_schema, hive_columns, select

TABLE = Table(
    id=1,
    database="d",
    name="t",
    location="/t",
    columns=(
        Column(name="id", type="bigint"),
        Column(name="at", type="array<struct<t:timestamp>>"),
        Column(name="u", type="uniontype<int,string>"),
    ),
    partition_keys=(Column(name="day", type="date"), Column(name="code", type="char(3)")),
)
SAME = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "decimal(12,2)": pa.decimal128(12, 2),
    "array<int>": pa.list_(pa.int32()),
    "map<string,struct<a:int,b:array<date>>>": pa.map_(
        pa.string(), pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.date32()))])
    ),
}


def test_columns_come_in_the_tables_order_and_partition_columns_last() -> None:
    schema = arrow_schema(TABLE, select(TABLE, ["Day", "AT", "id"]), row_ids=True)
    assert schema.names == ["row__id", "id", "at", "day"]
    assert schema.field("at").type == pa.list_(pa.struct([pa.field("t", pa.timestamp("ns"))]))
    assert schema.field("day").type == pa.date32()


def test_the_unit_of_timestamps_reaches_every_depth() -> None:
    schema = arrow_schema(TABLE, select(TABLE, ["at"]), timestamps="us")
    assert schema.field("at").type == pa.list_(pa.struct([pa.field("t", pa.timestamp("us"))]))
    with pytest.raises(BadSetting, match="expected 'ns', 'us', or 'parts'"):
        arrow_schema(TABLE, timestamps="ms")


def test_a_uniontype_is_refused_by_name() -> None:
    with pytest.raises(NotSupported, match=r"d\.t: column u is a uniontype<int,string>"):
        arrow_schema(TABLE)


@pytest.mark.parametrize("hive", SAME)
def test_a_type_is_the_one_that_a_scan_shows(hive: str) -> None:
    kind = SAME[hive]
    assert hive_columns("d.t", pa.schema([("c", kind)])) == {"c": hive}
    assert arrow_type(parse_hive_type(hive)) == kind


def test_types_with_a_like_of_hives_get_it() -> None:
    kinds = {
        "u": pa.uint32(),
        "s": pa.large_string(),
        "d": pa.dictionary(pa.int8(), pa.string()),
        "t": pa.timestamp("s"),
    }
    schema = pa.schema(list(kinds.items()))
    assert hive_columns("d.t", schema) == {"u": "bigint", "s": "string", "d": "string", "t": "timestamp"}


@pytest.mark.parametrize(
    "kind", [pa.uint64(), pa.timestamp("us", "UTC"), pa.decimal256(60, 2), pa.time32("s"), pa.null()]
)
def test_types_without_one_are_refused_by_column(kind: Any) -> None:
    with pytest.raises(NotSupported, match=r"d\.t: column c is a .* no equivalent in Hive"):
        hive_columns("d.t", pa.schema([("c", kind)]))
