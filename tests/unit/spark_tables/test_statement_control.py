"""Errors of this package within those of Spark."""

from __future__ import annotations

from compactor.base.errors import NotConforming, Refused, WriteConflict
from compactor.spark_tables.statement_control import find_own_error

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed to commit: Traceback (most recent call last):
  File "compactor/spark_tables/keeper_client.py", line 1, in ask
compactor.base.errors.LostClaim: the first one of a chain

During handling of the above exception, another exception occurred:

compactor.base.errors.{}: {}
 SQLSTATE: 38000
"""


def test_the_error_that_left_a_process_of_spark_is_found() -> None:
    found = find_own_error(Exception(TRACE.format("Refused", "db.t: no. Do that")))
    assert type(found) is Refused
    assert str(found) == "db.t: no. Do that"


def test_a_conflict_names_its_winner() -> None:
    found = find_own_error(
        Exception(TRACE.format("WriteConflict", "db.t: transaction 7 wrote while transaction 9 waited"))
    )
    assert isinstance(found, WriteConflict)
    assert found.winner == 7


def test_a_value_that_an_expression_refuses_does_not_conform() -> None:
    text = "[USER_RAISED_EXCEPTION] compactor: NotConforming: db.t: column v: a value is no int: x SQLSTATE: P0001"
    found = find_own_error(Exception(text))
    assert type(found) is NotConforming
    assert str(found) == "db.t: column v: a value is no int: x"


def test_other_errors_stay_what_they_are() -> None:
    assert find_own_error(Exception("[UNRESOLVED_COLUMN] x")) is None
    assert find_own_error(Exception(TRACE.format("NoSuchError", "x"))) is None
