from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from compactor.airflow.failing import fail_without_retry
from compactor.base.errors import DatabaseUnavailable, Refused


def test_what_needs_a_person_is_not_tried_again() -> None:
    with pytest.raises(AirflowFailException, match="the table is external"), fail_without_retry():
        raise Refused("the table is external")


def test_a_database_that_is_down_is_tried_again() -> None:
    with pytest.raises(DatabaseUnavailable), fail_without_retry():
        raise DatabaseUnavailable("it restarts")
