"""Any rows of any columns, through each codec and back: the same raw values."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pyorc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import BytesSource
from compactor.orc.pieces import Piece as StripePiece
from compactor.orc.pieces import piece_batches
from compactor.orc.reencode import encode_acid, reencode

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
_PAIR = tuple[str, st.SearchStrategy[Any]]
_LEAVES: list[_PAIR] = [
    ("boolean", st.booleans()),
    ("tinyint", st.integers(-128, 127)),
    ("bigint", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", _TEXT),
    ("varchar(6)", _TEXT),
    ("binary", st.binary(max_size=6)),
    ("date", st.dates()),
    ("timestamp", st.datetimes(timezones=st.just(UTC))),
    ("decimal(38,5)", st.decimals(min_value=-(10**22), max_value=10**22, places=5)),
]


def _column(depth: int) -> st.SearchStrategy[_PAIR]:
    leaf = st.sampled_from(_LEAVES)
    if depth == 0:
        return leaf
    inner = _column(depth - 1)
    return st.one_of(
        leaf,
        inner.map(lambda p: (f"array<{p[0]}>", st.lists(st.none() | p[1], max_size=3))),
        inner.map(lambda p: (f"map<int,{p[0]}>", st.dictionaries(st.integers(0, 99), st.none() | p[1], max_size=3))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ps: (
                "struct<" + ",".join(f"x{i}:{p[0]}" for i, p in enumerate(ps)) + ">",
                st.tuples(*(st.none() | p[1] for p in ps)),
            )
        ),
    )


@st.composite
def _files(draw: st.DrawFn) -> bytes:
    columns = draw(st.lists(_column(2), min_size=1, max_size=4))
    row = "struct<" + ",".join(f"c{i}:{kind}" for i, (kind, _) in enumerate(columns)) + ">"
    values = st.none() | st.tuples(*(st.none() | value for _, value in columns))
    file = io.BytesIO()
    with pyorc.Writer(file, schema_text(acid_types(parse_hive_type(row)))) as writer:
        for number, value in enumerate(draw(st.lists(values, max_size=12))):
            writer.write((0, 1, 536870912, number, 1, value))
    return file.getvalue()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=_files(), modulus=st.integers(1, 4))
def test_the_codec_that_is_chosen_keeps_every_value(raw_rows: Callable[[Path], str], data: bytes, modulus: int) -> None:
    source = BytesSource(data)
    tail = read_tail(source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "in").write_bytes(data)
        pieces = [StripePiece(source=source, tail=tail, stripe_index=i) for i in range(len(tail.stripes))]
        reencode(pieces, path / "re", like=tail, types=tail.types)
        assert raw_rows(path / "re") == raw_rows(path / "in")
        encode_acid(PYORC.read_batches(source, tail), path / "py", like=tail, types=tail.types, codec=PYORC)
        assert raw_rows(path / "py") == raw_rows(path / "in")
        if not tail.rows:
            return
        keep = [row % modulus == 0 for row in range(tail.rows)]
        chosen = [StripePiece(source=source, tail=tail, stripe_index=0, keep=keep)]
        reencode(chosen, path / "some", like=tail, types=tail.types)
        kept = _kept(piece_batches(chosen[0], PYORC))
        assert kept == [row for row in range(tail.rows) if keep[row]]


def _kept(batches: Any) -> list[int]:
    return [row for batch in batches for row in batch.column("rowId").to_pylist()]


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=lambda codec: codec.name)
def test_batches_have_the_codecs_schema(codec: Codec) -> None:
    types = acid_types(parse_hive_type("struct<A:char(3),b:array<timestamp>,c:map<string,struct<Y:date>>>"))
    file = io.BytesIO()
    with pyorc.Writer(file, schema_text(types)) as writer:
        writer.write((0, 1, 536870912, 0, 1, ("abc", None, {"k": None})))
    source = BytesSource(file.getvalue())
    (batch,) = codec.read_batches(source, read_tail(source))
    assert batch.schema.equals(codec.schema(types))
