from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.errors import BadFile
from compactor.service.insight.read_events import MOST_BYTES, Query, queries_of
from tests.support.read_events import hive, plain, trino

TEN = 1_795_600_800_123  #: 2026-11-25 10:00:00.123 UTC, in ms


def read(*events: Any) -> list[Query | None]:
    return list(queries_of([json.dumps(event) for event in events], "f"))


def test_an_event_of_trino() -> None:
    (found,) = read(trino())
    assert found is not None
    assert (found.engine, found.tables, found.at, found.seconds) == ("trino", (("default", "t"),), TEN, 2.5)
    assert (found.files, found.bytes) == (12, 4096)
    (longer,) = read(trino(2, at="1795600800.123", statistics={"wallTime": "PT1M2.5S"}, endTime=1795600800.123))
    assert longer is not None
    assert (longer.like, longer.at, longer.seconds, longer.files) == (found.like, TEN, 62.5, None)


def test_a_row_of_hives_query_history() -> None:
    one, other = read(hive(), hive(2, used="default.t, shop@orders,t"))
    assert one is not None
    assert other is not None
    assert (one.engine, one.tables, one.at, one.seconds) == ("hive", (("default", "t"),), TEN, 1.5)
    assert (one.files, one.bytes) == (None, 100)
    assert other.tables == (("default", "t"), ("shop", "orders"))


def test_a_plain_record() -> None:
    (found,) = read(plain(1, at=1795600800.123, seconds=0.5, files=3))
    assert found is not None
    assert (found.engine, found.tables, found.at, found.files) == ("own", (("default", "t"),), TEN, 3)


def test_what_read_nothing_or_failed_is_no_query() -> None:
    began = {key: value for key, value in trino().items() if key not in ("statistics", "ioMetadata", "endTime")}
    failed = trino(metadata={**trino()["metadata"], "queryState": "FAILED"})
    nothing = trino(ioMetadata={"inputs": []})
    assert read(began, failed, nothing, hive(query_state="ERROR"), hive(used="")) == [None] * 5


def test_an_array_is_as_good_as_lines() -> None:
    assert [one and one.id for one in read([trino(1), trino(2)], trino(3))] == [
        f"20261125_100000_0000{number}_abcde" for number in (1, 2, 3)
    ]
    assert list(queries_of(["", "  \n"], "f")) == []


def test_neither_a_text_nor_a_person_is_kept() -> None:
    (found,) = read(trino(metadata={**trino()["metadata"], "query": "select 'hunter2'"}))
    assert "hunter2" not in str(found)
    assert "ann" not in str(found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: no JSON"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "no JSON"),
        ('"text"', "wanted: an object"),
        ('{"a": 1}', "an object with a; wanted: an event of Trino"),
        ('"' + "x" * MOST_BYTES + '"', f"wanted: {MOST_BYTES} at most"),
        (json.dumps(trino(endTime="soon")), "not as its engine writes it"),
        (json.dumps(trino(endTime=None)), "not as its engine writes it"),
        (json.dumps(trino(metadata={"queryState": "FINISHED"})), "queryId"),
        (json.dumps(trino(table="x" * 300)), "too long"),
        (json.dumps(trino(statistics={"wallTime": -1})), "-1"),
        (json.dumps(trino(statistics={"wallTime": "2.5s"})), "no duration"),
        (json.dumps(trino(statistics={"wallTime": 1, "completedSplits": -1})), "-1"),
        (json.dumps(trino(metadata=7)), "not as its engine writes it"),
        (json.dumps(hive(total_time_ms="x")), "not as its engine writes it"),
        (json.dumps(plain(1, at=10**30, seconds=1)), "1000000"),
        (json.dumps({**plain(1, at=1, seconds=1), "tables": ["t"]}), "not as its engine writes it"),
        (json.dumps({**plain(1, at=1, seconds=1), "id": "x" * 500}), "id"),
    ],
)
def test_what_is_not_understood_names_its_line(line: str, said: str) -> None:
    with pytest.raises(BadFile, match="f, line 2") as found:
        list(queries_of([json.dumps(trino()), line], "f"))
    assert said in str(found.value)
    assert len(str(found.value)) < 1000
