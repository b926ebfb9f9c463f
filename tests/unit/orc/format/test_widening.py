"""Types that widen to others, and types that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.base.errors import NotLossless
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.types import Types, acid_types
from compactor.orc.format.widening import common_types, widens


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


def row(text: str) -> Types:
    return parse_hive_type(f"struct<{text}>")


def common(table: str, *files: str) -> str:
    found = common_types({f"f{number}": row(text) for number, text in enumerate(files)}, row(table))
    assert all(widens(row(text), found) for text in files)
    return schema_text(found)[len("struct<") : -1]


@pytest.mark.parametrize(
    ("table", "files", "wanted"),
    [
        ("a:bigint,b:string", ["a:int"], "a:int"),
        ("a:string", ["a:int", "a:int"], "a:int"),
        ("a:smallint", ["a:string", "a:string"], "a:string"),
        ("a:int", ["a:int,b:int", "a:int,b:int"], "a:int,b:int"),
    ],
    ids=["older than the table", "converted since", "narrowed since", "dropped since"],
)
def test_files_that_agree_keep_their_type(table: str, files: list[str], wanted: str) -> None:
    """PROTOCOL 2.2: equal types are copied, and every reader goes on as before."""
    assert common(table, *files) == wanted


@pytest.mark.parametrize(
    ("table", "files", "wanted"),
    [
        ("a:int,b:string", ["a:int", "a:int,b:string"], "a:int,b:string"),
        ("a:bigint", ["a:tinyint", "a:int", "a:smallint"], "a:int"),
        ("a:string", ["a:int", "a:string"], "a:string"),
        ("a:double", ["a:float", "a:double"], "a:double"),
        ("a:double", ["a:int", "a:double"], "a:double"),
        ("a:decimal(12,2)", ["a:int", "a:decimal(12,2)"], "a:decimal(12,2)"),
        ("a:decimal(12,4)", ["a:decimal(8,2)", "a:decimal(9,2)"], "a:decimal(9,2)"),
        ("a:decimal(12,4)", ["a:decimal(8,2)", "a:decimal(12,4)"], "a:decimal(12,4)"),
        ("a:varchar(20)", ["a:varchar(5)", "a:varchar(10)"], "a:varchar(10)"),
        ("a:varchar(3)", ["a:varchar(5)", "a:string"], "a:string"),
        ("a:char(9)", ["a:char(5)", "a:char(3)"], "a:char(5)"),
        ("a:int", ["a:int", "a:int,b:date"], "a:int,b:date"),
        ("a:struct<x:int,y:int>", ["a:struct<x:int>", "a:struct<X:bigint,y:int>"], "a:struct<X:bigint,y:int>"),
        ("a:array<bigint>", ["a:array<int>", "a:array<bigint>"], "a:array<bigint>"),
        ("a:map<int,string>", ["a:map<int,int>", "a:map<int,string>"], "a:map<int,string>"),
        ("a:array<struct<x:string>>", ["a:array<struct<x:int>>", "a:array<struct<x:string>>"], "a:array<struct<x:string>>"),
        ("a:uniontype<int,date>", ["a:uniontype<int,date>", "a:uniontype<bigint,date>"], "a:uniontype<bigint,date>"),
        ("a:int", ["", "a:int"], "a:int"),
    ],
)  # fmt: skip
def test_files_that_differ_get_the_smallest_type_that_holds_both(table: str, files: list[str], wanted: str) -> None:
    assert common(table, *files) == wanted
    assert common(table, *reversed(files)).lower() == wanted.lower()


@pytest.mark.parametrize(
    ("table", "files"),
    [
        ("a:int", ["a:int", "a:string"]),
        ("a:string", ["a:float", "a:double"]),
        ("a:string", ["a:date", "a:string"]),
        ("a:timestamp", ["a:date", "a:timestamp"]),
        ("a:bigint", ["a:boolean", "a:bigint"]),
        ("a:double", ["a:bigint", "a:double"]),
        ("a:string", ["a:char(3)", "a:string"]),
        ("a:string", ["a:decimal(8,2)", "a:decimal(12,4)"]),
        ("a:struct<y:int>", ["a:struct<x:int>", "a:struct<y:int>"]),
        ("a:struct<x:int>", ["a:int", "a:struct<x:int>"]),
        ("a:uniontype<int,date>", ["a:uniontype<int>", "a:uniontype<int,date>"]),
        ("b:int", ["a:array<string>", "a:array<binary>"]),
    ],
)
def test_files_that_no_type_holds_are_refused_by_name(table: str, files: list[str]) -> None:
    """DESIGN 4: if nothing is lossless, the files are refused with the reason."""
    with pytest.raises(
        NotLossless, match=r"column [ab].*: f0 holds .*, f1 holds .*, the table says .*INSERT OVERWRITE"
    ):
        common(table, *files)


def test_names_are_the_tables_or_else_the_newest_files() -> None:
    assert common("new:int,other:string", "_col0:int,_col1:string,_col2:date") == "new:int,other:string,_col2:date"
    assert common("new:int", "a:int,b:int", "c:int") == "new:int,b:int"
    assert common("a:struct<x:int>", "a:struct<X:int>", "a:struct<x:int>") == "a:struct<x:int>"


def test_attributes_of_the_newest_file_stay() -> None:
    """DESIGN 4: after Arrow has encoded, the footer's types are restored, including attributes."""
    old, new = row("a:int,b:struct<x:int>"), row("a:bigint,b:struct<x:int>")
    marked = tuple(replace(item, attributes=((b"id", b"%d" % number),)) for number, item in enumerate(new))
    for files in ({"f": marked}, {"f": old, "g": marked}):
        assert common_types(files, new) == marked
    assert common_types({"f": marked, "g": old}, new)[1].attributes == ()


def test_the_same_types_again_count_as_the_newest() -> None:
    a, b = row("a:int"), row("b:int")
    assert common_types({"1": a, "2": b, "3": a}, row("")) == a
