from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.base.errors import BadFile
from compactor.insight.read_events import (
    MOST_BYTES,
    MOST_TEXT,
    ReadQuery,
    digest_likeness,
    normalise_query,
    parse_queries,
)
from tests.support.read_events import hive, plain, trino
from tests.support.sizes import sized

TEN = 1_795_600_800_123  #: 2026-11-25 10:00:00.123 UTC, in ms
TABLES = [("d", "t")]


def read(*events: Any) -> list[ReadQuery | None]:
    return list(parse_queries([json.dumps(event) for event in events], "f"))


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


def test_a_query_that_has_yet_to_end_is_refused() -> None:
    line = json.dumps(plain(1, at=1795600800.123, seconds=0.5))
    assert next(parse_queries([line], "f", latest=TEN)) is not None
    with pytest.raises(BadFile, match="f, line 1: the query ended at 2026-11-25T10:00:00Z, which is in the future"):
        next(parse_queries([line], "f", latest=TEN - 1))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda value: st.lists(value, max_size=4) | st.dictionaries(st.text(max_size=8), value, max_size=4),
    max_leaves=8,
)


@settings(max_examples=sized(short=300, whole=20_000), deadline=None)
@given(
    st.sampled_from([trino(), hive(), plain(1, at=1, seconds=1)]),
    st.lists(st.tuples(st.integers(0, 20), JSON_VALUES), max_size=3),
)
def test_an_event_with_anything_in_it_is_a_query_or_refused(event: dict[str, Any], changes: list[Any]) -> None:
    event = dict(event)
    for number, value in changes:
        names = sorted(event)
        place = names[number % len(names)]
        inner = event[place]
        if isinstance(inner, dict) and inner and number % 2:
            event[place] = {**inner, sorted(inner)[number % len(inner)]: value}
        else:
            event[place] = value
    query = None
    with suppress(BadFile):
        (query,) = read(event)
    if query is not None:
        names = [query.engine, query.id, *(name for table in query.tables for name in table)]
        assert all(isinstance(name, str) and name.isprintable() for name in names)
        assert all(isinstance(number, int | None) for number in (query.at, query.files, query.bytes))


@settings(max_examples=sized(short=100, whole=5000), deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda some: some.decode("utf-8", "surrogateescape")))
def test_random_text_is_refused(text: str) -> None:
    with suppress(BadFile):
        list(parse_queries(text.split("\n"), "f"))


def test_an_array_is_as_good_as_lines() -> None:
    assert [one and one.id for one in read([trino(1), trino(2)], trino(3))] == [
        f"20261125_100000_0000{number}_abcde" for number in (1, 2, 3)
    ]
    assert list(parse_queries(["", "  \n"], "f")) == []


def test_neither_a_text_nor_a_person_is_kept() -> None:
    (found,) = read(trino(metadata={**trino()["metadata"], "query": "select 'hunter2'"}))
    assert "hunter2" not in str(found)
    assert "ann" not in str(found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "not JSON"),
        ('"text"', "expected: an object"),
        ('{"a": 1}', "an object with a; expected: an event of Trino"),
        ('"' + "x" * MOST_BYTES + '"', f"expected: at most {MOST_BYTES}"),
        (json.dumps(trino(endTime="soon")), "its engine does not write such events"),
        (json.dumps(trino(endTime=None)), "its engine does not write such events"),
        (json.dumps(trino(metadata={"queryState": "FINISHED"})), "queryId"),
        (json.dumps(trino(table="x" * 300)), "expected: 1 to 256 printable characters"),
        (json.dumps(trino(statistics={"wallTime": -1})), "-1"),
        (json.dumps(trino(statistics={"wallTime": "2.5s"})), "not a duration"),
        (json.dumps(trino(statistics={"wallTime": 1, "completedSplits": -1})), "-1"),
        (json.dumps(trino(metadata=7)), "its engine does not write such events"),
        (json.dumps(hive(total_time_ms="x")), "its engine does not write such events"),
        (json.dumps(plain(1, at=10**30, seconds=1)), "1000000"),
        (json.dumps({**plain(1, at=1, seconds=1), "tables": ["t"]}), "its engine does not write such events"),
        (json.dumps({**plain(1, at=1, seconds=1), "id": "x" * 500}), "id"),
        *(
            (json.dumps({**plain(1, at=1, seconds=1), name: value}), wanted)
            for name, wanted in (("engine", "the engine is"), ("id", "the query's id is"))
            for value in ([1], {"a": 1}, 7, True, None, "", "a\0b", "a\nb", "\ud800")
        ),
        *(
            (json.dumps({**plain(1, at=1, seconds=1), "sql": value}), "the query's text is")
            for value in (["select"], [], {}, 0, False)
        ),
        *(
            (json.dumps({**plain(1, at=1, seconds=1), "tables": value}), "the query's tables are")
            for value in ("a.b", "", {"a.b": 1}, {}, 0, False)
        ),
        (json.dumps({**plain(1, at=1, seconds=1), "tables": [], "engine": 7}), "the engine is"),
        (json.dumps(trino(ioMetadata=[])), "its engine does not write such events"),
        (json.dumps(trino(ioMetadata={"inputs": {}})), "the query's inputs are"),
        (json.dumps({**plain(1, at=1, seconds=1), "tables": ["a\0.b"]}), "a database's name is 'a\\x00'"),
        (json.dumps({**plain(1, at=1, seconds=1), "tables": [["a", "b"]]}), "its engine does not write such events"),
        (json.dumps(trino(table="\ud800")), "a table's name is"),
        (json.dumps(hive(used="a@b\0")), "a table's name is"),
        (json.dumps(hive(query_id=7)), "the query's id is"),
    ],
)
def test_what_is_not_understood_names_its_line(line: str, said: str) -> None:
    with pytest.raises(BadFile, match="f, line 2") as found:
        list(parse_queries([json.dumps(trino()), line], "f"))
    assert said in str(found.value)
    assert len(str(found.value)) < 1000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT * FROM t WHERE a = 1", "select  *\nfrom T where A=42"),
        ("select a from t where b = 'x' -- it's mine", "select a from t where b = 'it''s; -- not' /* c */"),
        ("select a from t where b in (1, 2, 3)", "select a from t where b in (7)"),
        ("select 1.5e3;", "select 2"),
    ],
)
def test_constants_blanks_and_comments_do_not_count(one: str, other: str) -> None:
    assert normalise_query(one, quotes_are_text=False) == normalise_query(other, quotes_are_text=False)
    assert digest_likeness(one, TABLES, quotes_are_text=False) == digest_likeness(other, TABLES, quotes_are_text=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t", "select b from t"),
        ('select "A" from t', 'select "a" from t'),
        ("select `A` from t", "select `a` from t"),
        ("select a1 from t", "select a2 from t"),
    ],
)
def test_names_count(one: str, other: str) -> None:
    assert digest_likeness(one, TABLES, quotes_are_text=False) != digest_likeness(other, TABLES, quotes_are_text=False)


def test_tables_count_and_their_order_does_not() -> None:
    two = [("d", "t"), ("d", "u")]
    assert digest_likeness("x", TABLES, quotes_are_text=False) != digest_likeness("x", two, quotes_are_text=False)
    assert digest_likeness("x", two, quotes_are_text=False) == digest_likeness("x", two[::-1], quotes_are_text=False)


def test_double_quotes_hold_constants_in_hive() -> None:
    assert normalise_query('a = "x"', quotes_are_text=True) == normalise_query("a = 'y'", quotes_are_text=True)


@pytest.mark.parametrize("text", ["/*", "'", '"', "`", "''", "\\'", "--", "/*/", "?"])
def test_no_text_takes_long(text: str) -> None:
    """Whatever is never closed is read once: quadratic time would be hours here."""
    assert len(normalise_query(text * MOST_TEXT, quotes_are_text=True)) <= 3 * MOST_TEXT


def test_no_secret_can_be_read_from_it() -> None:
    assert "hunter2" not in digest_likeness("select 'hunter2'", TABLES, quotes_are_text=False)
