"""ORC files of a few rows, written in memory by pyorc."""

from __future__ import annotations

import io
from typing import Any

import pyorc

from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import BytesSource, LocalSource
from compactor.orc.pieces import Piece


def pieces_of(source: LocalSource | BytesSource, tail: Tail, keep: Any = None) -> list[Piece]:
    """Returns every stripe of a file as a piece, each with the same ``keep``."""
    return [Piece(source=source, tail=tail, stripe_index=i, keep=keep) for i in range(len(tail.stripes))]


def acid_source(row: str, values: list[Any]) -> BytesSource:
    """Returns a file of insert events with these rows of Hive's type ``row``."""
    file = io.BytesIO()
    with pyorc.Writer(file, schema_text(acid_types(parse_hive_type(row)))) as writer:
        for number, value in enumerate(values):
            writer.write((0, 1, 536870912, number, 1, value))
    return BytesSource(file.getvalue())
