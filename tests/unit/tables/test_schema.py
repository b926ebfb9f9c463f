from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.base.errors import BadSetting, NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.tables.schema import arrow_schema, select

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
