"""Arrow types of ORC types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.base.errors import NotLossless
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type


def test_arrow_types() -> None:
    types = parse_hive_type("struct<a:char(3),b:array<timestamp>,c:decimal(9,2),d:map<int,date>>")
    assert arrow_type(types) == pa.struct(
        [
            ("a", pa.string()),
            ("b", pa.list_(pa.timestamp("ns"))),
            ("c", pa.decimal128(9, 2)),
            ("d", pa.map_(pa.int32(), pa.date32())),
        ]
    )
    with pytest.raises(NotLossless):
        arrow_type(parse_hive_type("uniontype<int,string>"))
