from __future__ import annotations

import pytest

from compactor.tables.time_texts import seconds_and_nanos


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01", (0, 0)),
        (" 1970-1-2 ", (86_400, 0)),
        ("1970-01-01 1:02", (3_720, 0)),
        ("1970-01-01T00:00:01.5", (1, 500_000_000)),
        ("1969-12-31 23:59:59.000000001", (-1, 1)),
        ("9999-12-31 23:59:59", (253_402_300_799, 0)),
    ],
)
def test_a_text_is_seconds_and_nanoseconds(text: str, found: tuple[int, int]) -> None:
    assert seconds_and_nanos(text) == found


def test_a_day_has_no_time() -> None:
    assert seconds_and_nanos("1970-01-02", is_date=True) == (86_400, 0)
    with pytest.raises(ValueError, match="yyyy-mm-dd was expected"):
        seconds_and_nanos("1970-01-02 00:00", is_date=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01.5",
        "2020-01-01 10",
        "2020-01-01 10.5",
        "2020-01-01 10:00.5",
        "2020-01-01 10:00:00.",
        "2020-01-01 10:00:00.0123456789",
        "2020-01-01 10:00:00.٣",
        "٢٠٢٠-01-01",
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"yyyy-mm-dd hh:mm:ss\.fraction was expected"):
        seconds_and_nanos(text)


@pytest.mark.parametrize("text", ["2026-02-30", "0000-01-01", "2026-01-01 24:00", "2026-01-01 00:60"])
def test_a_day_or_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be in|out of range"):
        seconds_and_nanos(text)
