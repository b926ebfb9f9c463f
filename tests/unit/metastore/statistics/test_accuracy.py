from __future__ import annotations

import pytest

from compactor.metastore.statistics.accuracy import Accuracy, parse_accuracy


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
