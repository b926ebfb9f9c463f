"""Arrow's adapter alone: values it accepts, values it would lose, and a disk that fills up while it encodes."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import BadFile, StorageError
from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.codec import Unfit
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.io.source import BytesSource
from tests.support.patience import PATIENCE

NUMBERS = parse_hive_type("struct<a:bigint>")


def write(path: Path, types: Types, *values: object, like: Tail | None = None) -> Tail:
    """Writes a file with one column of ``values`` and returns its tail."""
    schema = arrow_codec.schema(types)
    with arrow_codec.writer(path, like=like or empty_tail(types), types=types) as writer:
        writer.write(pa.record_batch([pa.array(values, schema.field(0).type)], schema=schema))
    return read_tail(BytesSource(path.read_bytes()))


def test_systems_without_the_call_ignore_the_hint(tmp_path: Path) -> None:
    types = parse_hive_type("struct<a:uniontype<int,string>>")
    with pytest.raises(Unfit, match="no equal"):
        arrow_codec.writer(tmp_path / "f", like=empty_tail(types), types=types)
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_utf8_are_shown_as_far_as_possible() -> None:
    """A footer holds bytes; neither Arrow nor logs and databases accept names that are not UTF-8."""
    types = parse_hive_type("struct<a:struct<b\udcd4:int>,c\udcd4:int>")
    assert arrow_codec.schema(types).names == ["a", "c\ufffd"]
    assert pyorc_codec.schema(types).field(0).type.field(0).name == "b\ufffd"
    assert schema_text(types) == "struct<a:struct<b\ufffd:int>,c\ufffd:int>"


def test_the_schema_has_hives_names_for_the_keys() -> None:
    schema = arrow_codec.schema(acid_types(parse_hive_type("struct<A:char(3),t:timestamp>")))
    assert schema.names == ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    row = schema.field("row").type
    assert [(f.name, f.type) for f in row] == [("A", pa.string()), ("t", pa.timestamp("ns"))]


@pytest.mark.parametrize("compression", arrow_codec.COMPRESSIONS, ids=lambda kind: kind.name)
def test_the_class_of_a_file_is_that_of_its_model(tmp_path: Path, compression: Compression) -> None:
    like = empty_tail(NUMBERS, compression=compression, row_index_stride=2_000)
    tail = write(tmp_path / "f", NUMBERS, 1, None, 3, like=like)
    assert (tail.compression, tail.row_index_stride, tail.rows) == (compression, 2_000, 3)
    (batch,) = arrow_codec.read_batches(BytesSource((tmp_path / "f").read_bytes()), tail)
    assert batch.column(0).to_pylist() == [1, None, 3]


@pytest.mark.parametrize(("nanoseconds", "fits"), [(-(10**9), True), (-1, False), (1, True), (None, True)])
def test_a_fraction_before_1970_is_not_written(tmp_path: Path, nanoseconds: int | None, fits: bool) -> None:
    types = parse_hive_type("struct<a:timestamp>")
    if fits:
        assert write(tmp_path / "f", types, nanoseconds).rows == 1
        return
    with pytest.raises(Unfit, match="before 1970"):
        write(tmp_path / "f", types, nanoseconds)
    assert not (tmp_path / "f").exists()


def test_no_rows_are_a_whole_file_too(tmp_path: Path) -> None:
    assert write(tmp_path / "f", NUMBERS).rows == 0


def test_an_impossible_stripe_is_a_bad_file(tmp_path: Path) -> None:
    tail = write(tmp_path / "f", NUMBERS, *range(100))
    (stripe,) = tail.stripes
    data = bytearray((tmp_path / "f").read_bytes())
    data[stripe.offset : stripe.end] = bytes(stripe.end - stripe.offset)
    with pytest.raises(BadFile, match="restore it or move it away"):
        list(arrow_codec.read_batches(BytesSource(bytes(data)), tail))


def _fill(path: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        with arrow_codec.writer(path, like=empty_tail(NUMBERS), types=NUMBERS) as writer:
            for start in range(0, 2_000_000, 50_000):
                numbers = [n * 7919 % 1_000_003 for n in range(start, start + 50_000)]
                writer.write(pa.record_batch([pa.array(numbers, pa.int64())], schema=arrow_codec.schema(NUMBERS)))
    except StorageError as error:
        raise SystemExit(7 if path in str(error) else 8) from None
    raise SystemExit(9)


def test_a_full_disk_raises_an_error_and_does_not_end_the_process(tmp_path: Path) -> None:
    """It raises an error that names the file, and never ends the process."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_fill, args=(str(tmp_path / "file.orc"),))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 7


def test_a_small_file_is_read_at_once_and_a_large_one_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 2.4: at once only if it is one batch anyway; both ways give the same rows, for any columns."""
    types = parse_hive_type("struct<a:bigint,b:string,c:struct<d:int,e:array<string>>>")
    schema = arrow_codec.schema(types)
    values = [[(n, f"text {n}", {"d": n, "e": ["x"] * (n % 3)}) for n in part] for part in (range(5), range(5, 9))]
    path = tmp_path / "f"
    with arrow_codec.ArrowWriter(path, like=empty_tail(types), types=types, stripe_size=1) as writer:
        for part in values:
            columns = [
                pa.array(list(column), kind) for column, kind in zip(zip(*part, strict=True), schema.types, strict=True)
            ]
            writer.write(pa.record_batch(columns, schema=schema))
    source = BytesSource(path.read_bytes())
    tail = read_tail(source)

    def found(**asked: Any) -> tuple[list[int], list[Any]]:
        batches = list(arrow_codec.read_batches(source, tail, **asked))
        return [b.num_rows for b in batches], [row for b in batches for row in b.to_pylist()]

    for columns in (None, (0,), (0, 2), (2, 0)):
        at_once, rows = found(columns=columns)
        assert [list(row) for row in rows] == [[f"f{c}" for c in columns or (0, 1, 2)]] * 9  # as encoders name them
        monkeypatch.setattr(arrow_codec, "SMALL_FILE", 0)
        assert found(columns=columns)[1] == rows
        monkeypatch.undo()
        assert sum(at_once) == 9
    assert [row["f0"] for row in found(stripes=[len(tail.stripes) - 1])[1]] == list(range(9))[-tail.stripes[-1].rows :]
    assert max(found(rows=2)[0]) <= 2
