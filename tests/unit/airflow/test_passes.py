from __future__ import annotations

from typing import Any

import pytest

from compactor.airflow.passes import check_parameters, under_way, went_well
from compactor.compaction.states import State
from compactor.errors import CompactorError

FORM: dict[str, Any] = {
    "table": "demo.flights",
    "partition": None,
    "type": "major",
    "pool": None,
    "properties": {},
    "wait": True,
}


def test_the_form_becomes_a_request() -> None:
    found = check_parameters(FORM | {"partition": " month=1 ", "pool": "", "properties": {"a": "b"}})
    assert found == {
        "table": "demo.flights",
        "partition": "month=1",
        "type": "major",
        "pool": None,
        "properties": {"a": "b"},
    }


@pytest.mark.parametrize("table", ["", None, "flights", "a.b.c", ".flights", "demo."])
def test_a_table_without_its_database_is_refused_in_our_words(table: str | None) -> None:
    with pytest.raises(CompactorError, match=r"wanted: DATABASE\.TABLE"):
        check_parameters(FORM | {"table": table})


def test_a_property_that_is_no_text_is_refused_by_name() -> None:
    with pytest.raises(CompactorError, match=r'property compactor\.x is 7; wanted: text.*"compactor\.x": "7"'):
        check_parameters(FORM | {"properties": {"compactor.x": 7}})


@pytest.mark.parametrize("state", State)
def test_each_state_is_under_way_or_went_well_or_did_not(state: State) -> None:
    assert under_way({1: state.label}) == (state in {State.INITIATED, State.WORKING})
    assert went_well(state.label) == (state in {State.READY_FOR_CLEANING, State.SUCCEEDED, State.REFUSED})
