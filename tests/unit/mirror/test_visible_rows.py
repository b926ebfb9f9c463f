"""The rows of a file that a snapshot sees, as runs of keys."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from compactor.acid.bucket import RowId
from compactor.base.errors import NotLossless, SnapshotExpired
from compactor.base.ids import WriteId
from compactor.mirror import visible_rows
from compactor.mirror.visible_rows import KeyRun, VisibleRows, find_visible_rows, join_runs, open_input
from compactor.storage.local import LocalStorage
from tests.support.acid_files import write_events_mixed
from tests.support.detached import FIRST_FILE, SmallTable


def _visible(small: SmallTable) -> list[VisibleRows]:
    with open_input(small.plan, small.task, small.inputs[-1], LocalStorage()) as file:
        assert file is not None
        return list(find_visible_rows(file, small.plan.write_ids))


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(root=tmp_path / "t", row_type="struct<a:int>")


def test_keys_of_dense_stripes_are_not_read(small: SmallTable) -> None:
    small.write([(n,) for n in range(100)], write_id=4, first=7)
    with patch.object(visible_rows, "stripe_keys", side_effect=AssertionError):
        (stripe,) = _visible(small)
    assert (stripe.keep, stripe.kept, stripe.runs) == (None, 100, (KeyRun(100, 4, FIRST_FILE, 7),))


def test_runs_end_where_keys_do_not_rise_by_one(small: SmallTable) -> None:
    keys = [(1, FIRST_FILE, 0), (1, FIRST_FILE, 1), (1, FIRST_FILE, 3), (1, FIRST_FILE + 1, 4), (2, FIRST_FILE + 1, 5)]
    small.write_keyed(keys, [(0,)] * 5)
    (stripe,) = _visible(small)
    assert [(run.rows, tuple(run.first)) for run in stripe.runs] == [
        (2, keys[0]),
        (1, keys[2]),
        (1, keys[3]),
        (1, keys[4]),
    ]
    assert stripe.keep is None


def test_invisible_rows_are_masked(small: SmallTable) -> None:
    small.aborted = frozenset({2})
    small.write_keyed([(write_id, FIRST_FILE, 0) for write_id in (1, 2, 3)], [(0,)] * 3)
    (stripe,) = _visible(small)
    assert stripe.keep is not None
    assert (stripe.keep.to_pylist(), stripe.kept, stripe.rows) == ([True, False, True], 2, 3)


def test_runs_join_across_stripes() -> None:
    runs = [KeyRun(10, 1, 0, 0), KeyRun(5, 1, 0, 10), KeyRun(5, 1, 0, 20), KeyRun(5, 2, 0, 25), KeyRun(5, 2, 1, 30)]
    assert join_runs(runs) == (KeyRun(15, 1, 0, 0), *runs[2:])
    assert join_runs([]) == ()


def test_runs_have_keys() -> None:
    run = KeyRun(10, 3, FIRST_FILE, 100)
    assert run.first == RowId(WriteId(3), FIRST_FILE, 100)
    assert run.last == RowId(WriteId(3), FIRST_FILE, 109)
    assert KeyRun(1, 3, FIRST_FILE, 110).continues(run)
    assert not KeyRun(1, 3, FIRST_FILE, 111).continues(run)
    assert not KeyRun(1, 4, FIRST_FILE, 110).continues(run)


def test_events_of_hive_2_among_rows_are_refused(small: SmallTable) -> None:
    """They apply to other rows of the same key (docs/before-hive-3.md)."""
    folder = small.root / "delta_0000001_0000001"
    folder.mkdir(parents=True)
    events = [(0, (1, FIRST_FILE, 0), 1), (2, (1, FIRST_FILE, 0), 1)]
    small.add(write_events_mixed(folder / "bucket_00000", events))
    with pytest.raises(NotLossless, match="has update or delete events among its rows"):
        _visible(small)


def test_a_file_that_changed_since_the_listing_is_refused(small: SmallTable) -> None:
    small.write([(1,)])
    small.inputs[-1] = small.inputs[-1]._replace(length=1)
    with pytest.raises(SnapshotExpired, match="bytes, but 1 when it was listed"):
        _visible(small)
