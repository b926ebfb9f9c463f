"""Type trees, their text, and what fits into what."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.errors import BadFile, NotLossless
from compactor.orc.format import messages
from compactor.orc.format.types import (
    OrcType,
    TypeKind,
    Types,
    acid_types,
    arrow_type,
    from_messages,
    parse_hive_type,
    same,
    schema_text,
    widens,
)

_LEAVES = st.sampled_from(
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"),
        *("timestamp", "timestamp with local time zone", "decimal(38,10)", "char(7)", "varchar(65535)"),
    ]
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        inner.map(lambda part: f"array<{part}>"),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, max_size=4).map(
            lambda parts: "struct<" + ",".join(f"c {i}é:{part}" for i, part in enumerate(parts)) + ">"
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"uniontype<{','.join(parts)}>"),
    )


@given(text=st.recursive(_LEAVES, _nested, max_leaves=12))
def test_text_and_footer_say_the_same(text: str) -> None:
    types = parse_hive_type(text)
    assert schema_text(types) == text
    assert from_messages(types.messages, "f") == types
    assert acid_types(types).row == types if types[0].kind is TypeKind.STRUCT else True


def test_hives_shorthand() -> None:
    assert schema_text(parse_hive_type("DECIMAL")) == "decimal(10,0)"
    assert schema_text(parse_hive_type("struct<`a:b`:integer>")) == "struct<a:b:int>"


@pytest.mark.parametrize(
    "text", ["", "void", "struct<a>", "struct<a:int", "array<int,int>", "map<int>", "char", "int int", "uniontype<>"]
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(NotLossless, match="at position"):
        parse_hive_type(text)


def test_column_ids_are_in_pre_order() -> None:
    types = parse_hive_type("struct<a:array<int>,b:map<string,struct<x:int>>,c:date>")
    assert types[0].children == (1, 3, 7)
    assert (types[3].children, types[5].children) == ((4, 5), (6,))


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 2), (5, 6)])
def test_a_decimal_without_digits_is_a_bad_file(precision: int, scale: int) -> None:
    items = [
        messages.Type(kind=TypeKind.STRUCT, subtypes=[1], field_names=[b"d"]),
        messages.Type(kind=TypeKind.DECIMAL, precision=precision, scale=scale),
    ]
    with pytest.raises(BadFile, match=rf"file f: column 1 is decimal\({precision},{scale}\), 1..38 digits"):
        from_messages([item.SerializeToString() for item in items], "f")


def test_a_tree_with_a_loop_is_a_bad_file() -> None:
    root, *rest = parse_hive_type("struct<a:int>")
    looped = Types((replace(root, children=(0,)), *rest))
    with pytest.raises(BadFile, match="not one tree"):
        from_messages(looped.messages, "f")


def test_a_type_that_is_no_message_is_a_bad_file() -> None:
    root, _ = parse_hive_type("struct<a:int>").messages
    with pytest.raises(BadFile, match="file f: its types cannot be read"):
        from_messages([root, b"\x08"], "f")


@pytest.mark.parametrize("change", [str, str.lower, str.upper])
def test_acid_files_are_known_in_any_case(change: object) -> None:
    """DESIGN 4: ACID field names in any case; Hive's query compactor writes lower case."""
    text = schema_text(acid_types(parse_hive_type("struct<a:int>")))
    assert callable(change)
    names = text.replace("originalTransaction", change("originalTransaction")).replace("rowId", change("rowId"))
    assert parse_hive_type(names).is_acid


def test_other_structs_are_not_acid() -> None:
    assert not parse_hive_type("struct<operation:int,bucket:int>").is_acid
    assert not parse_hive_type("struct<>").is_acid
    assert not parse_hive_type("int").is_acid


def test_names_of_columns_do_not_count_and_names_inside_columns_do() -> None:
    """PROTOCOL 2.2: names may differ, where readers go by position."""

    def acid(text: str) -> Types:
        return acid_types(parse_hive_type(text))

    assert same(acid("struct<a:int,b:string>"), acid("struct<_col0:int,_col1:string>"))
    assert same(acid("struct<a:struct<x:int>>"), acid("struct<b:struct<X:int>>"))
    assert not same(acid("struct<a:struct<x:int>>"), acid("struct<a:struct<y:int>>"))
    assert not same(acid("struct<a:varchar(3)>"), acid("struct<a:varchar(4)>"))
    assert not same(acid("struct<a:decimal(10,2)>"), acid("struct<a:decimal(10,3)>"))


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
def test_what_widens(old: str, new: str, fits: bool) -> None:
    a, b = (acid_types(parse_hive_type(f"struct<c:{part}>")) for part in (old, new))
    assert widens(a, b) is fits
    assert widens(a, a)


def test_fewer_columns_widen_and_more_do_not() -> None:
    few, many = (acid_types(parse_hive_type(text)) for text in ("struct<a:int>", "struct<b:int,c:string>"))
    assert widens(few, many)
    assert not widens(many, few)
    assert widens(acid_types(parse_hive_type("struct<>")), many)


@pytest.mark.parametrize(
    ("row", "lossless"),
    [
        ("struct<a:int,b:string,c:array<map<string,date>>>", True),
        ("struct<a:decimal(38,18),b:map<int,timestamp>>", True),
        ("struct<a:int,b:uniontype<int,string>>", False),
        ("struct<a:array<uniontype<int,string>>>", False),
    ],
)
def test_what_no_encoder_keeps(row: str, lossless: bool) -> None:
    types = parse_hive_type(row)
    assert (types.is_encodable, acid_types(types).is_encodable) == (lossless, lossless)


def test_a_decimal_of_hive_0_11_has_no_scale_to_keep() -> None:
    assert not Types((replace(parse_hive_type("decimal(1,0)")[0], precision=0),)).is_encodable


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


def test_encoders_know_no_char_and_no_names() -> None:
    types = parse_hive_type("struct<a:char(3),b:struct<a:varchar(2)>>").for_encoders
    assert schema_text(types) == "struct<f0:string,f1:struct<f0:string>>"


def test_the_same_footer_gives_the_same_types() -> None:
    """And one that is broken is refused each time, by the name of its file."""
    items = list(acid_types(parse_hive_type("struct<a:int,b:string>")).messages)
    assert from_messages(items, "one") is from_messages(items, "two")
    items.pop()
    for name in ("one", "two"):
        with pytest.raises(BadFile, match=f"file {name}:"):
            from_messages(items, name)


def test_types_travel_without_what_holds_in_one_process_only() -> None:
    types = Types((OrcType(kind=TypeKind.STRUCT, attributes=((b"k", b"v"),)),))
    assert {types: types.is_acid} == {types: False}
    arrived = pickle.loads(pickle.dumps(types))
    assert (arrived, type(arrived), vars(arrived)) == (types, Types, {})
    assert hash(arrived) == hash(types)
