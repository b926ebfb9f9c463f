from __future__ import annotations

import json
import logging

import pytest

from compactor.base.printable import PrintableFormatter, few, log_lines, printable, printable_json


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain é 表 😀 \xa0", "plain é 表 😀 \xa0"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[2J\x07\x9b1m\x7f", "\\x1b[2J\\x07\\x9b1m\\x7f"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_is_not_seen_is_escaped(text: str, printed: str) -> None:
    assert printable(text) == printed


def test_json_stays_the_same_json() -> None:
    value = {"a\x9b": ["\u202e\x7f", "é\n", "\U000e0001"]}
    text = printable_json(json.dumps(value, indent=1, ensure_ascii=False))
    assert json.loads(text) == value
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_message_is_one_line_and_a_trace_is_several() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "%s", ("a\nINFO b\x1b[2J",), None)
    assert PrintableFormatter("%(levelname)s %(message)s").format(record) == "INFO a\\nINFO b\\x1b[2J"


def test_the_log_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        log_lines(logging.INFO)
        logging.getLogger("x").info("a\nb")
        assert capsys.readouterr().err.endswith("INFO x: a\\nb\n")
    finally:
        root.handlers[:], root.level = before


def test_of_a_million_names_a_few_are_shown() -> None:
    assert few(("b", "a")) == "a, b"
    assert few([f"d{number:06d}" for number in range(10**5)]).endswith("d000019 and 99980 more")
