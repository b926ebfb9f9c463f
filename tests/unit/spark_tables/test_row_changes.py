"""Changes travel as options and as JSON."""

from __future__ import annotations

import pytest

from compactor.spark_tables.messages import AbortChange, BeginChange, BegunChange, CountChange, Place
from compactor.spark_tables.row_changes import as_json, begun_of, counts_of, options_of, request_of
from compactor.tables.writing.row_change import Changed

PLACE = Place(metastore="m", config="c", application="app-1")


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
    options = {"metastore": "m", "config": "c", **options_of(request_)}
    assert request_of(options, "app-1") == request_


def test_answers_are_what_they_were() -> None:
    begun = BegunChange(
        change="x",
        columns=("a", "p"),
        types=("int", "string"),
        partition_keys=("p",),
        bucket_columns=(),
        is_checked=True,
    )
    assert begun_of(as_json(begun)) == begun
    counts = Changed(deleted=1, updated=2, inserted=3)
    assert counts_of(as_json(counts)) == counts
    assert as_json(True) == "true"
