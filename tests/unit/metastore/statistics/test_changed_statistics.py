from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.statistics.changed_statistics import (
    Accuracy,
    Changes,
    agrees,
    exact_figures,
    find_changes,
    has_no_estimate,
    is_proven,
    parse_accuracy,
)
from compactor.metastore.statistics.commit_statistics import CommitStatistics, StoredColumn, StoredStatistics

FLAGS = "COLUMN_STATS_ACCURATE"
SEEN = ValidWriteIdList(table="default.t", high_watermark=WriteId(9), open=frozenset(), aborted=frozenset({WriteId(7)}))
KNOWN = CommitStatistics(
    files=1,
    bytes=99,
    txns=ValidTxnList(high_watermark=TxnId(20)),
    write_ids=SEEN,
    highest=WriteId(5),
    rows=RowFigures(
        rows=4,
        raw_size=8,
        columns=(
            ColumnFigures(name="a", type="int", values=3, low=1, high=7),
            ColumnFigures(name="b", type="string", values=2),
            ColumnFigures(name="c", type="boolean", values=4, trues=1),
        ),
    ),
)
SIZES = {"numFiles": "1", "totalSize": "99"}
A = StoredColumn(id=1, name="a", type="int", figures={"LONG_LOW_VALUE": 1, "LONG_HIGH_VALUE": 7, "NUM_NULLS": 1})
B = StoredColumn(id=2, name="b", type="string", figures={"NUM_NULLS": 2})
C = StoredColumn(id=3, name="c", type="boolean", figures={"NUM_NULLS": 0, "NUM_TRUES": 1, "NUM_FALSES": 3})
STALE_A = replace(A, figures={**A.figures, "LONG_HIGH_VALUE": 99})
EXACT_A = {"LONG_LOW_VALUE": 1, "LONG_HIGH_VALUE": 7, "NUM_NULLS": 1}


def flags(*columns: str) -> str:
    named = ",".join(f'"{column}":"true"' for column in columns)
    return f'{{"BASIC_STATS":"true","COLUMN_STATS":{{{named}}}}}' if columns else '{"BASIC_STATS":"true"}'


def stored(*columns: StoredColumn, write_id: int = 5, **parameters: str) -> StoredStatistics:
    return StoredStatistics(write_id=WriteId(write_id), parameters=parameters, columns=columns)


def marked(*columns: StoredColumn, of: tuple[str, ...] = (), rows: str = "4", write_id: int = 5) -> StoredStatistics:
    return stored(*columns, write_id=write_id, numRows=rows, rawDataSize="1", **{FLAGS: flags(*of)})


def test_what_is_marked_and_true_stays() -> None:
    """Its raw size is Hive's own estimate, and columns without a row are those of an empty table."""
    assert find_changes(marked(A, B, C, of=("a", "b", "c", "d")), KNOWN) == Changes(sizes=SIZES)


def test_sizes_that_are_right_are_not_written_again() -> None:
    assert find_changes(stored(numFiles="1", totalSize="98"), replace(KNOWN, rows=None)) == Changes(
        sizes={"totalSize": "99"}
    )


def test_rows_that_were_not_marked_are() -> None:
    changes = find_changes(stored(numRows="4"), KNOWN)
    assert changes == Changes(sizes=SIZES, parameters={FLAGS: flags(), "numRows": "4", "rawDataSize": "8"}, marks=True)


def test_a_wrong_number_of_rows_is_corrected_and_takes_away_what_it_cannot_prove() -> None:
    """A writer counted wrongly: only columns of which everything is proved keep their marks."""
    changes = find_changes(marked(A, B, of=("a", "b", "d"), rows="5"), KNOWN)
    assert changes.parameters == {FLAGS: flags("a"), "numRows": "4", "rawDataSize": "8"}
    assert changes.columns == {}


def test_a_column_that_contradicts_its_mark_loses_it() -> None:
    changes = find_changes(marked(STALE_A, B, of=("a", "b")), KNOWN)
    assert changes.parameters == {FLAGS: flags("b")}
    assert changes.columns == {1: EXACT_A}
    assert changes.marks


def test_a_column_without_a_mark_gets_figures_but_no_mark() -> None:
    """Its distinct count is an estimate of unknown age: Hive takes the mark away with every DELETE."""
    assert find_changes(marked(STALE_A, B), KNOWN) == Changes(sizes=SIZES, columns={1: EXACT_A})


def test_a_column_of_nothing_but_exact_figures_is_marked_anew() -> None:
    stale = replace(C, figures={"NUM_NULLS": 0, "NUM_TRUES": 3, "NUM_FALSES": 3})
    changes = find_changes(marked(stale), KNOWN)
    assert changes.parameters == {FLAGS: flags("c")}
    assert changes.columns == {3: {"NUM_NULLS": 0, "NUM_TRUES": 1, "NUM_FALSES": 3}}


def test_a_column_of_another_type_is_left_alone() -> None:
    other = replace(STALE_A, type="bigint")
    assert find_changes(marked(other, of=("a",)), KNOWN) == Changes(sizes=SIZES)


@pytest.mark.parametrize("write_id", [10, 12])
def test_statistics_of_later_writes_stay(write_id: int) -> None:
    assert find_changes(marked(STALE_A, rows="5", write_id=write_id), KNOWN) == Changes(sizes=SIZES)


def test_statistics_of_an_aborted_write_count_as_unmarked() -> None:
    """Hive reads them as that, until the write ID is forgotten and counts as committed."""
    changes = find_changes(marked(A, of=("a", "b"), write_id=7), KNOWN)
    assert changes.parameters == {FLAGS: flags(), "numRows": "4", "rawDataSize": "8"}
    assert changes.marks


def test_where_the_last_writer_left_statistics_alone_nothing_is_marked() -> None:
    """As Hive's streaming does: it would not take the mark away either."""
    known = replace(KNOWN, highest=WriteId(6))
    rows = {"numRows": "4", "rawDataSize": "8"}
    assert find_changes(stored(STALE_A, C), known) == Changes(sizes=SIZES, parameters=rows, columns={1: EXACT_A})
    changes = find_changes(marked(A, C, of=("a", "c"), rows="5"), known)
    assert changes == Changes(sizes=SIZES, parameters={**rows, FLAGS: "{}"})
    assert find_changes(marked(C), known) == Changes(sizes=SIZES)
    assert find_changes(marked(A, C, of=("a",)), known) == Changes(sizes=SIZES)


def test_statistics_without_a_write_id_count() -> None:
    assert find_changes(marked(A, of=("a",), write_id=0), KNOWN) == Changes(sizes=SIZES)


def test_marks_of_columns_do_not_count_without_that_of_the_rows() -> None:
    changes = find_changes(stored(A, numRows="4", **{FLAGS: '{"COLUMN_STATS":{"a":"true"}}'}), KNOWN)
    assert changes.parameters[FLAGS] == flags()


def test_where_nothing_is_marked_what_is_marked_is_left_alone() -> None:
    known = replace(KNOWN, sets_flags=False)
    assert find_changes(marked(STALE_A, rows="5"), known) == Changes(sizes=SIZES)
    changes = find_changes(
        stored(STALE_A, replace(C, figures={}), numRows="5", **{FLAGS: '{"COLUMN_STATS":{"c":"true"}}'}), known
    )
    wanted: dict[str, Any] = {"numRows": "4", "rawDataSize": "8"}
    assert changes == Changes(sizes=SIZES, parameters=wanted, columns={1: EXACT_A})


def test_figures_of_an_empty_table() -> None:
    known = replace(KNOWN, rows=RowFigures(rows=0, raw_size=0))
    assert find_changes(marked(of=("a",), rows="0"), known) == Changes(sizes=SIZES)
    assert find_changes(marked(A, of=("a",), rows="4"), known).parameters == {
        FLAGS: flags(),
        "numRows": "0",
        "rawDataSize": "0",
    }


def test_flags_as_hive_writes_them() -> None:
    text = '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true","b":"true"}}'
    flags = Accuracy(basic=True, columns=frozenset({"a", "b"}))
    assert parse_accuracy(text) == flags
    assert str(flags) == text
    assert str(Accuracy(basic=True)) == '{"BASIC_STATS":"true"}'
    assert parse_accuracy(str(Accuracy())) == Accuracy()


@pytest.mark.parametrize("text", [None, "", "true", "[]", "{", '{"BASIC_STATS":"false"}', '{"COLUMN_STATS":["a"]}'])
def test_whatever_else_is_there_is_no_flag(text: str | None) -> None:
    assert parse_accuracy(text) == Accuracy()


def test_a_column_that_is_not_true_is_not_marked() -> None:
    assert parse_accuracy('{"COLUMN_STATS":{"A":"TRUE","b":"false"}}') == Accuracy(columns=frozenset({"a"}))


def column(type: str, values: int = 3, **figures: object) -> ColumnFigures:
    return ColumnFigures(name="a", type=type, values=values, **figures)  # type: ignore[arg-type] # by the test's table


LONG = {"LONG_LOW_VALUE": 1, "LONG_HIGH_VALUE": 2}
NO_LONG = {"LONG_LOW_VALUE": None, "LONG_HIGH_VALUE": None}


@pytest.mark.parametrize(
    ("found", "wanted", "proved"),
    [
        (column("tinyint", low=1, high=2), LONG, True),
        (column("bigint", low=1, high=2), LONG, True),
        (column("date", low=1, high=2), LONG, True),
        (column("int", 0), NO_LONG, True),
        (column("int", low=1), {}, False),
        (column("double", low=-1.5, high=2.5), {"DOUBLE_LOW_VALUE": -1.5, "DOUBLE_HIGH_VALUE": 2.5}, True),
        (column("float", low=0.0, high=2.5), {}, False),  # which zero?
        (column("double", low=-1.0, high=-0.0), {}, False),
        (
            column("decimal(10,2)", low=Decimal("-1.50"), high=Decimal("1E+2")),
            {"BIG_DECIMAL_LOW_VALUE": "-1.5", "BIG_DECIMAL_HIGH_VALUE": "100"},
            True,
        ),
        (
            column("decimal(10,2)", low=Decimal("0.00"), high=Decimal("0.01")),
            {"BIG_DECIMAL_LOW_VALUE": "0", "BIG_DECIMAL_HIGH_VALUE": "0.01"},
            True,
        ),
        (column("boolean", trues=1), {"NUM_TRUES": 1, "NUM_FALSES": 2}, True),
        (column("boolean"), {}, False),
        (column("string"), {}, False),
        (column("varchar(10)"), {}, False),
        (column("timestamp"), {}, False),
        (column("binary"), {}, False),
        (column(""), {}, False),
    ],
)
def test_what_is_exact_of_each_type(found: ColumnFigures, wanted: dict[str, object], proved: bool) -> None:
    assert exact_figures(found, 5) == {"NUM_NULLS": 5 - found.values, **wanted}
    assert is_proven(found) is proved


def test_only_a_boolean_has_nothing_but_exact_figures() -> None:
    assert has_no_estimate(column("boolean"))
    assert not any(has_no_estimate(column(type)) for type in ("int", "string", "binary", "double"))


def test_figures_agree_by_value() -> None:
    stored = {"NUM_NULLS": 1, "BIG_DECIMAL_LOW_VALUE": "1.50", "LONG_LOW_VALUE": None, "NUM_DISTINCTS": 3}
    assert agrees(stored, {"NUM_NULLS": 1, "BIG_DECIMAL_LOW_VALUE": "1.5"})
    assert agrees(stored, {"LONG_LOW_VALUE": None})
    assert not agrees(stored, {"LONG_LOW_VALUE": 0})
    assert not agrees(stored, {"NUM_NULLS": 2})
    assert not agrees({"BIG_DECIMAL_LOW_VALUE": "?"}, {"BIG_DECIMAL_LOW_VALUE": "1"})
