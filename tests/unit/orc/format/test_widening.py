"""Types that widen to others, and types that do not."""

from __future__ import annotations

import pytest

from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import acid_types
from compactor.orc.format.widening import widens


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("float", "double", True),
        ("double", "float", False),
        ("varchar(3)", "varchar(4)", True),
        ("varchar(4)", "varchar(3)", False),
        ("varchar(4)", "string", True),
        ("string", "varchar(4)", False),
        ("char(4)", "string", False),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("array<int>", "array<bigint>", True),
        ("struct<x:int>", "struct<x:int,y:string>", True),
        ("struct<x:int>", "struct<y:int,x:int>", False),
        ("date", "timestamp", False),
        ("date", "string", False),
        ("timestamp", "string", False),
        ("boolean", "string", False),
        ("boolean", "int", False),
        ("float", "string", False),
        ("decimal(10,2)", "string", False),
        ("decimal(10,2)", "double", False),
        ("binary", "string", False),
        ("timestamp", "timestamp with local time zone", False),
        ("int", "string", True),
        ("tinyint", "varchar(4)", True),
        ("tinyint", "varchar(3)", False),
        ("bigint", "varchar(20)", True),
        ("bigint", "varchar(19)", False),
        ("int", "char(20)", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(11,2)", False),
        ("bigint", "decimal(19,0)", True),
        ("smallint", "float", True),
        ("int", "float", False),
        ("int", "double", True),
        ("bigint", "double", False),
        ("struct<x:int>", "struct<X:bigint>", True),
        ("map<int,float>", "map<bigint,double>", True),
        ("uniontype<int,string>", "uniontype<bigint,string>", True),
        ("uniontype<int>", "uniontype<int,string>", False),
    ],
)
def test_widening_of_types(old: str, new: str, fits: bool) -> None:
    a, b = (acid_types(parse_hive_type(f"struct<c:{part}>")) for part in (old, new))
    assert widens(a, b) is fits
    assert widens(a, a)


def test_rows_with_fewer_columns_widen_and_those_with_more_do_not() -> None:
    few, many = (acid_types(parse_hive_type(text)) for text in ("struct<a:int>", "struct<b:int,c:string>"))
    assert widens(few, many)
    assert not widens(many, few)
    assert widens(acid_types(parse_hive_type("struct<>")), many)
