"""Copy, re-encode or drop (PROTOCOL 2): decided from statistics where they prove enough, else by looking at the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.ids import WriteId
from compactor.orc.compat import stripe_class
from compactor.rewrite import stripe_choice
from compactor.rewrite.stripe_choice import Action, Choice, choose, fit, in_order, target_class
from compactor.rows.acid_file import AcidFile, open_files
from compactor.rows.deletes import DeleteEvents
from compactor.rows.inputs import Input
from tests.support.acid_files import FIRST_FILE, Key, block, dense, write_file

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(9), aborted=frozenset({WriteId(5)}))
NONE = DeleteEvents.of(())


def deleting(*keys: Key) -> DeleteEvents:
    return DeleteEvents.of([(block(keys), np.full(len(keys), 9, dtype=np.int64))])


@contextmanager
def opened(tmp_path: Path, *files: Sequence[Key], current: int | None = None) -> Iterator[list[AcidFile]]:
    inputs = []
    for number, keys in enumerate(files):
        name = f"delta_{number}/bucket_00000"
        write_file(tmp_path / name, keys, current=None if current is None else [current] * len(keys))
        inputs.append(Input(path=name, length=0))
    with ExitStack() as stack:
        yield stack.enter_context(open_files(str(tmp_path), inputs, 0))


def one(files: list[AcidFile], deletes: DeleteEvents = NONE, *, look: bool = False) -> Choice:
    (choice,) = choose(files, deletes, SEEN, look_always=look)
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


def test_statistics_that_do_not_cover_every_row_count_for_nothing(tmp_path: Path) -> None:
    """PROTOCOL 2.1: minors of Hive 2.3 and 3.1 have statistics that say 0 rows: the keys are looked at."""
    with opened(tmp_path, dense(5, 4)) as (file,):
        assert file.tail.stripe_statistics is not None
        bare = replace(file, tail=replace(file.tail, stripe_statistics=None))
        assert (one([bare]).action, one([bare]).invisible) == (Action.DROP, 4)


def test_a_hit_within_the_range_is_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path, dense(3, 4)) as files:
        choice = one(files, deleting((3, FIRST_FILE, 2)))
        assert choice.keep is not None
        assert (choice.action, choice.keep.tolist(), choice.deleted) == (Action.ENCODE, [True, True, False, True], 1)
        gone = one(files, deleting(*dense(3, 4)))
    assert (gone.action, gone.kept, gone.deleted, gone.first) == (Action.DROP, 0, 4, None)


def test_an_event_within_the_range_that_hits_nothing_leaves_a_copy(tmp_path: Path) -> None:
    with opened(tmp_path, [(3, FIRST_FILE, 0), (3, FIRST_FILE, 2)]) as files:
        choice = one(files, deleting((3, FIRST_FILE, 1)))
    assert (choice.action, choice.kept, choice.keep) == (Action.COPY, 2, None)


@pytest.mark.parametrize("current", [5, 12])
def test_aborted_and_unseen_rows_are_invisible(tmp_path: Path, current: int) -> None:
    """PROTOCOL 1.1."""
    with opened(tmp_path, dense(current, 3)) as files:
        choice = one(files, deleting(*dense(current, 3)))
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
    """PROTOCOL 2.3: statistics never prove order; a key that occurs twice is found by the sum."""
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
        a, b = choose(files, NONE, SEEN, look_always=False)
    assert in_order([a, b])
    assert not in_order([b, a])
    assert not in_order([a, a])
    assert in_order([a, replace(b, first=None, last=None), b])


def test_the_class_with_most_bytes_is_the_target_and_others_are_encoded(tmp_path: Path) -> None:
    """PROTOCOL 2.2: stripes share a file only with the same stride and so on."""
    with opened(tmp_path, dense(3, 2), dense(4, 3000), dense(6, 2)) as files:
        small, large, third = choose(files, NONE, SEEN, look_always=False)
    other = replace(small, file=replace(small.file, tail=replace(small.file.tail, row_index_stride=500)))
    target = target_class([other, large, third])
    assert target == stripe_class(large.file.tail)
    assert [c.action for c in fit([other, large, third], target, 0)] == [Action.ENCODE, Action.COPY, Action.COPY]


@pytest.mark.parametrize("broken", [{"row_index_stride": 0}, {"writer_version": 5}, {"stripe_statistics": None}])
def test_what_must_not_be_copied_is_no_target_and_is_encoded(tmp_path: Path, broken: dict[str, int | None]) -> None:
    """PROTOCOL 2.2: no row index, a writer below ORC-135, no statistics of each stripe."""
    with opened(tmp_path, dense(3, 2)) as files:
        choice = one(files)
    spoilt = replace(choice, file=replace(choice.file, tail=replace(choice.file.tail, **broken)))  # type: ignore[arg-type]
    assert target_class([spoilt]) is None
    assert [c.action for c in fit([spoilt], None, 0)] == [Action.ENCODE]


def test_neighbours_that_are_all_small_are_encoded_together(tmp_path: Path) -> None:
    with opened(tmp_path, dense(3, 2), dense(4, 2), dense(6, 30_000)) as files:
        a, b, large = choose(files, NONE, SEEN, look_always=False)
    target = target_class([a, b, large])
    bound = a.length + 50
    assert large.length > bound
    assert [c.action for c in fit([a, b, large], target, bound)] == [Action.ENCODE, Action.ENCODE, Action.COPY]
    assert [c.action for c in fit([a, large, b], target, bound)] == [Action.COPY] * 3
    assert [c.action for c in fit([a], target, bound)] == [Action.COPY]
    dropped = replace(a, action=Action.DROP, kept=0)
    assert [c.stripe for c in fit([dropped, large], target, bound)] == [0]
    assert stripe_choice.Action.DROP not in {c.action for c in fit([dropped, large], target, bound)}
