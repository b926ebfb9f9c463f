from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given

from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import find_columns
from compactor.tables.filters.outcomes import find_outcomes
from compactor.tables.filters.pruning import FilePruner
from tests.support import scanned
from tests.support.filters import Filter, filters
from tests.unit.tables.filters.test_evaluation import SCHEMA

ROWS = scanned.rows(3000)
ROW_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in scanned.COLUMNS.items())}>"


@pytest.fixture(scope="module")
def source() -> Iterator[LocalSource]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, ROWS, 1, 0, ("i", "s", "d"))
        with LocalSource(path) as opened:
            yield opened


def pruner(source: LocalSource, text: str) -> FilePruner:
    condition = bind(text, SCHEMA, ["c"])
    tail = read_tail(source)
    ids = {name: 7 + place for place, name in enumerate(scanned.COLUMNS)}
    columns = {name: (column, ids[name]) for name, column in find_columns(condition).items()}
    return FilePruner(source=source, tail=tail, condition=condition, constants={}, columns=columns)


@given(one=filters())
def test_nothing_that_matches_is_left_out(source: LocalSource, one: Filter) -> None:
    """Whatever the filter, statistics and bloom filters leave out only rows for which the slow model says no."""
    found = pruner(source, one.text)
    begin = 0
    for number, stripe in enumerate(found.tail.stripes):
        meanings = [one.meaning(row) for row in ROWS[begin : begin + stripe.rows]]
        begin += stripe.rows
        assert set(meanings) <= found.of_stripe(number), one.text
        groups = found.groups(number)
        if groups is None:
            continue
        for group, kept in enumerate(groups):
            part = meanings[group * scanned.STRIDE : (group + 1) * scanned.STRIDE]
            assert kept or True not in part, one.text


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("i = 500", 1),
        ("i > 990", 1),
        ("s = 'key 0123'", 1),
        ("s like 'key 012%'", 1),
        ("s = 'key 0123x'", 0),
        ("s in ('key 0123x', 'key 0124x')", 0),
        ("d between '2026-01-20' and '2026-01-21'", 2),
        ("n < 10 and f > 300", 0),
        ("not (i < 990)", 1),
        ("not (i < 990 or s is null)", 1),
        ("t < '2026-01-01 01:00:00'", 7),  # a day is granted to writers that are not Java's
    ],
)
def test_what_is_left(source: LocalSource, text: str, groups: int) -> None:
    found = pruner(source, text)
    kept = [found.groups(number) for number in range(len(found.tail.stripes))]
    assert sum(int(mask.sum()) for mask in kept if mask is not None) == groups


@pytest.mark.parametrize(
    "text", ["i > 1000", "i = 10.5", "s < 'a'", "n > 1e30", "d = '1999-01-01'", "l is null and false"]
)
def test_a_stripe_is_left_out_by_its_statistics(source: LocalSource, text: str) -> None:
    assert True not in pruner(source, text).of_stripe(0)


def test_a_file_without_an_index_has_no_groups(source: LocalSource) -> None:
    found = pruner(source, "i = 1")
    assert replace(found, tail=replace(found.tail, row_index_stride=0)).groups(0) is None


def test_a_column_that_the_file_is_older_than_is_null(source: LocalSource) -> None:
    found = pruner(source, "i is null")
    (column, _) = found.columns["i"]
    older = replace(found, columns={"i": (column, None)})
    assert older.of_stripe(0) == {True}
    assert find_outcomes(bind("i = 1", pa.schema({"i": pa.int32()})), {}) == {True, False, None}


def test_an_index_with_less_entries_than_row_groups_leaves_nothing_out(source: LocalSource) -> None:
    """A stripe may say that it has two billion rows, in as many groups."""
    found = pruner(source, "i = 1")
    stripe, *others = found.tail.stripes
    bomb = replace(found.tail, stripes=(stripe._replace(rows=2**31 - 1), *others), row_index_stride=1)
    assert replace(found, tail=bomb).groups(0) is None
