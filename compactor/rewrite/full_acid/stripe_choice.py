"""Decides for each stripe: copy its bytes, re-encode its rows, or drop it (PROTOCOL 2).

If the statistics of a stripe are known and plain, it is copied without being opened. If delete events aim at some of its
rows, it is re-encoded without these; its keys are compared with the statistics while they are decoded. Of any other
stripe the key columns are decoded first, and nothing more.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from compactor.acid import bucket as bucket_codec
from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.compression import Compression
from compactor.orc.format.tail import KeyStatistics, StripeClass, Tail, key_statistics
from compactor.orc.format.types import Types, same_shape
from compactor.orc.stripe_compatibility import calendars_agree, is_copyable, is_writable
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rows.acid_file import AcidFile, Keys, check_only_rows, stripe_keys
from compactor.rows.keys import INSERT, Mask, is_sorted, row_id_at, valid_mask
from compactor.settings.output_class import OutputClass

MASK_ROWS = 1 << 20  #: rows that are judged at once


class Action(enum.Enum):
    COPY = "copy"
    ENCODE = "encode"
    DROP = "drop"


class Choice(NamedTuple):
    """The action for one stripe. ``first`` and ``last`` are the outer keys of the kept rows.

    ``keep`` marks the kept rows; None keeps all. It has one bit per row, because the masks of all stripes are in memory at
    once.
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
    is_only_small: bool = False  #: encoded only to spare readers tiny stripes; its bytes could be copied
    is_unseen: bool = False  #: ``keep`` follows from statistics; nothing was decoded
    to_zone: str | None = None  #: the zone in which its times will count; None for the zone that it names

    @property
    def length(self) -> int:
        return self.file.tail.stripes[self.stripe].length


#: Marks the rows of a file that are superseded, if more than delete events decides that. Rows that the snapshot does not
#: see are dropped in any case.
SupersededRows: TypeAlias = Callable[[AcidFile, Keys], Mask]


def choose_actions(
    files: Iterable[AcidFile],
    deletes: Deletes,
    write_ids: ValidWriteIdList,
    *,
    look_always: bool,
    superseded: SupersededRows | None = None,
) -> list[Choice]:
    """Chooses the action for every stripe by its rows. ``fit_to_class`` then considers the output's class.

    Args:
        superseded: judges Hive 2's files, in which update and delete events lie between rows. The kept rows become
            inserts. ``deletes`` then holds the keys that more than one event may have.
    """
    return [
        choose_action(file, stripe, deletes, write_ids, look_always, superseded)
        for file in files
        for stripe in range(len(file.tail.stripes))
        if file.tail.stripes[stripe].rows
    ]


def choose_action(
    file: AcidFile,
    stripe: int,
    deletes: Deletes,
    write_ids: ValidWriteIdList,
    look_always: bool,
    superseded: SupersededRows | None,
) -> Choice:
    """Chooses the action for one stripe; see ``choose_actions``."""
    if not file.is_raw and not look_always:
        statistics = key_statistics(file.tail, stripe)
        if statistics is not None and (
            known := _from_statistics(file, stripe, statistics, deletes, write_ids, superseded)
        ):
            return known
    return _decode_keys(file, stripe, deletes, write_ids, superseded)


def _from_statistics(
    file: AcidFile,
    stripe: int,
    statistics: KeyStatistics,
    deletes: Deletes,
    write_ids: ValidWriteIdList,
    superseded: SupersededRows | None,
) -> Choice | None:
    """Returns a choice if statistics prove that all rows are visible inserts in dense order.

    Otherwise None.

    The stripe is copied if no row is deleted, and re-encoded if some are.
    """
    rows = file.tail.stripes[stripe].rows
    first = dense_start(statistics, rows)
    if first is None:
        return None
    last, current = first._replace(row_id=first.row_id + rows - 1), statistics.current_transaction.minimum
    if not write_ids.is_valid(WriteId(current)):
        return None
    if not deletes.any_between(first, last):
        return Choice(file=file, stripe=stripe, action=Action.COPY, rows=rows, kept=rows, first=first, last=last)
    return _without_deleted(file, stripe, first, rows, deletes) if superseded is None else None


def dense_start(statistics: KeyStatistics, rows: int) -> RowId | None:
    """Returns the first key of a stripe if statistics prove that its rows are inserts in dense order.

    Otherwise None.

    Dense means: one write ID, one bucket property, and ``max - min + 1`` row numbers whose sum fits, so that none occurs
    twice. The ACID format then fixes their order (PROTOCOL 2.3).
    """
    operation, write_id, bucket, current = (
        statistics.operation,
        statistics.original_transaction,
        statistics.bucket,
        statistics.current_transaction,
    )
    if not (operation.is_one and write_id.is_one and bucket.is_one and current.is_one):
        return None
    if operation.minimum != INSERT or not bucket_codec.is_known(bucket.minimum):
        return None
    low, high, total = statistics.row_id
    if high - low + 1 != rows or total != (low + high) * rows // 2:
        return None
    return RowId(WriteId(write_id.minimum), bucket.minimum, low)


def _without_deleted(file: AcidFile, stripe: int, first: RowId, rows: int, deletes: Deletes) -> Choice | None:
    """Returns the choice to keep the undeleted rows of a stripe whose keys are dense from ``first`` on.

    Returns None if all or none are deleted, because then no key would be decoded and checked later.
    """
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


def _decode_keys(
    file: AcidFile, stripe: int, deletes: Deletes, write_ids: ValidWriteIdList, superseded: SupersededRows | None
) -> Choice:
    rows = file.tail.stripes[stripe].rows
    masks: list[Array] = []
    first: RowId | None = None
    last: RowId | None = None
    in_order = all_inserts = True
    invisible = deleted = 0
    for keys in stripe_keys(file, stripe):
        valid = valid_mask(write_ids, keys.current)
        hit = (
            deletes.hits(check_only_rows(file, keys).block) if superseded is None else superseded(file, keys)
        ) & valid
        keep = valid & ~hit
        all_inserts = all_inserts and (superseded is None or not np.any(keys.operation[keep] != INSERT))
        invisible += int(np.count_nonzero(~valid))
        deleted += int(np.count_nonzero(hit))
        masks.append(pa.array(keep))
        block = keys.block[keep]
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
        as_inserts=superseded is not None,
    )


def in_order(choices: Sequence[Choice]) -> bool:
    """Returns true if the keys of kept rows rise strictly, so that stripes can be concatenated."""
    last: RowId | None = None
    for choice in choices:
        if choice.first is None:
            continue
        if not choice.is_sorted or (last is not None and choice.first <= last):
            return False
        last = choice.last
    return True


def target_tail(choices: Sequence[Choice], types: Types, output_class: OutputClass | None = None) -> Tail | None:
    """Returns the tail of a file whose class the output gets, so that its stripes are copied.

    Returns None if none can be.

    Only files that fit ``output_class`` count. Among the classes to which all other stripes can be re-encoded, the one
    with the most bytes wins. Days before 1582 stay in their calendar, and a codec must be able to write the class.
    """
    bytes_of: dict[StripeClass, int] = defaultdict(int)
    tails: dict[StripeClass, Tail] = {}
    classes = [_class_to_copy(choice, types, output_class) for choice in choices]
    for stripe_class, run in groupby(
        zip(classes, choices, strict=True), key=itemgetter(0)
    ):  # hashing a class takes long
        if stripe_class is not None:
            of_class = [choice for _, choice in run]
            bytes_of[stripe_class] += sum([choice.length for choice in of_class])
            tails.setdefault(stripe_class, of_class[0].file.tail)
    by_bytes = sorted(tails, key=lambda c: bytes_of[c], reverse=True)
    return next((tails[c] for c in by_bytes if _all_fit(choices, classes, tails[c])), None)


def _class_to_copy(choice: Choice, types: Types, output_class: OutputClass | None) -> StripeClass | None:
    """Returns the class of a stripe that may be copied; None if it can never be copied."""
    tail = choice.file.tail
    copies = choice.action is Action.COPY and _has_class(tail, output_class) and is_copyable(tail)
    return tail.stripe_class if copies and same_shape(tail.types, types) else None


def _has_class(tail: Tail, output_class: OutputClass | None) -> bool:
    return output_class is None or (
        not output_class.is_of_every_stripe
        and output_class.compression in (None, tail.compression.name)
        and tail.compression.name not in output_class.avoids
        and output_class.row_index_stride in (None, tail.row_index_stride)
        and (output_class.block_bytes in (None, tail.compression_block_size) or tail.compression is Compression.NONE)
    )


def _all_fit(choices: Sequence[Choice], classes: Sequence[StripeClass | None], like: Tail) -> bool:
    mine = like.stripe_class
    others = [c for c, own in zip(choices, classes, strict=True) if own != mine and c.action is not Action.DROP]
    return not others or (is_writable(like) and all(calendars_agree(c.file.tail, like) for c in others))


def fit_to_class(
    choices: Sequence[Choice], like: Tail | None, small_stripe_bytes: int, output_class: OutputClass | None = None
) -> list[Choice]:
    """Returns the final choices for an output of the class of ``like``, without dropped stripes.

    Stripes of another class are re-encoded. So are neighbours that are all small, because a file of many tiny stripes is
    slow to read.
    """
    placed = [
        choice
        if choice.action is Action.ENCODE or _can_copy(choice, like, output_class)
        else choice._replace(action=Action.ENCODE)
        for choice in choices
        if choice.action is not Action.DROP
    ]
    if like is None or not is_writable(like) or not like.types.is_encodable:
        return placed
    small = [choice.length < small_stripe_bytes for choice in placed]
    return [
        choice._replace(action=Action.ENCODE, is_only_small=True)
        if choice.action is Action.COPY and here and (before or after)
        else choice
        for choice, before, here, after in zip(placed, [False, *small], small, [*small[1:], False], strict=False)
    ]


def _can_copy(choice: Choice, like: Tail | None, output_class: OutputClass | None) -> bool:
    tail = choice.file.tail
    if like is None or choice.action is not Action.COPY or not is_copyable(tail):
        return False
    return tail.stripe_class == like.stripe_class and _has_class(tail, output_class)
