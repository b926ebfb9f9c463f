from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.orc.format import messages
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.raw_size import raw_data_size
from compactor.orc.format.tail import empty_tail


@pytest.mark.parametrize(
    ("column", "size"),
    [
        ("int", 4),
        ("boolean", 4),
        ("bigint", 8),
        ("double", 8),
        ("float", 4),
        ("date", 56),
        ("timestamp", 40),
        ("decimal(10,2)", 112),
        ("array<int>", 4),
    ],
)
def test_a_value_takes_what_its_object_takes(column: str, size: int) -> None:
    types = parse_hive_type(f"struct<a:{column}>")
    statistics = [messages.ColumnStatistics(number_of_values=count) for count in (0, 3, 0)][: len(types)]
    assert raw_data_size(replace(empty_tail(types), statistics=statistics)) == 3 * size


def test_texts_take_their_average_length_and_bytes_what_they_are() -> None:
    types = parse_hive_type("struct<a:string,b:char(3),c:binary,d:int>")
    statistics = [
        messages.ColumnStatistics(),
        messages.ColumnStatistics(number_of_values=2, string_statistics={"sum": 7}),
        messages.ColumnStatistics(),  # one empty text, as Java has it
        messages.ColumnStatistics(number_of_values=2, binary_statistics={"sum": 5}),
    ]
    assert raw_data_size(replace(empty_tail(types), statistics=statistics)) == 2 * (84 + 3) + 84 + 5
