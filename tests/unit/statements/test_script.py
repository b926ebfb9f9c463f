"""Statements of one text together; ``statements.txt`` has what a transaction may not hold."""

from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.statements import parsed_actions
from compactor.statements.script import only_reads, parse_script


def test_a_text_may_have_several_transactions() -> None:
    found = parse_script("start transaction; commit; select a from t; start transaction; rollback;")
    assert [type(one.action) for one in found] == [
        parsed_actions.StartTransaction,
        parsed_actions.Commit,
        parsed_actions.Select,
        parsed_actions.StartTransaction,
        parsed_actions.Rollback,
    ]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("show tables; describe t; show locks; explain locks drop table t; use d", True),
        ("show tables; select a from t", False),  # a scan is a transaction
        ("abort compactions 1", False),
    ],
)
def test_what_only_reads(text: str, reads: bool) -> None:
    assert only_reads(parse_script(text)) is reads


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(BadStatement, match="it is empty"):
        parse_script(text)
