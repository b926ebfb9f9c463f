from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from compactor.cli.row_json import rows
from compactor.orc.codecs.json_values import timestamp
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from tests.support.expected import FIXTURES, read_expected, step


def data_files(path: Path) -> Sequence[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name.startswith("bucket_0"))


def dumped(path: Path) -> list[dict[str, object]]:
    with LocalSource(path) as source:
        return list(rows(source, read_tail(source)))


def test_an_acid_row_has_the_keys_of_orcfiledump() -> None:
    row = dumped(data_files(step("hive-4.1/f1_basic/s1_insert"))[0])[0]
    assert list(row) == ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    assert isinstance(row["row"], dict)


def test_every_value_of_every_fixture_is_converted() -> None:
    """Rows of every type written by Hive and Trino become JSON, even timestamps beyond 64 bits of nanoseconds."""
    output = 0
    for name in ("hive-2.3", "hive-3.1", "hive-4.1", "trino-476"):
        for file in data_files(FIXTURES / name)[:40]:
            with LocalSource(file) as source:
                tail = read_tail(source)
                found = [json.loads(json.dumps(row, allow_nan=False)) for row in rows(source, tail)]
            assert len(found) == tail.rows
            output += len(found)
    assert output > 100


def test_types_are_printed_as_orcfiledump_prints_them() -> None:
    folder = step("hive-4.1/f6_types/s3_major")
    values = [row["row"] for file in data_files(folder) for row in dumped(file) if isinstance(row["row"], dict)]
    cells = [cell for row in values if isinstance(row, dict) for cell in row.values()]
    for wanted in (
        "1969-07-20",
        "1969-07-20 20:17:40.5",
        "9999-12-31 23:59:59.999999999",
        "1234567890123456789012345678.0123456789",
        "-0.00001",
        "-Infinity",
        "NaN",
        list(b"bin"),
        [{"_key": "k", "_value": 1}],
        [None],
    ):
        assert wanted in cells, wanted


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (0, 0, "1970-01-01 00:00:00.0"),
        (-1, 999_999_999, "1969-12-31 23:59:59.999999999"),
        (253402300799, 120_000_000, "9999-12-31 23:59:59.12"),
        (-62135596800, 0, "0001-01-01 00:00:00.0"),
    ],
)
def test_timestamps_as_java_prints_them(seconds: int, nanos: int, text: str) -> None:
    assert timestamp(seconds, nanos) == text


def test_the_dump_contains_the_expected_rows() -> None:
    """The dump of a base written by Hive's major compaction contains exactly the rows of Hive's SELECT."""
    path = step("hive-4.1/q1_query/s4_major")
    shown = read_expected(path).row_ids
    found = set()
    for file in data_files(path):
        for row in dumped(file):
            assert row["operation"] == 0
            found.add((row["originalTransaction"], row["bucket"], row["rowId"]))
    assert found == {(r.write_id, r.bucket, r.row_id) for r, _ in shown}
