from __future__ import annotations

import json

import pytest

from compactor.cli import output
from compactor.cli.output import progress_text, watch_text


def test_a_table_for_a_pipe_is_aligned_and_never_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 400
    output.print_table([{"a": 1, "b": long}, {"a": 22, "b": "y"}], ("a", "b"), "nothing")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a   b", f"1   {long}", "22  y"]


def test_empty_columns_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([{"a": 1, "b": None}, {"a": None, "b": None}], ("a", "b"), "nothing")
    assert capsys.readouterr().out.splitlines() == ["a", "1", "-"]


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([], ("a",), "there are none")
    assert capsys.readouterr().out == "there are none\n"


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("bytes", 999, "999 B"),
        ("bytes", 1_500_000, "1.5 MB"),
        ("bytes", 10**18, "1000.0 PB"),
        ("enqueuetime", 1_000, "1970-01-01T00:00:01Z"),
        ("errormessage", "two\nlines", "two lines"),
        ("anything", None, "-"),
        ("because", "[red]not markup[/red]", "[red]not markup[/red]"),
        ("duration", 1_500, "1500 ms"),
        ("age_ms", 7_260_000, "2 h"),
        ("held_ms", 90_000, "90 s"),
        ("opening_before", 0.1234, "0.123 s"),
        ("duration", None, "-"),
    ],
)
def test_cells(column: str, value: object, text: str) -> None:
    assert output.cell(column, value) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (1_999, "1999 ms"), (2_000, "2 s"), (7_200_000, "2 h"), (172_800_000, "2 d")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert output.duration(milliseconds) == text


def test_json_keeps_letters_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"b": "Zürich", "a": None})
    text = capsys.readouterr().out
    assert "Zürich" in text
    assert list(json.loads(text)) == ["b", "a"]


def test_a_json_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json_line({"a": "x\ny"})
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("width", "fits"),
    [(200, True), (45, True), (44, False)],
)
def test_a_terminal_gets_a_drawn_table_unless_names_would_break(width: int, fits: bool) -> None:
    columns, cells = ("table", "because"), [["default.t", "x" * 500]]
    assert output._fits(columns, cells, width) is fits


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
