"""Dumps of Hive 2.3, 3.1, 4.1 and Trino are read without loss, and a broken one is refused by name."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadFile
from demo.metastore_dumps import parse_description, parse_dump
from tests.support.expected import FIXTURES, step

DUMP = """\
# TXN tables at: tables
[TXNS] TXN_ID,TXN_STATE
   7 | a
[TXN_COMPONENTS] TC_TXNID,TC_DATABASE,TC_TABLE,TC_PARTITION
   7 | default | t | p=a b%3Dc/q=3
   8 | default | t | null
[WRITE_SET] WS_DATABASE
[NEXT_TXN_ID] NTXN_NEXT
   9
"""


def test_rows_are_read_by_name_and_null_is_none() -> None:
    dump = parse_dump(DUMP, "d")
    assert dump.rows("TXNS") == ({"TXN_ID": "7", "TXN_STATE": "a"},)
    assert [row["TC_PARTITION"] for row in dump.rows("TXN_COMPONENTS")] == ["p=a b%3Dc/q=3", None]
    assert dump.number("NEXT_TXN_ID", "NTXN_NEXT") == 9


def test_an_empty_table_is_there_and_an_unknown_one_is_not() -> None:
    dump = parse_dump(DUMP, "d")
    assert dump.tables["WRITE_SET"] == ()
    assert "NEXT_WRITE_ID" not in dump.tables
    assert dump.number("NEXT_WRITE_ID", "NWI_NEXT") is None


def test_an_empty_last_value_is_kept() -> None:
    (row,) = parse_dump("[T] A,B\n   1 | \n", "d").rows("T")
    assert row == {"A": "1", "B": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("   1 | 2\n", "d:1: a row without a heading"),
        ("[T] A,B\n   1\n", "d:2: 1 values; expected 2"),
        ("[T] A\n   1 | 2\n", "d:2: 2 values; expected 1"),
    ],
)
def test_a_broken_dump_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        parse_dump(text, "d")


def test_every_dump_of_the_fixtures_is_read() -> None:
    paths = sorted(FIXTURES.glob("*/*/*/txn_tables.txt"))
    assert len(paths) == 117
    for path in paths:
        assert parse_dump(path.read_text("utf-8"), str(path)).tables


def test_description_of_hive() -> None:
    path = step("hive-4.1/f2_part/s1_dml") / "describe.txt"
    found = parse_description(path.read_text("utf-8"), str(path))
    assert found.columns == (("a", "int"), ("b", "string"))
    assert found.partition_keys == (("p", "string"), ("q", "int"))
    assert (found.buckets, found.bucket_columns, found.sort_columns) == (2, ("a",), ())
    assert (found.owner, found.type) == ("root", "MANAGED_TABLE")
    assert found.parameters["COLUMN_STATS_ACCURATE"] == '{"BASIC_STATS":"true"}'
    assert "numPartitions" not in found.parameters
    assert "serialization.format" not in found.parameters


def test_description_of_hive_2_begins_with_an_empty_line() -> None:
    path = step("hive-2.3/f7_v1/s1_dml") / "describe.txt"
    assert parse_description(path.read_text("utf-8"), str(path)).columns == (("a", "int"), ("b", "string"))


def test_description_of_trino_has_no_location() -> None:
    path = step("trino-476/t4_bucket/s1_insert") / "describe.txt"
    found = parse_description(path.read_text("utf-8"), str(path))
    assert found.location is None
    assert found.buckets == 2
    assert found.parameters["transactional"] == "true"


def test_text_without_columns_is_refused() -> None:
    with pytest.raises(BadFile, match="d: it has no column"):
        parse_description("# Detailed Table Information\nOwner:\troot\n", "d")


def test_a_bucket_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadFile, match="Num Buckets is 'many'"):
        parse_description("a\tint\n# Storage Information\nNum Buckets:\tmany\n", "d")
