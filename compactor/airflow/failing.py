"""Errors of ours as Airflow is to take them: most need a person, so that another try would only repeat them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from compactor.base.errors import CompactorError, DatabaseUnavailable


@contextmanager
def fail_without_retry() -> Iterator[None]:
    """Fails the task with our message and without a retry, since these errors need a person.

    A database that is down may come back, so that error is left to the task's retries.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        raise AirflowFailException(str(error)) from error
