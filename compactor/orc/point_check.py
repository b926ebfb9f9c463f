"""Checks that a file answers point predicates correctly by its indexes and statistics (PROTOCOL 4)."""

from __future__ import annotations

from collections.abc import Sequence

import pyorc
from pyorc.predicates import PredicateColumn

from compactor.acid.bucket import RowId
from compactor.base.errors import BadFile, VerificationFailed
from compactor.orc.codecs.codec import decoding_failed
from compactor.orc.codecs.stripe_view import UtcFile
from compactor.orc.format.stripe_footer import filter_streams, read_stripe_footer
from compactor.orc.format.tail import FilterStream, Tail
from compactor.orc.io.source import Readable, Source, SourceFile


def check_points(source: Source, tail: Tail, last_keys: Sequence[RowId]) -> None:
    """Looks up the last row of each stripe of an ACID file by its key, like a reader with a predicate.

    ``last_keys`` are those of the key index. They come from the inputs, so the file is not judged by its own statistics.
    With a wrong row index or wrong statistics, readers skip existing rows, which no count reveals.

    Raises:
        VerificationFailed: a row is not found by its key, or the numbers of keys and stripes differ.
        BadFile: the file cannot be decoded.
    """
    if len(last_keys) != len(tail.stripes):
        raise VerificationFailed(
            f"file {tail.name}: {len(last_keys)} last keys for {len(tail.stripes)} stripes, expected one for each; "
            "nothing was published"
        )
    for number, key in enumerate(last_keys):
        try:
            is_found = _is_found(SourceFile(source, tail.length), tail, key)
        except BadFile:  # perhaps only Java knows its writer's zone
            is_found = _is_found(UtcFile(source, tail, range(len(tail.stripes))), tail, key)
        if not is_found:
            raise VerificationFailed(
                f"file {tail.name}: row {tuple(key)} of stripe {number} is not found by its key; its row index or its "
                "statistics are wrong, nothing was published"
            )


def check_filters(source: Source, tail: Tail) -> None:
    """Checks that every stripe has bloom filters of the same columns, kinds and encodings.

    If a stripe lacks a filter, ORC 1.5 looks its rows up in the filter of the stripe before, and loses them.

    Raises:
        VerificationFailed: two stripes differ.
        BadFile: the footer of a stripe cannot be read.
    """
    first: frozenset[FilterStream] | None = None
    for number in range(len(tail.stripes)):
        own = filter_streams(read_stripe_footer(source, tail, number))
        if first is None:
            first = own
        if own != first:
            columns = sorted({stream.column for stream in own ^ first})
            raise VerificationFailed(
                f"file {tail.name}: the bloom filters of columns {columns} in stripe {number} are not those of the first "
                "stripe; nothing was published, please report this"
            )


def _is_found(file: Readable, tail: Tail, key: RowId) -> bool:
    names = tail.types[0].field_names
    predicate = PredicateColumn(pyorc.TypeKind.LONG, name=names[3]) == key.row_id
    predicate &= PredicateColumn(pyorc.TypeKind.LONG, name=names[1]) == key.write_id
    try:
        reader = pyorc.Reader(file, column_indices=[1, 2, 3], predicate=predicate)
        return tuple(key) in reader
    except (pyorc.errors.ORCError, ValueError, OSError) as error:
        raise decoding_failed(tail, error) from error
