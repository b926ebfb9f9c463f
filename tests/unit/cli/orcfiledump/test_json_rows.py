from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyorc
import pytest

from compactor.base.errors import NotLossless
from compactor.cli.orcfiledump.json_rows import json_lines
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource


def lines(schema: str, *rows: Any) -> list[str]:
    file = io.BytesIO()
    with pyorc.Writer(file, schema) as writer:
        writer.writerows(rows)
    source = BytesSource(file.getvalue())
    return list(json_lines(source, read_tail(source)))


def test_texts_are_cut_and_trimmed_as_their_type_says() -> None:
    found = lines("struct<a:string,b:varchar(2),c:char(4)>", (" a ", "xyz", "a"), (None, None, None))
    assert found == ['{"a":" a ","b":"xy","c":"a"}', '{"a":null,"b":null,"c":null}']


def test_numbers_are_javas() -> None:
    found = lines("struct<a:double,b:float,c:tinyint,d:boolean>", (1e7, 0.1, -1, True), (float("nan"), 1.0, 0, False))
    assert found[0] == '{"a":1.0E7,"b":0.10000000149011612,"c":-1,"d":true}'
    assert found[1].startswith('{"a":NaN,')


def test_what_is_inside_others() -> None:
    schema = "struct<a:array<struct<x:int>>,b:map<string,array<int>>,c:binary>"
    found = lines(schema, ([(1,), None], [("k", [None])], b"\x00\xff"), ([], [], b""))
    assert found == ['{"a":[{"x":1},null],"b":[{"_key":"k","_value":[null]}],"c":[0,255]}', '{"a":[],"b":[],"c":[]}']


def test_encrypted_rows_are_refused() -> None:
    file = io.BytesIO()
    pyorc.Writer(file, "struct<a:int>").close()
    source = BytesSource(file.getvalue())
    with pytest.raises(NotLossless, match="encrypted"):
        list(json_lines(source, replace(read_tail(source), encrypted=True)))
