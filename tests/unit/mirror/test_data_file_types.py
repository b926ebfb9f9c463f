"""The types of a data file carry Iceberg's names and field IDs at every depth."""

from __future__ import annotations

from pathlib import Path

import pyarrow.orc as po
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema

from compactor.mirror.data_file_types import field_ids
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from tests.support.detached import SmallTable

ROW_TYPE = (
    "struct<a:tinyint,b:array<struct<x:double,y:map<string,array<varchar(4)>>>>,c:struct<d:decimal(10,2),e:char(3)>,"
    "f:map<struct<k:int>,timestamp with local time zone>,g:binary,h:boolean,i:date,j:float,k:timestamp>"
)


@pytest.mark.parametrize("encoded", [False, True])
def test_another_reader_finds_every_field_by_its_id(tmp_path: Path, encoded: bool) -> None:
    row_type = ROW_TYPE if encoded else ROW_TYPE.replace("char(3)", "string").replace("tinyint", "smallint")
    small = SmallTable(root=tmp_path / "t", row_type=row_type)
    written = row_type.replace("<a:", "<_col0:").replace("struct<x:", "struct<X:")
    small.write([(None,) * 9], row_type=written)
    detached = small.detach(for_pyiceberg=False)
    assert detached is not None
    assert detached.encoded == int(encoded)
    shown = pyarrow_to_schema(po.ORCFile(detached.path).schema, downcast_ns_timestamp_to_us=True)
    assert {shown.find_column_name(number) for number in shown.field_ids} == {
        small.schema.find_column_name(number) for number in small.schema.field_ids
    }
    for number in small.schema.field_ids:
        assert shown.find_column_name(number) == small.schema.find_column_name(number)
        assert type(shown.find_type(number)) is type(small.schema.find_type(number))


def test_ids_are_read_back_from_a_file(tmp_path: Path) -> None:
    small = SmallTable(root=tmp_path / "t", row_type="struct<a:array<int>,b:int>")
    small.write([([1], 2)])
    detached = small.detach()
    assert detached is not None
    with LocalSource(detached.path) as source:
        types = read_tail(source).types
    assert field_ids(types) == [(1, 1), (3, 2)]
    assert dict(types[2].attributes) == {b"iceberg.id": b"3", b"iceberg.required": b"false"}
