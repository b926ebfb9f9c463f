"""Per stripe: copy its bytes, re-encode its rows, or drop it (PROTOCOL 2).

From statistics that are known and plain a stripe is copied without being opened, or, where delete events aim at some of
its rows, re-encoded without these: each of its keys is then held to the statistics when it is decoded. Anything else is
*looked at*: its key columns are decoded, nothing more.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from compactor.acid import bucket as bucket_codec
from compactor.acid.row_id import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.ids import WriteId
from compactor.orc.compat import copyable, one_calendar, writable
from compactor.orc.format.tail import KeyStatistics, StripeClass, Tail, key_statistics
from compactor.orc.format.types import Array, Types, same
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rows.acid_file import AcidFile, Keys, keys, must_insert
from compactor.rows.keys import INSERT, Mask, is_sorted, row_id_at, valid_mask

MASK_ROWS = 1 << 20  #: that are judged at once


class Action(enum.Enum):
    COPY = "copy"
    ENCODE = "encode"
    DROP = "drop"


class Choice(NamedTuple):
    """One stripe's fate. ``keep`` marks the rows that stay, None for all; ``first`` and ``last`` are keys of those.

    ``keep`` has a bit for each row: those of all stripes are held at once, so bytes would be felt.
    """

    file: AcidFile
    stripe: int
    action: Action
    rows: int
    kept: int
    deleted: int = 0
    invisible: int = 0
    keep: Array | None = None
    first: RowId | None = None
    last: RowId | None = None
    is_sorted: bool = True
    as_inserts: bool = False  #: Hive 2's update events become the insert events of its base
    is_only_small: bool = False  #: encoded for the readers' sake; its bytes could be copied as well
    is_unseen: bool = False  #: ``keep`` was made from statistics, and nothing was decoded

    @property
    def length(self) -> int:
        return self.file.tail.stripes[self.stripe].length


#: Which of a file's rows are gone where more than delete events decides it. Rows that the snapshot doesn't see are
#: left out anyway.
Gone: TypeAlias = Callable[[AcidFile, Keys], Mask]


def choose(
    files: Iterable[AcidFile],
    deletes: Deletes,
    write_ids: ValidWriteIdList,
    *,
    look_always: bool,
    gone: Gone | None = None,
) -> list[Choice]:
    """The fate of every stripe, as far as its rows go; ``fit`` then decides which classes may share a file.

    Args:
        gone: judges Hive 2's files, in which update and delete events stand between rows; what stays of them becomes
            inserts. ``deletes`` are then the keys that more than one event may have.
    """
    return [
        _choose(file, stripe, deletes, write_ids, look_always, gone)
        for file in files
        for stripe in range(len(file.tail.stripes))
        if file.tail.stripes[stripe].rows
    ]


def _choose(
    file: AcidFile, stripe: int, deletes: Deletes, write_ids: ValidWriteIdList, look_always: bool, gone: Gone | None
) -> Choice:
    if not file.is_raw and not look_always:
        statistics = key_statistics(file.tail, stripe)
        if statistics is not None and (known := _from_statistics(file, stripe, statistics, deletes, write_ids, gone)):
            return known
    return _look(file, stripe, deletes, write_ids, gone)


def _from_statistics(
    file: AcidFile,
    stripe: int,
    s: KeyStatistics,
    deletes: Deletes,
    write_ids: ValidWriteIdList,
    gone: Gone | None,
) -> Choice | None:
    """A copy, where statistics prove that every row is a visible insert in dense order and none is deleted; what stays,
    where some are; else None.

    Dense: one write ID, one bucket property, ``max - min + 1`` row numbers whose sum fits, so that none occurs twice;
    order within is then that of the ACID format (PROTOCOL 2.3).
    """
    rows = file.tail.stripes[stripe].rows
    write_id, current = s.original_transaction.minimum, s.current_transaction.minimum
    if any(r.minimum != r.maximum for r in (s.operation, s.original_transaction, s.bucket, s.current_transaction)):
        return None
    if s.operation.minimum != INSERT or not bucket_codec.is_known(s.bucket.minimum):
        return None
    low, high = s.row_id.minimum, s.row_id.maximum
    if high - low + 1 != rows or s.row_id.total != (low + high) * rows // 2:
        return None
    first = RowId(WriteId(write_id), s.bucket.minimum, low)
    last = RowId(WriteId(write_id), s.bucket.minimum, high)
    if not write_ids.is_valid(WriteId(current)):
        return None
    if not deletes.any_between(first, last):
        return Choice(file=file, stripe=stripe, action=Action.COPY, rows=rows, kept=rows, first=first, last=last)
    return _without(file, stripe, first, rows, deletes) if gone is None else None


def _without(file: AcidFile, stripe: int, first: RowId, rows: int, deletes: Deletes) -> Choice | None:
    """What stays of rows whose keys are dense from ``first`` on; None where that is all or nothing, so that no key would
    be decoded any more."""
    masks: list[Array] = []
    kept, ends = 0, [first, first]
    for start in range(0, rows, MASK_ROWS):
        low = first._replace(row_id=first.row_id + start)
        count = min(MASK_ROWS, rows - start)
        mask = np.ones(count, dtype=np.bool_)
        mask[deletes.row_ids(low, low._replace(row_id=low.row_id + count - 1)) - low.row_id] = False
        masks.append(pa.array(mask))
        if mask.any():
            if not kept:
                ends[0] = low._replace(row_id=low.row_id + int(mask.argmax()))
            ends[1] = low._replace(row_id=low.row_id + count - 1 - int(mask[::-1].argmax()))
            kept += int(np.count_nonzero(mask))
    if kept in (0, rows):
        return None
    return Choice(
        file=file,
        stripe=stripe,
        action=Action.ENCODE,
        rows=rows,
        kept=kept,
        deleted=rows - kept,
        keep=pa.concat_arrays(masks),
        first=ends[0],
        last=ends[1],
        is_unseen=True,
    )


def _look(file: AcidFile, stripe: int, deletes: Deletes, write_ids: ValidWriteIdList, gone: Gone | None) -> Choice:
    rows = file.tail.stripes[stripe].rows
    masks: list[Array] = []
    first: RowId | None = None
    last: RowId | None = None
    in_order = all_inserts = True
    invisible = deleted = 0
    for found in keys(file, stripe):
        valid = valid_mask(write_ids, found.current)
        hit = (deletes.hits(must_insert(file, found).block) if gone is None else gone(file, found)) & valid
        keep = valid & ~hit
        all_inserts = all_inserts and (gone is None or not np.any(found.operation[keep] != INSERT))
        invisible += int(np.count_nonzero(~valid))
        deleted += int(np.count_nonzero(hit))
        masks.append(pa.array(keep))
        block = found.block[keep]
        if len(block):
            begins = row_id_at(block, 0)
            in_order = in_order and is_sorted(block) and (last is None or last < begins)
            first = first if first is not None else begins
            last = row_id_at(block, len(block) - 1)
    kept = rows - invisible - deleted
    whole = kept == rows
    copies = whole and all_inserts and in_order and not file.is_raw
    action = Action.DROP if kept == 0 else Action.COPY if copies else Action.ENCODE
    return Choice(
        file=file,
        stripe=stripe,
        action=action,
        rows=rows,
        kept=kept,
        deleted=deleted,
        invisible=invisible,
        keep=None if whole else pa.concat_arrays(masks),
        first=first,
        last=last,
        is_sorted=in_order,
        as_inserts=gone is not None,
    )


def in_order(choices: Sequence[Choice]) -> bool:
    """Whether the kept rows rise strictly from the first stripe to the last, so that they can be strung together."""
    last: RowId | None = None
    for choice in choices:
        if choice.first is None:
            continue
        if not choice.is_sorted or (last is not None and choice.first <= last):
            return False
        last = choice.last
    return True


def target_tail(choices: Sequence[Choice], types: Types) -> Tail | None:
    """A file whose class the output gets, so that stripes of that class are copied; None if no stripe is.

    It is of the class with the most bytes, of those that all other stripes can be re-encoded to: days before 1582 stay
    in the calendar that they have, and what has to be encoded needs a codec that can write it.
    """
    bytes_of: dict[StripeClass, int] = defaultdict(int)
    tails: dict[StripeClass, Tail] = {}
    for choice in choices:
        tail = choice.file.tail
        if choice.action is Action.COPY and copyable(tail) and same(tail.types, types):
            found = tail.stripe_class
            bytes_of[found] += choice.length
            tails.setdefault(found, tail)
    by_bytes = sorted(tails, key=lambda c: bytes_of[c], reverse=True)
    return next((tails[c] for c in by_bytes if _all_fit(choices, tails[c])), None)


def _all_fit(choices: Iterable[Choice], like: Tail) -> bool:
    wanted = like.stripe_class
    others = [c for c in choices if c.action is not Action.DROP and not _can_copy(c, wanted)]
    return not others or (writable(like) and all(one_calendar(c.file.tail, like) for c in others))


def fit(choices: Sequence[Choice], like: Tail | None, small_stripe_bytes: int) -> list[Choice]:
    """The final fate: stripes of another class than ``like`` are re-encoded to it, and so are neighbours that are
    all small: a file of many tiny stripes would read slowly for ever."""
    wanted = None if like is None else like.stripe_class
    placed = [
        choice if choice.action is Action.ENCODE or _can_copy(choice, wanted) else choice._replace(action=Action.ENCODE)
        for choice in choices
        if choice.action is not Action.DROP
    ]
    if like is None or not writable(like) or not like.types.is_encodable:
        return placed
    small = [choice.length < small_stripe_bytes for choice in placed]
    return [
        choice._replace(action=Action.ENCODE, is_only_small=True)
        if choice.action is Action.COPY and here and (before or after)
        else choice
        for choice, before, here, after in zip(placed, [False, *small], small, [*small[1:], False], strict=False)
    ]


def _can_copy(choice: Choice, wanted: StripeClass | None) -> bool:
    tail = choice.file.tail
    return choice.action is Action.COPY and copyable(tail) and tail.stripe_class == wanted
