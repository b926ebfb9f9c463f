"""Copy, re-encode or drop (PROTOCOL 2): decided from statistics if they prove enough, else by looking at the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import acid_types
from compactor.rewrite.full_acid import stripe_choice
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rewrite.full_acid.stripe_choice import (
    Action,
    Choice,
    choose_actions,
    fit_to_class,
    in_order,
    target_tail,
)
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.delete_files import DeleteEvents
from compactor.rows.inputs import Input
from compactor.rows.keys import KeyBlock, Mask, Numbers
from compactor.settings.output_class import OutputClass
from tests.support.acid_files import FIRST_FILE, TYPES, Key, block, dense, write_file
from tests.support.sizes import sized

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(9), aborted=frozenset({WriteId(5)}))
NONE = DeleteEvents.from_blocks(())


def deleting(*keys: Key) -> DeleteEvents:
    return DeleteEvents.from_blocks([(block(keys), np.full(len(keys), 9, dtype=np.int64))])


@contextmanager
def opened(tmp_path: Path, *files: Sequence[Key], current: int | None = None) -> Iterator[list[AcidFile]]:
    inputs = []
    for number, keys in enumerate(files):
        name = f"delta_{number}/bucket_00000"
        write_file(tmp_path / name, keys, current=None if current is None else [current] * len(keys))
        inputs.append(Input(path=name, length=0))
    with ExitStack() as stack:
        yield stack.enter_context(open_files(str(tmp_path), inputs, 0))


def one(files: list[AcidFile], deletes: Deletes = NONE, *, look: bool = False) -> Choice:
    (choice,) = choose_actions(files, deletes, SEEN, look_always=look)
    return choice


@pytest.mark.parametrize("look", [False, True])
def test_a_plain_stripe_is_copied(tmp_path: Path, look: bool) -> None:
    with opened(tmp_path, dense(3, 10)) as files:
        choice = one(files, deleting((3, FIRST_FILE, 10), (4, FIRST_FILE, 0)), look=look)
    assert (choice.action, choice.rows, choice.kept, choice.keep) == (Action.COPY, 10, 10, None)
    assert (choice.first, choice.last) == (dense(3, 10)[0], dense(3, 10)[-1])


def test_known_statistics_spare_the_look(tmp_path: Path) -> None:
    """PROTOCOL 2.1: from known statistics a stripe is copied without being opened: here its rows are garbage."""
    path = write_file(tmp_path / "bucket_00000", dense(3, 1000))
    content = bytearray(path.read_bytes())
    with open_files(str(tmp_path), [Input(path="bucket_00000", length=0)], 0) as (file,):
        stripe = file.tail.stripes[0]
    content[stripe.offset : stripe.end] = bytes(stripe.length)
    path.write_bytes(content)
    with open_files(str(tmp_path), [Input(path="bucket_00000", length=0)], 0) as files:
        assert one(files).action is Action.COPY
        with pytest.raises(Exception, match="bucket_00000"):
            one(files, look=True)


_FEW = sized(short=300, whole=65_536)


@pytest.mark.parametrize(("at_once", "edge"), [(1 << 20, 65_536), (65_536, 65_536), (5, _FEW), (1, _FEW)])
def test_known_statistics_spare_the_look_where_some_rows_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, edge: int
) -> None:
    """PROTOCOL 2.1: they show which rows stay; every key is checked against them as it is decoded."""
    monkeypatch.setattr(stripe_choice, "MASK_ROWS", at_once)
    gone = [(3, FIRST_FILE, row) for row in (0, edge - 1, edge - 1, edge, edge + 99)]
    deletes = deleting(*gone, (3, FIRST_FILE, 80_000), (4, FIRST_FILE, 1))
    with opened(tmp_path, dense(3, edge + 100)) as files:
        seen, unseen = one(files, deletes, look=True), one(files, deletes)
    assert (seen.is_unseen, unseen.is_unseen) == (False, True)
    assert seen.keep is not None
    assert seen.keep.equals(unseen.keep)
    for name in ("action", "rows", "kept", "deleted", "invisible", "first", "last", "is_sorted"):
        assert getattr(seen, name) == getattr(unseen, name)
    assert (unseen.kept, unseen.first, unseen.last) == (edge + 96, (3, FIRST_FILE, 1), (3, FIRST_FILE, edge + 98))


@pytest.mark.parametrize("hit", [range(4), range(0)], ids=["all", "none"])
def test_keys_are_decoded_if_no_row_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hit: range) -> None:
    """PROTOCOL 2.1: nothing else would notice that a stripe is not what its statistics say."""
    looked: list[int] = []
    look = stripe_choice._decode_keys
    monkeypatch.setattr(stripe_choice, "_decode_keys", lambda *args: looked.append(args[1]) or look(*args))
    with opened(tmp_path, dense(3, 4)) as files:
        choice = one(files, Aimed([(3, FIRST_FILE, row) for row in hit]))
    assert (looked, choice.is_unseen, choice.deleted) == ([0], False, len(hit))


class Aimed:
    """Delete events, some of which lie between the given keys, whether or not they hit one."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._events = deleting(*keys) if keys else NONE

    def any_between(self, low: object, high: object) -> bool:
        return True

    def hits(self, keys: KeyBlock) -> Mask:
        return self._events.hits(keys)

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        return self._events.row_ids(first, last)


def test_statistics_that_do_not_cover_every_row_are_ignored(tmp_path: Path) -> None:
    """PROTOCOL 2.1: minors of Hive 2.3 and 3.1 have statistics of 0 rows: the keys are looked at."""
    with opened(tmp_path, dense(5, 4)) as (file,):
        assert file.tail.stripe_statistics is not None
        bare = file._replace(tail=replace(file.tail, stripe_statistics=None))
        assert (one([bare]).action, one([bare]).invisible) == (Action.DROP, 4)


def test_a_hit_within_the_range_is_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path, dense(3, 4)) as files:
        choice = one(files, deleting((3, FIRST_FILE, 2)))
        assert choice.keep is not None
        assert (choice.action, choice.keep.tolist(), choice.deleted) == (Action.ENCODE, [True, True, False, True], 1)
        gone = one(files, deleting(*dense(3, 4)))
    assert (gone.action, gone.kept, gone.deleted, gone.first) == (Action.DROP, 0, 4, None)


def test_masks_take_one_bit_per_row(tmp_path: Path) -> None:
    """PROTOCOL 2.4: memory is bounded; with scattered deletes every stripe of a file has a mask."""
    with opened(tmp_path, dense(3, 80_000)) as files:
        choice = one(files, deleting((3, FIRST_FILE, 70_000)))
    assert choice.keep is not None
    assert (len(choice.keep), choice.keep.false_count) == (80_000, 1)
    assert choice.keep.nbytes == 10_000


def test_an_event_within_the_range_that_hits_nothing_leaves_a_copy(tmp_path: Path) -> None:
    with opened(tmp_path, [(3, FIRST_FILE, 0), (3, FIRST_FILE, 2)]) as files:
        choice = one(files, deleting((3, FIRST_FILE, 1)))
    assert (choice.action, choice.kept, choice.keep) == (Action.COPY, 2, None)


@pytest.mark.parametrize("current", [5, 12])
@pytest.mark.parametrize("has_events", [False, True])
def test_aborted_and_unseen_rows_are_invisible(tmp_path: Path, current: int, has_events: bool) -> None:
    """PROTOCOL 1.1, 2.1."""
    with opened(tmp_path, dense(current, 3)) as files:
        choice = one(files, deleting(*dense(current, 3)) if has_events else NONE)
    assert (choice.action, choice.invisible, choice.deleted) == (Action.DROP, 3, 0)


@pytest.mark.parametrize(
    "keys",
    [
        [(3, FIRST_FILE, 0), (3, FIRST_FILE, 0), (3, FIRST_FILE, 2)],  # max - min + 1 = rows, but the sum does not fit
        [(3, FIRST_FILE, 1), (3, FIRST_FILE, 1)],
        [(4, FIRST_FILE, 0), (3, FIRST_FILE, 0)],
        [(3, FIRST_FILE | 1, 0), (3, FIRST_FILE, 1)],
    ],
)
def test_keys_that_do_not_rise_are_never_copied(tmp_path: Path, keys: list[Key]) -> None:
    """PROTOCOL 2.3: statistics never prove order; the sum reveals a key that occurs twice."""
    with opened(tmp_path, keys) as files:
        choice = one(files)
    assert (choice.action, choice.is_sorted) == (Action.ENCODE, False)
    assert not in_order([choice])


def test_rising_keys_of_several_write_ids_are_copied_after_a_look(tmp_path: Path) -> None:
    with opened(tmp_path, [*dense(3, 2), *dense(4, 2)]) as files:
        assert one(files).action is Action.COPY


def test_originals_are_never_copied(tmp_path: Path) -> None:
    """Their rows need ACID columns."""
    po.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), str(tmp_path / "000000_0"))
    with open_files(str(tmp_path), [Input(path="000000_0", length=0, raw=True, group="originals")], 0) as files:
        choice = one(files, deleting((0, FIRST_FILE, 1)))
        assert choice.keep is not None
        assert (choice.action, choice.keep.tolist()) == (Action.ENCODE, [True, False])
        assert one(files).action is Action.ENCODE


def test_stripes_follow_each_other_or_do_not(tmp_path: Path) -> None:
    with opened(tmp_path, dense(3, 2), dense(4, 2)) as files:
        a, b = choose_actions(files, NONE, SEEN, look_always=False)
    assert in_order([a, b])
    assert not in_order([b, a])
    assert not in_order([a, a])
    assert in_order([a, b._replace(first=None, last=None), b])


def _with_tail(choice: Choice, **changes: object) -> Choice:
    return choice._replace(file=choice.file._replace(tail=replace(choice.file.tail, **changes)))  # type: ignore[arg-type]


def test_the_class_with_most_bytes_is_the_target_and_others_are_encoded(tmp_path: Path) -> None:
    """PROTOCOL 2.2: stripes share a file only if stride and so on are equal."""
    with opened(tmp_path, dense(3, 2), dense(4, 3000), dense(6, 2)) as files:
        small, large, third = choose_actions(files, NONE, SEEN, look_always=False)
    other = _with_tail(small, row_index_stride=500)
    like = target_tail([other, large, third], TYPES)
    assert like is not None
    assert like.stripe_class == large.file.tail.stripe_class
    assert [c.action for c in fit_to_class([other, large, third], like, 0)] == [Action.ENCODE, Action.COPY, Action.COPY]


@pytest.mark.parametrize(
    ("asked", "copied"),
    [
        (OutputClass(block_bytes=256 * 1024), [0, 1]),
        (OutputClass(block_bytes=64 * 1024), [2]),
        (OutputClass(block_bytes=128 * 1024), []),
        (OutputClass(stripe_bytes=1 << 20), []),
        (OutputClass(bloom_filters=("a",)), []),
        (OutputClass(false_positives=0.01), []),
        (OutputClass(avoids=frozenset({"ZSTD"})), [0, 1, 2]),
        (OutputClass(avoids=frozenset({"ZLIB"})), []),
    ],
    ids=str,
)
def test_of_a_class_that_is_asked_for_only_stripes_that_surely_have_it_are_copied(
    tmp_path: Path, asked: OutputClass, copied: list[int]
) -> None:
    with opened(tmp_path, dense(3, 3000), dense(4, 3000), dense(6, 2)) as files:
        *most, last = choose_actions(files, NONE, SEEN, look_always=False)
    placed = [*(_with_tail(c, compression_block_size=256 * 1024) for c in most)]
    placed.append(_with_tail(last, compression_block_size=64 * 1024))
    like = target_tail(placed, TYPES, asked)
    assert (like is None) == (not copied)
    final = fit_to_class(placed, like, 0, asked)
    assert [place for place, c in enumerate(final) if c.action is Action.COPY] == copied


def test_only_what_has_the_types_of_the_output_is_a_target(tmp_path: Path) -> None:
    """PROTOCOL 2.2: equal ORC types."""
    with opened(tmp_path, dense(3, 3000), dense(4, 2)) as files:
        older, newer = choose_actions(files, NONE, SEEN, look_always=False)
    wider = acid_types(parse_hive_type("struct<a:bigint>"))
    assert target_tail([older], wider) is None
    newer = _with_tail(newer, types=wider)
    like = target_tail([older, newer], wider)
    assert like is newer.file.tail
    assert [c.action for c in fit_to_class([older, newer], like, 0)] == [Action.ENCODE, Action.COPY]


@pytest.mark.parametrize(
    "broken",
    [{"row_index_stride": 0}, {"writer_version": 5}, {"stripe_statistics": None}, {"encrypted": True}],
    ids=["no row index", "before ORC-135", "no statistics", "encrypted"],
)
def test_stripes_that_must_not_be_copied_are_no_target_and_are_encoded(
    tmp_path: Path, broken: dict[str, object]
) -> None:
    """PROTOCOL 2.2: no row index, a writer below ORC-135, stripes without statistics."""
    with opened(tmp_path, dense(3, 2)) as files:
        spoilt = _with_tail(one(files), **broken)
    assert target_tail([spoilt], TYPES) is None
    assert [c.action for c in fit_to_class([spoilt], None, 0)] == [Action.ENCODE]


@pytest.mark.parametrize("change", [{"compression": Compression.LZO}, {"file_version": (0, 11)}], ids=["LZO", "0.11"])
def test_a_class_that_cannot_be_written_is_a_target_for_copies_only(tmp_path: Path, change: dict[str, object]) -> None:
    with opened(tmp_path, dense(3, 3000), dense(4, 2)) as files:
        large, small = choose_actions(files, NONE, SEEN, look_always=False)
    strange = _with_tail(large, **change)
    assert target_tail([strange], TYPES) is strange.file.tail
    assert [c.action for c in fit_to_class([strange, strange], strange.file.tail, 1 << 30)] == [Action.COPY] * 2
    assert target_tail([strange, small], TYPES) is small.file.tail
    some_go = strange._replace(action=Action.ENCODE, kept=2999)
    assert target_tail([strange, some_go], TYPES) is None


def test_the_target_has_the_calendar_of_the_oldest_days(tmp_path: Path) -> None:
    """PROTOCOL 2.2: days before 1582 are never moved to another calendar; all others may be."""
    types = acid_types(parse_hive_type("struct<d:date>"))
    with opened(tmp_path, dense(3, 3000), dense(4, 2)) as files:
        large, small = choose_actions(files, NONE, SEEN, look_always=False)

    def dated(choice: Choice, calendar: int, first: int) -> Choice:
        day = messages.ColumnStatistics(number_of_values=choice.rows)
        day.date_statistics.minimum = first
        known = choice.file.tail.stripe_statistics
        assert known is not None
        return _with_tail(choice, types=types, calendar=calendar, stripe_statistics=((*known[0][:-1], day),))

    modern, ancient = dated(large, 1, 0), dated(small, 2, -500_000)
    assert target_tail([modern, ancient], types) is ancient.file.tail
    assert target_tail([modern, dated(small, 2, 0)], types) is modern.file.tail
    assert target_tail([dated(large, 1, -500_000), ancient], types) is None


def test_neighbours_that_are_all_small_are_encoded_together(tmp_path: Path) -> None:
    with opened(tmp_path, dense(3, 2), dense(4, 2), dense(6, 30_000)) as files:
        a, b, large = choose_actions(files, NONE, SEEN, look_always=False)
    like = target_tail([a, b, large], TYPES)
    bound = a.length + 50
    assert large.length > bound
    together = fit_to_class([a, b, large], like, bound)
    assert [c.action for c in together] == [Action.ENCODE, Action.ENCODE, Action.COPY]
    assert [c.is_only_small for c in together] == [True, True, False]
    assert [c.action for c in fit_to_class([a, large, b], like, bound)] == [Action.COPY] * 3
    assert [c.action for c in fit_to_class([a], like, bound)] == [Action.COPY]
    dropped = a._replace(action=Action.DROP, kept=0)
    assert [c.stripe for c in fit_to_class([dropped, large], like, bound)] == [0]
    assert stripe_choice.Action.DROP not in {c.action for c in fit_to_class([dropped, large], like, bound)}


def test_small_stripes_that_cannot_be_encoded_stay(tmp_path: Path) -> None:
    """A union loses its tags in every encoder: tiny stripes of one are copied."""
    types = acid_types(parse_hive_type("struct<a:uniontype<int,string>>"))
    with opened(tmp_path, dense(3, 2), dense(4, 2)) as files:
        a, b = (_with_tail(c, types=types) for c in choose_actions(files, NONE, SEEN, look_always=False))
    assert [c.action for c in fit_to_class([a, b], target_tail([a, b], types), 1 << 20)] == [Action.COPY] * 2
