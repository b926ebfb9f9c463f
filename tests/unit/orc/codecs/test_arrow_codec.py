"""Arrow's adapter alone: values it accepts, values it would lose, and a disk that fills up while it encodes."""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest

from compactor.base.errors import BadFile, StorageError
from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.arrow_codec import push_validity_down
from compactor.orc.codecs.codec import Unfit
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.io.source import BytesSource
from tests.support.patience import PATIENCE

NUMBERS = parse_hive_type("struct<a:bigint>")
ROWS = 600
KINDS = (
    "struct<x:int,y:string>",
    "struct<z:array<int>>",
    "struct<s:struct<x:int,f:float,b:boolean>,d:decimal(9,2)>",
    "struct<m:map<string,struct<x:bigint>>>",
    "array<struct<x:int,y:string>>",
    "array<array<struct<x:smallint>>>",
    "map<string,struct<x:int>>",
    "map<int,array<struct<y:binary>>>",
    "array<map<string,double>>",
)


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


def hidden_values(kind: Any, length: int, chance: random.Random, *, is_key: bool = False) -> Any:
    """Returns an array whose NULLs hide values of their own: the child of a NULL struct, the elements of a NULL list."""
    mask = None if is_key else pa.array([chance.random() < 0.3 for _ in range(length)], pa.bool_())
    if pa.types.is_struct(kind):
        children = [hidden_values(field.type, length, chance) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = [0]
        for _ in range(length):
            offsets.append(offsets[-1] + chance.randrange(4))
        if pa.types.is_map(kind):
            keys = pa.array(range(offsets[-1]), pa.int64()).cast(kind.key_type)
            items = hidden_values(kind.item_type, offsets[-1], chance)
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=mask)
        elements = hidden_values(kind.value_type, offsets[-1], chance)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=kind, mask=mask)
    numbers = pa.array([chance.randrange(100) for _ in range(length)], pa.int64())
    if pa.types.is_binary(kind):
        values = numbers.cast(pa.string()).cast(kind)
    elif pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        values = numbers.cast(pa.int8()).cast(kind)
    else:
        values = numbers.cast(kind)
    return pa.compute.if_else(mask, pa.scalar(None, kind), values)


def arrays_below(array: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each struct or list below ``array`` with each of its children, as they lie in memory."""
    if pa.types.is_struct(array.type):
        children = [array.field(place) for place in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    else:
        children = [array.values] if pa.types.is_list(array.type) else []
    for child in children:
        yield array, child
        yield from arrays_below(child)


def column_type(kind: str) -> Any:
    return arrow_codec.schema(parse_hive_type(f"struct<a:{kind}>")).field(0).type


@pytest.mark.parametrize("kind", KINDS)
def test_children_are_null_where_a_parent_is(kind: str) -> None:
    array = hidden_values(column_type(kind), ROWS, random.Random(kind)).slice(5, ROWS - 9)
    pushed = push_validity_down(array)
    assert pushed.to_pylist() == array.to_pylist()
    assert pushed.type == array.type
    for parent, child in arrays_below(pushed):
        assert child.offset == parent.offset == 0
        if pa.types.is_struct(parent.type):
            assert len(child) == len(parent)
            assert not any(value.is_valid for value in child.filter(parent.is_null()))
        else:
            assert len(child) == sum(len(value) for value in parent.to_pylist() if value is not None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, 2])
def test_a_slice_without_values_stays_one(kind: str, start: int) -> None:
    """All that it shows is NULL, or empty; what lies before it is not."""
    array = hidden_values(column_type(kind), 2, random.Random(kind)).slice(start, 0)
    hidden = pa.concat_arrays([hidden_values(array.type, 3, random.Random(kind)), pa.nulls(2, array.type)])
    for values in (array, hidden.slice(3)):
        assert push_validity_down(values).to_pylist() == values.to_pylist()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB], ids=lambda kind: kind.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_the_values_that_the_array_shows(kind: str, compression: Compression, tmp_path: Path) -> None:
    """Also when the array is sliced, and when stripes are encoded in parts (zlib, above ``BUFFERED_BYTES``)."""
    types = parse_hive_type(f"struct<a:{kind}>")
    array = hidden_values(column_type(kind), ROWS, random.Random(kind)).slice(7)
    batch = pa.record_batch([array], schema=arrow_codec.schema(types))
    like = empty_tail(types, compression=compression)
    with arrow_codec.ArrowWriter(tmp_path / "f", like=like, types=types, stripe_size=2_000) as writer:
        writer._begin(arrow_codec.ZlibEncoder if compression is Compression.ZLIB else arrow_codec.Encoder)
        writer.write(batch)
    with open(tmp_path / "f", "rb") as file:
        rows = [row for (row,) in pyorc.Reader(file)]
    assert list(map(plain, rows)) == list(map(plain, array.to_pylist()))


def plain(value: Any) -> Any:
    """Returns a value without the libraries' types: structs as tuples, maps as lists of pairs."""
    if isinstance(value, dict):
        is_struct = all(isinstance(key, str) and key.isalpha() for key in value) and value
        parts = value.values() if is_struct else value.items()
        return [plain(part) for part in parts]
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value
