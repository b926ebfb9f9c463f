"""Verification of outputs (PROTOCOL 4): each case is a file that a broken compaction could have made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import BadFile, CompactorError, VerificationFailed
from compactor.base.ids import WriteId
from compactor.orc.assembler import Assembler, WrittenFile
from compactor.orc.codecs import arrow_codec
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.tail_writer import replace_tail, tail_bytes
from compactor.orc.io.source import LocalSink, LocalSource
from compactor.orc.pieces import Piece
from compactor.orc.reencode import encode_acid, reencode
from compactor.rewrite.full_acid.delete_events import EventSorter, pack_events
from compactor.rewrite.full_acid.merge import merge_runs
from compactor.rewrite.full_acid.verify import check_same_bytes, check_same_events, check_same_rows, verify_file
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rows.delete_files import DeleteEvents, Events, write_events
from compactor.rows.inputs import Input
from compactor.rows.keys import KEY, KeyBlock, Numbers
from compactor.rows.new_file import OutputMetadata
from tests.support.acid_files import FIRST_FILE, TYPES, Key, block, dense, like, write_file
from tests.support.split_units import WHOLE, large_unit
from tests.support.units import execute, small_unit

NONE = DeleteEvents.from_blocks(())
LAST = [RowId(WriteId(3), FIRST_FILE, 99)]
KEYS = dense(3, 100)


def deleting(*keys: Key) -> DeleteEvents:
    return DeleteEvents.from_blocks([(block(keys), np.full(len(keys), 9, dtype=np.int64))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_file(tmp_path / "bucket_00000", dense(3, 100))


@pytest.mark.parametrize("full", [False, True])
def test_a_right_file_passes(path: Path, full: bool) -> None:
    verify_file(str(path), LAST, rows=100, full=full, deletes=deleting((3, FIRST_FILE, 100)))


def test_a_dropped_row(path: Path) -> None:
    with pytest.raises(VerificationFailed, match=r"bucket_00000: 100 rows in 1 stripes, expected 101"):
        verify_file(str(path), LAST, rows=101, full=False, deletes=NONE)


def test_a_stripe_too_few(path: Path) -> None:
    with pytest.raises(VerificationFailed, match="in 1 stripes, expected 100 in 2"):
        verify_file(str(path), [*LAST, RowId(WriteId(4), FIRST_FILE, 0)], rows=100, full=False, deletes=NONE)


@pytest.mark.parametrize("index", [b"3,536870912,98;", b"", b"3,536870912,99", b"3,536870912,99;3,536870912,99;"])
def test_a_wrong_key_index(path: Path, index: bytes) -> None:
    """With a wrong entry a row-by-row reader of Hive loses rows."""
    with LocalSource(path) as source:
        metadata = dict(read_tail(source).user_metadata)
    replace_tail(str(path), like(), TYPES, lambda *_: {**metadata, "hive.acid.key.index": index})
    with pytest.raises(VerificationFailed, match="key index"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_last_keys_that_are_not_those_of_the_rows(tmp_path: Path) -> None:
    """PROTOCOL 4: a count alone passes broken files; a point predicate per stripe does not."""
    path = write_file(tmp_path / "bucket_00000", dense(3, 100, first=1))
    with LocalSource(path) as source:
        metadata = dict(read_tail(source).user_metadata)
    replace_tail(str(path), like(), TYPES, lambda *_: {**metadata, "hive.acid.key.index": b"3,536870912,500;"})
    with pytest.raises(VerificationFailed):
        verify_file(str(path), [RowId(WriteId(3), FIRST_FILE, 500)], rows=100, full=False, deletes=NONE)


def test_stripes_without_statistics(path: Path) -> None:
    """PROTOCOL 2.2: readers would use the file's statistics for all stripes."""
    with LocalSource(path) as source:
        tail = read_tail(source)
    data = path.read_bytes()[: tail.stripes[-1].end]
    path.write_bytes(data + tail_bytes(replace(tail, stripe_statistics=None)))
    with pytest.raises(VerificationFailed, match="not every stripe has statistics"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_a_row_index_that_contradicts_the_statistics(path: Path, tmp_path: Path) -> None:
    other = write_file(tmp_path / "other" / "bucket_00000", dense(3, 100, first=7))
    with LocalSource(path) as source, LocalSource(other) as lying:
        tail = replace(read_tail(source), stripe_statistics=read_tail(lying).stripe_statistics)
    path.write_bytes(path.read_bytes()[: tail.stripes[-1].end] + tail_bytes(tail))
    with pytest.raises(BadFile, match="contradicts the stripe's statistics"):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_rows_that_cannot_be_decoded(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with LocalSource(path) as source:
        stripe = read_tail(source).stripes[0]
    content[stripe.offset : stripe.offset + stripe.length] = b"\x55" * stripe.length
    path.write_bytes(content)
    with pytest.raises(CompactorError):
        verify_file(str(path), LAST, rows=100, full=False, deletes=NONE)


def test_a_deleted_row_that_was_kept(path: Path) -> None:
    with pytest.raises(VerificationFailed, match="a deleted row is among them"):
        verify_file(str(path), LAST, rows=100, full=True, deletes=deleting((3, FIRST_FILE, 50)))


@pytest.mark.parametrize("swapped", [dense(3, 98), [*dense(3, 50), (3, FIRST_FILE, 49), *dense(3, 47, first=50)]])
def test_keys_out_of_order_or_twice(tmp_path: Path, swapped: list[Key]) -> None:
    keys = [swapped[1], swapped[0], *swapped[2:], (3, FIRST_FILE, 99)] if len(swapped) == 98 else [*swapped, LAST[0]]
    path = write_file(tmp_path / "bucket_00000", [tuple(key) for key in keys])  # type: ignore[misc]
    with pytest.raises(VerificationFailed, match="do not rise strictly"):
        verify_file(str(path), LAST, rows=99, full=True, deletes=NONE)


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
    encode_acid(made, path, like=tail, types=TYPES, metadata=OutputMetadata().compute)


def another_value(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[7]["row"] = {"a": 1_000_007}
    return rows


def values_swapped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Swaps values, so that each occurs as often as before."""
    rows[7]["row"], rows[8]["row"] = rows[8]["row"], rows[7]["row"]
    return rows


def one_twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[7] = rows[8]
    return rows


def one_less(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:-1]


@pytest.mark.parametrize("change", [another_value, values_swapped, one_twice, one_less])
def test_rows_that_differ_from_those_read(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    path = write_file(tmp_path / "in", KEYS)
    with LocalSource(path) as source:
        tail = read_tail(source)
        pieces = [Piece(source=source, tail=tail, stripe_index=0, keep=np.arange(100) != 50)]
        reencode(pieces, tmp_path / "out", like=tail, types=TYPES)
        check_same_rows(pieces, str(tmp_path / "out"), TYPES)
        encoded_again(tmp_path / "out", change)
        with pytest.raises(VerificationFailed, match=r"out: the rows read have the checksum [0-9a-f]{16}, "):
            check_same_rows(pieces, str(tmp_path / "out"), TYPES)


def test_a_stripe_that_differs_from_the_one_read(tmp_path: Path) -> None:
    keys: Sequence[Sequence[Key]] = (dense(1, 50), dense(2, 60))
    with LocalSource(write_file(tmp_path / "a", keys[0])) as a, LocalSource(write_file(tmp_path / "b", keys[1])) as b:
        inputs = [(source, tail, 0) for source, tail in ((a, read_tail(a)), (b, read_tail(b)))]
        with LocalSink(tmp_path / "out") as sink, Assembler(sink, like=inputs[0][1], types=TYPES) as assembler:
            for source, tail, _ in inputs:
                assembler.copy(source, tail, 0)
            assembler.close({})
        check_same_bytes(inputs, str(tmp_path / "out"))
        with LocalSource(tmp_path / "out") as out:
            second = read_tail(out).stripes[1]
        data = bytearray((tmp_path / "out").read_bytes())
        data[second.offset + second.length // 2] ^= 1
        (tmp_path / "out").write_bytes(data)
        with pytest.raises(
            VerificationFailed, match=r"out, stripe 1: differs from the bytes that were read from .*/b; nothing was"
        ):
            check_same_bytes(inputs, str(tmp_path / "out"))


@pytest.mark.parametrize(("split_bytes", "is_sorted"), [(1, True), (WHOLE, True), (WHOLE, False)])
def test_every_encoding_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, is_sorted: bool
) -> None:
    """An encoder that writes another value is noticed in split tasks, in one task, and in a merge."""
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
    monkeypatch.setattr("compactor.rewrite.full_acid.concatenate.reencode", broken(reencode))
    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.reencode", broken(reencode))
    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.merge_runs", broken(merge_runs))
    with pytest.raises(VerificationFailed, match="the rows read have the checksum"):
        execute(unit)
    if is_sorted:
        assert execute(replace(unit, full_verify=False)).outputs[0].rows == 470  # no count shows it


Changed = tuple[KeyBlock, Numbers]


def lost(keys: KeyBlock, current: Numbers) -> Changed:
    return keys[1:], current[1:]


def doubled(keys: KeyBlock, current: Numbers) -> Changed:
    return np.concatenate([keys[:1], keys]), np.concatenate([current[:1], current])


def another_instead(keys: KeyBlock, current: Numbers) -> Changed:
    """Replaces an event; their number stays."""
    return np.concatenate([keys[1:2], keys[1:]]), np.concatenate([current[1:2], current[1:]])


def another_row(keys: KeyBlock, current: Numbers) -> Changed:
    changed = keys.copy()
    changed["row_id"][-1] += 1
    return changed, current


def another_transaction(keys: KeyBlock, current: Numbers) -> Changed:
    """Changes the transaction of an event: the row would be gone for readers that should see it."""
    return keys, np.concatenate([[current[0] - 1], current[1:]])


def in_another_order(keys: KeyBlock, current: Numbers) -> Changed:
    return keys[::-1].copy(), current[::-1].copy()


CHANGES = (lost, doubled, another_instead, another_row, another_transaction, in_another_order)


def minor_with_events(folder: Path) -> Unit:
    """A minor that keeps three events, one of them twice, and applies two; nobody sees one."""
    below = [(1, FIRST_FILE, 7), (1, FIRST_FILE, 9), (1, FIRST_FILE, 9)]
    write_file(folder / "d" / "bucket_00000", dense(3, 5))
    write_file(folder / "x" / "bucket_00000", [*below, (3, FIRST_FILE, 1)], current=[3, 3, 4, 4], operation=2)
    write_file(folder / "y" / "bucket_00000", [(1, FIRST_FILE, 8), (3, FIRST_FILE, 2)], current=[9, 4], operation=2)
    return replace(
        small_unit(folder),
        shape=Shape.MINOR,
        deletes=tuple(Input(path=f"{name}/bucket_00000", length=1) for name in "xy"),
        inserts=(Input(path="d/bucket_00000", length=1),),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(8)),
        first_write_id=WriteId(3),
        full_verify=True,
    )


@pytest.mark.parametrize("change", CHANGES)
def test_kept_delete_events_that_differ_from_those_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[KeyBlock, Numbers], Changed]
) -> None:
    """PROTOCOL 4: a lost event brings its row back, a wrong one loses a row."""

    def broken(events: Events, *given: Any, **how: Any) -> WrittenFile:
        part = events.part(0, len(events))
        keys, current = change(part.keys, part.current)
        return write_events(DeleteEvents(keys=keys, current=current), *given, **how)

    unit = minor_with_events(tmp_path)
    rows, events = execute(unit).outputs
    assert (rows.rows, events.rows) == (3, 3)
    monkeypatch.setattr("compactor.rewrite.full_acid.rewrite_full_acid.write_events", broken)
    with pytest.raises(
        VerificationFailed, match=r"rows in 1 stripes, expected 3|the delete events to be kept|not in the order"
    ):
        execute(unit)
    if change in (lost, doubled):  # a count shows it
        with pytest.raises(VerificationFailed, match="expected 3 in 1"):
            execute(replace(unit, full_verify=False))


@pytest.mark.parametrize("change", [lost, another_row, another_transaction])
@pytest.mark.parametrize("shape", Shape)
def test_lost_delete_events_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Shape, change: Callable[[KeyBlock, Numbers], Changed]
) -> None:
    """Rows would come back, whether events are kept or applied."""

    def broken(sorter: EventSorter, found: npt.NDArray[np.void]) -> None:
        add(sorter, pack_events(*change(found[list(KEY.names or ())], found["current"])))

    unit = replace(minor_with_events(tmp_path), shape=shape)
    assert execute(unit).outputs[0].rows == 3
    add = EventSorter.add
    monkeypatch.setattr(EventSorter, "add", broken)
    with pytest.raises(VerificationFailed, match=r"the delete events to be (kept|applied)"):
        execute(unit)


def test_no_delete_events_pass(tmp_path: Path) -> None:
    none = DeleteEvents.from_blocks([])
    check_same_events([], WriteId(1), None, none)
    given = DeleteEvents.from_blocks([(block(dense(1, 2)), np.array([5, 5]))])
    with pytest.raises(VerificationFailed, match="to be kept in no file"):
        check_same_events([(given.keys, given.current)], WriteId(2), None, none)
    with pytest.raises(VerificationFailed, match="to be applied"):
        check_same_events([(given.keys, given.current)], WriteId(1), None, none)
    check_same_events([(given.keys, given.current)], WriteId(1), None, given)


def test_a_file_of_kept_events_holds_nothing_else(tmp_path: Path) -> None:
    path = write_file(tmp_path / "events", dense(1, 2))
    with pytest.raises(VerificationFailed, match="events, stripe 0: holds more than delete events"):
        check_same_events([], WriteId(1), str(path), DeleteEvents.from_blocks([]))
