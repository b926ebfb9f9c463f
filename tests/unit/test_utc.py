from __future__ import annotations

import pytest

from compactor.utc import utc_text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "1970-01-01T00:00:00Z"), (1_795_438_800_999, "2026-11-23T13:00:00Z")]
)
def test_a_time_is_utc_to_the_second(milliseconds: int, text: str) -> None:
    assert utc_text(milliseconds) == text
