"""The fast codec: Arrow's ORC adapter, for rows that it can hold without loss.

The writer passes the NULLs of a struct on to its children, but then writes the values that lie below them: every later
value of the child moves up by one (pyarrow 26). It also reads the validity of a sliced struct at the wrong offset.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_encoder import COMPRESSIONS, Encoder, ZlibEncoder
from compactor.orc.codecs.arrow_types import Array, arrow_type
from compactor.orc.codecs.codec import (
    Unfit,
    column_names,
    decoding_failed,
    name_file_in_errors,
    relabel,
    relabel_batch,
    stripe_bytes,
)
from compactor.orc.codecs.stripe_view import StripeView, batch_rows, joint_file
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types, cached_with_types
from compactor.orc.io.source import Source

name = "arrow"
SECOND = 10**9  #: in nanoseconds
BUFFERED_BYTES = 4 * 1024 * 1024  #: decoded bytes up to which compressing a file in a second pass is not worthwhile
SMALL_FILE = 1024 * 1024  #: bytes up to which a file is read as a whole, if its rows fit into one batch


def schema(types: Types) -> pa.Schema:
    """Returns the Arrow schema of a file's batches."""
    return _schema(types, tuple(range(len(types[0].children))))


@cached_with_types
def _schema(types: Types, places: tuple[int, ...]) -> pa.Schema:
    names, children = column_names(types), types[0].children
    return pa.schema([pa.field(names[place], arrow_type(types, children[place])) for place in places])


@cached_with_types
def inner_schema(types: Types, columns: tuple[int, ...]) -> pa.Schema:
    """Returns the schema of batches of the columns with these ids."""
    return pa.schema([pa.field(f"f{place}", arrow_type(types, column)) for place, column in enumerate(columns)])


def read_batches(
    source: Source,
    tail: Tail,
    *,
    columns: Sequence[int] | None = None,
    stripes: Sequence[int] | None = None,
    rows: int | None = None,
    inner: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``stripes`` (default: all), in batches that bound memory by rows × width.

    With ``inner``, yields only these columns (ids) within the row of an ACID file.

    Raises:
        Unfit: a timestamp does not fit into 64 bits of nanoseconds.
        NotLossless: Arrow has no type equal to a column's.
        BadFile: the stripes cannot be decoded.
    """
    chosen = range(len(tail.stripes)) if stripes is None else stripes
    places = range(len(tail.types[0].children)) if columns is None else columns
    with name_file_in_errors(tail):
        expected_schema = (
            _schema(tail.types, tuple(places)) if inner is None else inner_schema(tail.types, tuple(inner))
        )
    if not any(tail.stripes[number].rows for number in chosen):
        return
    view = StripeView(source, tail, chosen, columns, rows or batch_rows(tail, chosen, columns, inner), inner)
    size = view.rows_at_once
    names = [f"f{place}" for place in (places if inner is None else range(len(inner)))]
    is_small = sum(tail.stripes[number].rows for number in chosen) <= size and view.size <= SMALL_FILE
    try:
        batches = (
            _at_once(view, len(chosen), names)
            if is_small
            else read_in_batches(pa.PythonFile(view, mode="r"), size, names)
        )
        for batch in batches:
            if batch.num_rows:
                yield relabel_batch(batch, expected_schema)
    except pa.ArrowInvalid as error:
        if "timestamp" in str(error):
            raise Unfit(str(error)) from error
        raise decoding_failed(tail, error) from error
    except (pa.ArrowException, OSError) as error:
        raise decoding_failed(tail, error) from error


def read_joint(stripes: Sequence[tuple[Source, Tail, int]]) -> pa.RecordBatch:
    """Returns all rows of small stripes of several files, decoded together.

    See ``stripe_view.joint_file``.

    Raises:
        Unfit, BadFile: as ``read_batches`` does, but without the right file's name; also if the stripes are not small.
    """
    tail = stripes[0][1]
    try:
        reader: Any = po.ORCFile(pa.BufferReader(joint_file(stripes)))
        (batch,) = reader.read().combine_chunks().to_batches()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise decoding_failed(tail, error) from error
    return relabel_batch(batch, schema(tail.types))


def read_in_batches(file: Any, size: int, names: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file, or of its columns ``names``, ``size`` at a time, without any check."""
    # Imports pandas unless it is excluded, which takes longer than the work of most of our processes.
    from pyarrow import dataset

    yield from (
        dataset.OrcFileFormat()
        .make_fragment(file)
        .to_batches(columns=names, batch_size=size, use_threads=False, batch_readahead=0, fragment_readahead=0)
    )


def _at_once(view: StripeView, stripes: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yields one batch per stripe.

    A scan in batches would cost four times as much for rows that fit into one batch.
    """
    reader: Any = po.ORCFile(pa.BufferReader(view.read()))
    for number in range(stripes):
        yield reader.read_stripe(number, columns=names).select(names)


class ArrowWriter:
    """Encodes batches; see ``codec.BatchWriter``."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        like: Tail,
        types: Types,
        stripe_size: int | None = None,
        filtered: Collection[int] = (),
    ) -> None:
        if not types.is_encodable:
            raise Unfit("a type has no equal in Arrow")
        if like.compression not in COMPRESSIONS:
            raise NotSupported(
                f"file {like.name}: compression {like.compression.name} cannot be written here; "
                "set orc.compress of the table to ZLIB or ZSTD and run a major compaction of Hive once"
            )
        self._path, self._like, self._filtered = Path(path), like, filtered
        self._stripe_size = stripe_size or stripe_bytes(like)
        self._schema = schema(types.for_encoders)
        self._has_timestamps = types.has_timestamps
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._encoder: Encoder | ZlibEncoder | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows.

        Raises:
            Unfit: a timestamp before 1970 has a fraction of a second, which Arrow writes with the wrong sign.
        """
        if not batch.num_rows:
            return
        for column in batch.columns if self._has_timestamps else ():
            _check_timestamps(column)
        labelled = relabel_batch(batch, self._schema)
        whole = pa.RecordBatch.from_arrays(list(map(push_validity_down, labelled.columns)), schema=self._schema)
        if self._encoder is not None:
            self._encoder.write(whole)
            return
        self._buffered.append(whole)
        self._buffered_bytes += whole.nbytes
        if self._buffered_bytes > BUFFERED_BYTES:
            self._begin(ZlibEncoder if self._like.compression is Compression.ZLIB else Encoder)

    def _begin(self, kind: type[Encoder | ZlibEncoder]) -> Encoder | ZlibEncoder:
        self._encoder = kind(
            self._path, self._like, self._schema, stripe_size=self._stripe_size, filtered=self._filtered
        )
        for batch in self._buffered or [pa.RecordBatch.from_pylist([], self._schema)]:
            self._encoder.write(batch)
        self._buffered = []
        return self._encoder

    def __enter__(self) -> ArrowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            (self._encoder or self._begin(Encoder)).close()
        elif self._encoder is not None:
            self._encoder.abort()


def writer(path: str | os.PathLike[str], *, like: Tail, types: Types, filtered: Collection[int] = ()) -> ArrowWriter:
    """Returns a writer of ``types`` in the class of ``like``, with bloom filters of ``filtered``."""
    return ArrowWriter(path, like=like, types=types, filtered=filtered)


def _children(array: Array) -> list[Array]:
    if isinstance(array, pa.StructArray):
        return [array.field(place) for place in range(array.type.num_fields)]
    if isinstance(array, pa.MapArray):
        return [array.keys, array.items]
    return [array.values] if isinstance(array, pa.ListArray) else []


def _check_timestamps(array: Array) -> None:
    for values in _timestamps(array):
        if np.any((values < 0) & (values % SECOND != 0)):
            raise Unfit("a timestamp before 1970 with a fraction of a second")


def _timestamps(array: Array) -> Iterator[npt.NDArray[np.int64]]:
    """Yields the nanoseconds of all timestamps at any depth."""
    if pa.types.is_timestamp(array.type):
        yield array.cast(pa.int64()).drop_null().to_numpy()
    for child in _children(array):
        yield from _timestamps(child)


def push_validity_down(array: Array) -> Array:
    """Returns an equal array without offsets whose children are NULL wherever their parent is.

    A struct column ``[NULL, {x: 1}]`` may hold ``[7, 1]`` for ``x``; the result holds ``[NULL, 1]``. A NULL list that
    spans elements becomes one that spans none.
    """
    kind = array.type
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return relabel(push_validity_down(relabel(array, entries)), kind)
    if pa.types.is_list(kind):
        elements = push_validity_down(array.flatten())
        return pa.ListArray.from_arrays(_offsets(array), elements, type=kind, mask=_mask(array))
    if pa.types.is_struct(kind) and kind.num_fields:
        children = [push_validity_down(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))
    return array if array.offset == 0 else array.take(pa.array(np.arange(len(array))))


def _offsets(array: Array) -> Any:
    lengths = array.value_lengths().fill_null(0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _mask(array: Array) -> Array | None:
    return array.is_null() if array.null_count else None
