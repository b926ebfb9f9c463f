"""Proves an output file before anything is named (PROTOCOL 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from compactor.acid.row_id import RowId
from compactor.base.errors import VerificationFailed
from compactor.orc.format.acid_metadata import KEY_INDEX, key_index
from compactor.orc.format.stripe_footer import check_key_index, read_stripe_footer
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.file_pool import FilePool
from compactor.orc.io.source import LocalSource, Source
from compactor.orc.last_keys import read_keys
from compactor.orc.point_check import check_filters, check_points
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rows.keys import KeyBlock, is_sorted, keys_of_events


def verify_file(path: str, last_keys: Sequence[RowId], *, rows: int, full: bool, deletes: Deletes | None) -> Tail:
    """Checks the file at ``path``; see ``verify_source``."""
    with FilePool() as few:
        return verify_source(few.open(partial(LocalSource, path)), last_keys, rows=rows, full=full, deletes=deletes)


def verify_source(
    source: Source, last_keys: Sequence[RowId], *, rows: int, full: bool, deletes: Deletes | None
) -> Tail:
    """Checks that a file holds ``rows`` rows in stripes that end with ``last_keys``, and returns its tail.

    A count alone would accept broken files. So the last key of each stripe is looked up through the stripe's statistics
    and row index, as a reader does it.

    Args:
        full: also decode every key, and check that they rise strictly and that no deleted key is among them.
        deletes: None if keys alone do not decide which rows are deleted.

    Raises:
        VerificationFailed: a check fails.
        BadFile: the file cannot be read, or rows in it cannot be looked up.
    """
    tail = read_tail(source)
    if tail.rows != rows or len(tail.stripes) != len(last_keys):
        raise VerificationFailed(
            f"{source.name}: {tail.rows} rows in {len(tail.stripes)} stripes, expected {rows} in {len(last_keys)}; nothing "
            "was changed, please report this"
        )
    if tail.user_metadata.get(KEY_INDEX) != key_index(last_keys):
        raise VerificationFailed(f"{source.name}: its key index is not that of its stripes; nothing was changed")
    _check_indexes(source, tail)
    check_filters(source, tail)
    check_points(source, tail, last_keys)
    if full:
        _check_keys(source, tail, deletes)
    return tail


def _check_indexes(source: Source, tail: Tail) -> None:
    """Checks that all stripes have statistics and row indexes that agree, so readers can look up rows."""
    if not tail.complete_statistics:
        raise VerificationFailed(f"{tail.name}: not every stripe has statistics of its rows; nothing was changed")
    for stripe in range(len(tail.stripes)):
        check_key_index(source, tail, stripe, read_stripe_footer(source, tail, stripe))


def _check_keys(source: Source, tail: Tail, deletes: Deletes | None) -> None:
    before: KeyBlock | None = None
    for stripe in range(len(tail.stripes)):
        for batch in read_keys(source, tail, stripe):
            block = keys_of_events(batch)
            whole = block if before is None else np.concatenate([before, block])
            if not is_sorted(whole) or (deletes is not None and deletes.hits(block).any()):
                raise VerificationFailed(
                    f"{tail.name}, stripe {stripe}: its keys do not rise strictly, or a deleted row is among them; nothing "
                    "was changed, please report this"
                )
            before = block[-1:]
