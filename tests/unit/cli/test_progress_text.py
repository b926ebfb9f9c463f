from __future__ import annotations

import pytest

from compactor.cli.progress_text import progress_text, watch_text

NOTHING = dict.fromkeys(
    ("units", "units_done", "bytes", "bytes_done", "left_ms", "tracking_url", "log_url", "task_url")
)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({}, None),
        ({"units": 8, "units_done": 3, "bytes": 2_000_000, "bytes_done": 1_200}, "3 of 8 units, 1.2 kB of 2.0 MB"),
        ({"left_ms": 45_000}, "about 45 s left"),
        ({"units": 1, "units_done": 0, "bytes": 0, "bytes_done": 0, "left_ms": 0}, "0 of 1 unit, about to end"),
    ],
)
def test_progress_in_words(row: dict[str, object], wanted: str | None) -> None:
    assert progress_text(NOTHING | row) == wanted


def test_where_to_watch() -> None:
    assert watch_text(NOTHING) is None
    assert watch_text(NOTHING | {"log_url": "http://log", "task_url": "http://task"}) == "http://task http://log"
