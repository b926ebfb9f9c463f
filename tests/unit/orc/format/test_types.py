"""Type trees of footers."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format import types as types_module
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.types import (
    OrcType,
    TypeKind,
    Types,
    acid_types,
    from_messages,
    same_shape,
)


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
    with pytest.raises(BadFile, match=rf"file f: column 1 is decimal\({precision},{scale}\), expected 1..38 digits"):
        from_messages([item.SerializeToString() for item in items], "f")


def test_a_tree_with_a_loop_is_a_bad_file() -> None:
    root, *rest = parse_hive_type("struct<a:int>")
    looped = Types((replace(root, children=(0,)), *rest))
    with pytest.raises(BadFile, match="not one tree"):
        from_messages(looped.messages, "f")


def test_a_type_that_is_not_a_message_is_a_bad_file() -> None:
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


def test_names_in_arrays_and_maps_do_not_count() -> None:
    """Trino writes them into its footers, nobody else does; a compaction of such files and others failed [seen]."""
    named = [
        messages.Type(kind=TypeKind.STRUCT, subtypes=[1, 3], field_names=[b"a", b"m"]),
        messages.Type(kind=TypeKind.LIST, subtypes=[2], field_names=[b"item"]),
        messages.Type(kind=TypeKind.INT),
        messages.Type(kind=TypeKind.MAP, subtypes=[4, 5], field_names=[b"key", b"value"]),
        messages.Type(kind=TypeKind.STRING),
        messages.Type(kind=TypeKind.INT),
    ]
    assert same_shape(
        from_messages([one.SerializeToString() for one in named], "f"),
        parse_hive_type("struct<a:array<int>,m:map<string,int>>"),
    )


def test_other_structs_are_not_acid() -> None:
    assert not parse_hive_type("struct<operation:int,bucket:int>").is_acid
    assert not parse_hive_type("struct<>").is_acid
    assert not parse_hive_type("int").is_acid


def test_names_of_columns_do_not_count_and_names_inside_columns_do() -> None:
    """PROTOCOL 2.2: names may differ if readers go by position."""

    def acid(text: str) -> Types:
        return acid_types(parse_hive_type(text))

    assert same_shape(acid("struct<a:int,b:string>"), acid("struct<_col0:int,_col1:string>"))
    assert same_shape(acid("struct<a:struct<x:int>>"), acid("struct<b:struct<X:int>>"))
    assert not same_shape(acid("struct<a:struct<x:int>>"), acid("struct<a:struct<y:int>>"))
    assert not same_shape(acid("struct<a:varchar(3)>"), acid("struct<a:varchar(4)>"))
    assert not same_shape(acid("struct<a:decimal(10,2)>"), acid("struct<a:decimal(10,3)>"))


@pytest.mark.parametrize(
    ("row", "lossless"),
    [
        ("struct<a:int,b:string,c:array<map<string,date>>>", True),
        ("struct<a:decimal(38,18),b:map<int,timestamp>>", True),
        ("struct<a:int,b:uniontype<int,string>>", False),
        ("struct<a:array<uniontype<int,string>>>", False),
    ],
)
def test_types_that_no_encoder_preserves(row: str, lossless: bool) -> None:
    types = parse_hive_type(row)
    assert (types.is_encodable, acid_types(types).is_encodable) == (lossless, lossless)


def test_a_decimal_of_hive_0_11_has_no_scale_to_keep() -> None:
    assert not Types((replace(parse_hive_type("decimal(1,0)")[0], precision=0),)).is_encodable


def test_encoders_know_no_char_and_no_names() -> None:
    types = parse_hive_type("struct<a:char(3),b:struct<a:varchar(2)>>").for_encoders
    assert schema_text(types) == "struct<f0:string,f1:struct<f0:string>>"


def test_the_same_footer_gives_the_same_types() -> None:
    """A broken footer is refused each time, with the name of its file."""
    items = list(acid_types(parse_hive_type("struct<a:int,b:string>")).messages)
    assert from_messages(items, "one") is from_messages(items, "two")
    items.pop()
    for name in ("one", "two"):
        with pytest.raises(BadFile, match=f"file {name}:"):
            from_messages(items, name)


def test_types_are_pickled_without_their_cached_values() -> None:
    types = Types((OrcType(kind=TypeKind.STRUCT, attributes=((b"k", b"v"),)),))
    assert {types: types.is_acid} == {types: False}
    arrived = pickle.loads(pickle.dumps(types))
    assert (arrived, type(arrived), vars(arrived)) == (types, Types, {})
    assert hash(arrived) == hash(types)


def test_depth() -> None:
    assert parse_hive_type("struct<a:int>").depth == 2
    assert parse_hive_type("struct<a:array<struct<b:int,c:map<int,int>>>,d:int>").depth == 5


def test_types_that_are_too_deep_are_refused_even_if_known() -> None:
    found = parse_hive_type("struct<a:array<array<int>>>")
    assert from_messages(found.messages, "f", 4) == found
    with pytest.raises(BadFile, match=r"file f: its types are nested 4 deep, at most 3.*compactor\.file\.depth"):
        from_messages(found.messages, "f", 3)


@pytest.mark.parametrize("children", [[(0, 0), (), ()], [(1, 1), (2,), ()], [(2, 1), (), ()], [(1,), (2,), (1,)]])
def test_types_with_several_parents_or_none_are_no_tree(children: list[tuple[int, ...]]) -> None:
    items = [OrcType(kind=TypeKind.STRUCT, children=found, field_names=("a",) * len(found)) for found in children]
    with pytest.raises(BadFile, match="are not one tree"):
        from_messages(Types(items).messages, "f")


def test_caches_forget_before_they_hold_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's files may list other columns each time."""
    monkeypatch.setattr(types_module, "MAX_CACHED_COLUMNS", 100)
    for number in range(30):
        from_messages(parse_hive_type(f"struct<a{number}:int,b:struct<c:int>>").messages, "f")
        assert sum(map(len, types_module._KNOWN)) <= 100
