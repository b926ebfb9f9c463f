from __future__ import annotations

from decimal import Decimal

from compactor.acid.row_figures import ColumnFigures, RowFigures, merge_figures


def of(column: ColumnFigures, rows: int = 5) -> RowFigures:
    return RowFigures(rows=rows, raw_size=10, columns=(column,))


def test_counts_are_added_and_extremes_widened() -> None:
    one = ColumnFigures(name="a", type="int", values=3, low=-2, high=4)
    other = ColumnFigures(name="a", type="int", values=5, low=0, high=9)
    whole = ColumnFigures(name="a", type="int", values=8, low=-2, high=9)
    assert merge_figures([of(one), of(other)]) == RowFigures(rows=10, raw_size=20, columns=(whole,))


def test_decimals_and_flags() -> None:
    one = ColumnFigures(name="a", type="decimal(10,2)", values=1, low=Decimal("9"), high=Decimal("9"))
    other = ColumnFigures(name="a", type="decimal(10,2)", values=1, low=Decimal("10.5"), high=Decimal("10.5"))
    [found] = merge_figures([of(one), of(other)]).columns
    assert (found.low, found.high) == (Decimal("9"), Decimal("10.5"))
    flags = [ColumnFigures(name="a", type="boolean", values=2, trues=trues) for trues in (1, 2)]
    assert merge_figures([of(flag) for flag in flags]).columns[0].trues == 3


def test_what_one_part_does_not_know_the_whole_does_not() -> None:
    one = ColumnFigures(name="a", type="int", values=3, low=-2, high=4, trues=0)
    other = ColumnFigures(name="a", type="int", values=1, low=5)
    [found] = merge_figures([of(one), of(other)]).columns
    assert (found.values, found.low, found.high, found.trues) == (4, -2, None, None)


def test_a_part_without_values_has_no_extremes_to_know() -> None:
    one = ColumnFigures(name="a", type="int", values=3, low=-2, high=4)
    nulls = ColumnFigures(name="a", type="int", values=0)
    assert merge_figures([of(nulls), of(one)]).columns == (one,)
    assert merge_figures([of(nulls), of(nulls)]).columns == (nulls,)


def test_a_part_without_rows_says_nothing_of_columns() -> None:
    column = ColumnFigures(name="a", type="int", values=3, low=-2, high=4)
    empty = RowFigures(rows=0, raw_size=0)
    assert merge_figures([empty, of(column)]) == of(column)
    assert merge_figures([]) == merge_figures([empty]) == empty


def test_files_of_other_columns_have_only_rows_in_common() -> None:
    one = ColumnFigures(name="a", type="int", values=3, low=-2, high=4)
    other = ColumnFigures(name="a", type="bigint", values=3, low=-2, high=4)
    assert merge_figures([of(one), of(other)]) == RowFigures(rows=10, raw_size=20)
