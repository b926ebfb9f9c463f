from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from demo.report import TableFigures, compare, find_complaints, write

BEFORE = TableFigures(
    table="demo.flights",
    partitions=12,
    directories=400,
    files=800,
    bytes=9_000_000,
    rows=336_000,
    seconds=2.5,
    checksum="a" * 64,
)
AFTER = replace(BEFORE, directories=12, files=24, bytes=8_000_000, seconds=0.5)


def test_a_promised_result_has_no_complaint() -> None:
    assert find_complaints([BEFORE], [AFTER]) == []


def test_a_lost_row_is_complained_about() -> None:
    (found,) = find_complaints([BEFORE], [replace(AFTER, rows=335_999)])
    assert "336000 rows before and 335999 after" in found


def test_another_checksum_is_complained_about() -> None:
    (found,) = find_complaints([BEFORE], [replace(AFTER, checksum="b" * 64)])
    assert "rows or ROW__IDs changed" in found


def test_an_extra_directory_is_complained_about() -> None:
    (found,) = find_complaints([BEFORE], [replace(AFTER, directories=13)])
    assert "expected: 12" in found


def test_a_table_without_partitions_is_to_have_one_directory() -> None:
    before, after = (replace(f, partitions=0, directories=n) for f, n in ((BEFORE, 5), (AFTER, 1)))
    assert find_complaints([before], [after]) == []


def test_the_json_has_both_sides_of_each_table(tmp_path: Path) -> None:
    write(tmp_path / "report.json", [BEFORE], [AFTER], 61.23)
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert found["seconds"] == 61.2
    (table,) = found["tables"]
    assert (table["table"], table["rows"]) == ("demo.flights", 336_000)
    assert (table["directories_before"], table["directories_after"]) == (400, 12)
    assert (table["files_before"], table["files_after"]) == (800, 24)
    assert table["checksum_before"] == table["checksum_after"] == "a" * 64


def test_the_terminal_shows_each_figure_before_and_after() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(compare([BEFORE], [AFTER]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "400 -> 12" in text
    assert "2.50 -> 0.50" in text
    assert f"{'a' * 8} =" in text


def test_rows_that_were_written_meanwhile_have_to_be_there() -> None:
    before, after = (
        replace(BEFORE, table="demo.live", rows=12),
        replace(AFTER, table="demo.live", rows=30, directories=3),
    )
    assert find_complaints([before], [after], {"demo.live": 30}) == []
    for wrong in (replace(after, rows=29), replace(after, directories=30)):
        [found] = find_complaints([before], [wrong], {"demo.live": 30})
        assert "expected: the 30 rows that were written, in fewer directories" in found
