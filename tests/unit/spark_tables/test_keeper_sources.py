"""Changes travel as options and as JSON."""

from __future__ import annotations

import pytest

from compactor.spark_tables.keeper_requests import AbortChange, BeginChange, BegunChange, CountChange, MetastorePlace
from compactor.spark_tables.keeper_sources import (
    answer_to_json,
    parse_begun_change,
    parse_counts,
    request_from_options,
    request_to_options,
)
from compactor.tables.writing.row_change import Changed

PLACE = MetastorePlace(metastore="m", config="c", application="app-1")


@pytest.mark.parametrize(
    "request_",
    [
        BeginChange(place=PLACE, table="db.t", deletes=True, assigns=("a", "b"), inserts=True, is_checked=None),
        BeginChange(place=PLACE, table="db.t"),
        AbortChange(change="x"),
        CountChange(change="x"),
    ],
)
def test_a_request_is_what_it_was(request_: BeginChange | AbortChange | CountChange) -> None:
    options = {"metastore": "m", "config": "c", **request_to_options(request_)}
    assert request_from_options(options, "app-1") == request_


def test_answers_are_what_they_were() -> None:
    begun = BegunChange(
        change="x",
        columns=("a", "p"),
        types=("int", "string"),
        partition_keys=("p",),
        bucket_columns=(),
        is_checked=True,
    )
    assert parse_begun_change(answer_to_json(begun)) == begun
    counts = Changed(deleted=1, updated=2, inserted=3)
    assert parse_counts(answer_to_json(counts)) == counts
    assert answer_to_json(True) == "true"
