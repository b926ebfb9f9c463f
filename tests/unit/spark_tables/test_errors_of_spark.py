"""Errors of this package within those of Spark."""

from __future__ import annotations

from compactor.base.errors import NotConforming, Refused, WriteConflict
from compactor.spark_tables.errors_of_spark import typed

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed to commit: Traceback (most recent call last):
  File "compactor/spark_tables/client.py", line 1, in ask
compactor.base.errors.LostClaim: the first one of a chain

During handling of the above exception, another exception occurred:

compactor.base.errors.{}: {}
 SQLSTATE: 38000
"""


def test_the_error_that_left_a_process_of_spark_is_found() -> None:
    found = typed(Exception(TRACE.format("Refused", "db.t: no. Do that")))
    assert type(found) is Refused
    assert str(found) == "db.t: no. Do that"


def test_a_conflict_names_its_winner() -> None:
    found = typed(Exception(TRACE.format("WriteConflict", "db.t: transaction 7 wrote while transaction 9 waited")))
    assert isinstance(found, WriteConflict)
    assert found.winner == 7


def test_a_value_that_an_expression_refuses_does_not_conform() -> None:
    text = "[USER_RAISED_EXCEPTION] compactor: NotConforming: db.t: column v: a value is no int: x SQLSTATE: P0001"
    found = typed(Exception(text))
    assert type(found) is NotConforming
    assert str(found) == "db.t: column v: a value is no int: x"


def test_other_errors_stay_what_they_are() -> None:
    assert typed(Exception("[UNRESOLVED_COLUMN] x")) is None
    assert typed(Exception(TRACE.format("NoSuchError", "x"))) is None
