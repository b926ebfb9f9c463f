"""Rows of older types in a file of newer ones."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow.orc as po
import pyorc
import pytest

from compactor.base.errors import NotLossless
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.pieces import piece_batches
from compactor.orc.reencode import encode_acid, reencode
from tests.support.orc_files import acid_source, pieces_of


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=lambda codec: codec.name)
def test_rows_of_an_older_schema_fit_the_wanted_one(tmp_path: Path, codec: Codec) -> None:
    """Hive's schema evolution: by position, missing trailing columns are NULL, numbers grow."""
    old = "struct<a:int,b:varchar(3),s:struct<x:smallint>,l:array<int>,m:map<string,float>,d:decimal(5,2)>"
    new = "struct<A:bigint,B:string,S:struct<x:int,y:date>,l:array<bigint>,m:map<string,double>,d:decimal(9,4),t:timestamp>"
    rows = [(1, "é", (2,), [3, None], {"k": 0.5}, Decimal("1.25")), (None,) * 6, None]
    source = acid_source(old, rows)
    tail = read_tail(source)
    types = acid_types(parse_hive_type(new))
    batches = (b for piece in pieces_of(source, tail) for b in piece_batches(piece, codec, types))
    out = encode_acid(batches, tmp_path / "re", like=tail, types=types, codec=codec)
    assert out.types == types
    with open(tmp_path / "re", "rb") as file:
        found = [row[5] for row in pyorc.Reader(file)]
    assert found == [(1, "é", (2, None), [3, None], {"k": 0.5}, Decimal("1.2500"), None), (None,) * 7, None]


def test_an_empty_row_struct_fits_any_schema(tmp_path: Path) -> None:
    """Delete deltas of Hive 2.3 have ``row:struct<>``."""
    source = acid_source("struct<>", [None, None])
    tail = read_tail(source)
    types = acid_types(parse_hive_type("struct<a:int,b:string>"))
    assert reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=types).types == types
    assert po.ORCFile(str(tmp_path / "re")).read().column("row").null_count == 2


@pytest.mark.parametrize("wanted", ["struct<a:int>", "struct<a:int,b:varchar(2)>", "struct<a:smallint,b:string>"])
def test_rows_that_do_not_fit_are_refused(tmp_path: Path, wanted: str) -> None:
    source = acid_source("struct<a:int,b:string>", [(1, "x")])
    tail = read_tail(source)
    with pytest.raises(NotLossless, match=r"file .*: rows of .* do not fit"):
        reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=acid_types(parse_hive_type(wanted)))
    assert not (tmp_path / "re").exists()
