"""What ``--verify full`` must catch (PROTOCOL 4): outputs that are whole, but hold something else than their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compactor.errors import VerificationFailed
from compactor.orc import arrow_codec
from compactor.orc.assembler import Assembler
from compactor.orc.reencode import Piece, encode_acid, reencode
from compactor.orc.source import LocalSink, LocalSource
from compactor.orc.tail import Tail, read_tail
from compactor.rewrite.content import same_bytes, same_rows
from compactor.rewrite.merge import merge
from compactor.rows.sealing import Seal
from tests.support.acid_files import TYPES, Key, dense, write_file
from tests.support.divided import WHOLE, large_unit
from tests.support.units import execute

KEYS = dense(3, 100)


def encoded_again(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Puts other rows into the ACID file at ``path``."""
    with LocalSource(path) as source:
        tail = read_tail(source)
        batches = list(arrow_codec.read_batches(source, tail))
    schema = arrow_codec.schema(TYPES)
    rows = change(
        [row for batch in batches for row in pa.RecordBatch.from_arrays(batch.columns, schema=schema).to_pylist()]
    )
    made = [pa.RecordBatch.from_pylist(rows, schema=schema)]
    encode_acid(made, path, like=tail, types=TYPES, metadata=Seal().metadata)


def another_value(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[7]["row"] = {"a": 1_000_007}
    return rows


def values_swapped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each value is there as often as it was."""
    rows[7]["row"], rows[8]["row"] = rows[8]["row"], rows[7]["row"]
    return rows


def one_twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[7] = rows[8]
    return rows


def one_less(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:-1]


@pytest.mark.parametrize("change", [another_value, values_swapped, one_twice, one_less])
def test_rows_that_are_not_those_that_were_read(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    path = write_file(tmp_path / "in", KEYS)
    with LocalSource(path) as source:
        tail = read_tail(source)
        pieces = [Piece(source=source, tail=tail, stripe_index=0, keep=np.arange(100) != 50)]
        reencode(pieces, tmp_path / "out", like=tail, types=TYPES)
        same_rows(pieces, str(tmp_path / "out"), TYPES)
        encoded_again(tmp_path / "out", change)
        with pytest.raises(VerificationFailed, match=r"out: the checksum of the rows that were read is [0-9a-f]{16}, "):
            same_rows(pieces, str(tmp_path / "out"), TYPES)


def test_a_stripe_that_is_not_the_one_that_was_read(tmp_path: Path) -> None:
    keys: Sequence[Sequence[Key]] = (dense(1, 50), dense(2, 60))
    with LocalSource(write_file(tmp_path / "a", keys[0])) as a, LocalSource(write_file(tmp_path / "b", keys[1])) as b:
        inputs = [(source, tail, tail.stripes[0]) for source, tail in ((a, read_tail(a)), (b, read_tail(b)))]
        with LocalSink(tmp_path / "out") as sink, Assembler(sink, like=inputs[0][1], types=TYPES) as assembler:
            for source, tail, _ in inputs:
                assembler.copy(source, tail, 0)
            assembler.close({})
        same_bytes(inputs, str(tmp_path / "out"))
        with LocalSource(tmp_path / "out") as out:
            second = read_tail(out).stripes[1]
        data = bytearray((tmp_path / "out").read_bytes())
        data[second.offset + second.length // 2] ^= 1
        (tmp_path / "out").write_bytes(data)
        with pytest.raises(
            VerificationFailed, match=r"out, stripe 1: other bytes than were read from .*/b; nothing was"
        ):
            same_bytes(inputs, str(tmp_path / "out"))


@pytest.mark.parametrize(("split_bytes", "is_sorted"), [(1, True), (WHOLE, True), (WHOLE, False)])
def test_every_way_to_encode_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, is_sorted: bool
) -> None:
    """In sections, in one task, and merged: an encoder that writes another value is noticed, whoever calls it."""
    unit = replace(large_unit(tmp_path), split_bytes=split_bytes)
    if not is_sorted:
        keys = dense(1, 51)
        write_file(tmp_path / "d1" / "bucket_00000", [*keys[1:], keys[0]])

    def broken(encode: Callable[..., Tail]) -> Callable[..., Tail]:
        def encodes(what: Any, path: str, **how: Any) -> Tail:
            encode(what, path, **how)
            encoded_again(Path(path), another_value)
            with LocalSource(path) as source:
                return read_tail(source)

        return encodes

    assert execute(unit).outputs[0].rows == 470
    monkeypatch.setattr("compactor.rewrite.stringing.reencode", broken(reencode))
    monkeypatch.setattr("compactor.rewrite.execute.reencode", broken(reencode))
    monkeypatch.setattr("compactor.rewrite.execute.merge", broken(merge))
    with pytest.raises(VerificationFailed, match="the checksum of the rows that were read is"):
        execute(unit)
    if is_sorted:
        assert execute(replace(unit, full_verify=False)).outputs[0].rows == 470  # no count shows it
