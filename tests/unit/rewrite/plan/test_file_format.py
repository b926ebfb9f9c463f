from __future__ import annotations

import pytest

from compactor.rewrite.plan.file_format import FileFormat, file_format
from tests.support.insert_only import INPUTS

TEXT = INPUTS[FileFormat.TEXT]


@pytest.mark.parametrize(("wanted", "input_format"), [(found, name) for found, name in INPUTS.items()])
def test_formats_by_their_input_format(wanted: FileFormat, input_format: str) -> None:
    assert file_format(input_format, {}) is wanted


@pytest.mark.parametrize(
    "input_format",
    ["org.apache.hadoop.mapred.SequenceFileInputFormat", "org.apache.hadoop.hive.ql.io.RCFileInputFormat", None],
)
def test_others_stay_in_their_files(input_format: str | None) -> None:
    assert file_format(input_format, {}) is FileFormat.WHOLE


@pytest.mark.parametrize(
    "parameters",
    [
        {"skip.header.line.count": "1"},
        {"SKIP.FOOTER.LINE.COUNT": "2"},
        {"line.delim": "|"},
        {"textinputformat.record.delimiter": "\x1e"},
        {"serialization.encoding": "utf-16le"},
    ],
)
def test_text_whose_lines_are_not_all_of_a_file(parameters: dict[str, str]) -> None:
    assert file_format(TEXT, parameters) is FileFormat.WHOLE
    assert file_format(INPUTS[FileFormat.ORC], parameters) is FileFormat.ORC


def test_text_with_settings_that_change_nothing() -> None:
    given = {"skip.header.line.count": "0", "line.delim": "\n", "field.delim": ",", "serialization.encoding": "UTF-8"}
    assert file_format(TEXT, given) is FileFormat.TEXT
