from __future__ import annotations

import pytest

from compactor.base.utc import utc_text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1_795_438_800_999, "2026-11-23T13:00:00Z")]
)
def test_a_time_is_utc_to_the_second(milliseconds: int, text: str) -> None:
    assert utc_text(milliseconds) == text


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63), 10**15])
def test_a_number_that_is_no_time_is_shown_as_it_is(milliseconds: int) -> None:
    assert utc_text(milliseconds) == f"{milliseconds} ms"
