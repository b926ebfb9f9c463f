"""Sensors: wait for a change of the metastore, wait for requests to be done. Neither holds a worker slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.triggers.base import StartTriggerArgs


def marker_variable(metastore: str) -> str:
    """The Airflow variable that keeps the change marker which the last scan of ``metastore`` started from."""
    return f"compactor_marker__{metastore}"


def plain(marker: str) -> str:
    """The marker as the metastore gave it.

    Airflow writes as JSON what a trigger that ends its task pushes, and again when it is stored (``TaskSuccessEvent``), so
    that a text comes back in quotes. Kept so, it would never equal what the next trigger sees, which would fire forever.
    """
    return marker.strip('"')


class ChangeSensor(BaseSensorOperator):
    """Succeeds when there may be something to find; its value is the change marker then.

    The scheduler hands it straight to the triggerer, and the trigger ends it: no worker process in between.
    """

    template_fields: Sequence[str] = ("seen",)

    def __init__(self, *, metastore: str, poll_seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metastore = metastore
        self.poll_seconds = poll_seconds
        self.seen = f"{{{{ var.value.get('{marker_variable(metastore)}', '') }}}}"
        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="compactor.airflow.triggers.ChangeTrigger",
            trigger_kwargs={"metastore": metastore, "seen": self.seen, "poll_seconds": poll_seconds, "ends_task": True},
            next_method="execute_complete",
        )

    def execute(self, context: Any) -> None:
        """The way of ``dag.test`` and of executors that start it all the same: defer from here."""
        from compactor.airflow.triggers import ChangeTrigger

        self.defer(
            trigger=ChangeTrigger(
                metastore=self.metastore, seen=self.seen, poll_seconds=self.poll_seconds, ends_task=False
            ),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Any, event: str) -> str:
        return event


class RequestsSensor(BaseSensorOperator):
    """Waits until the requests ``ids`` are no longer queued or worked on; skipped where the form says not to wait.

    Raises:
        AirflowFailException: a request ended otherwise than compacted, or the time is over.
    """

    template_fields: Sequence[str] = ("ids",)

    def __init__(self, *, metastore: str, ids: Any, poll_seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metastore = metastore
        self.ids = ids
        self.poll_seconds = poll_seconds

    def execute(self, context: Any) -> None:
        if not context["params"]["wait"]:
            raise AirflowSkipException("not to be waited for")
        from compactor.airflow.triggers import EntriesTrigger

        self.defer(
            trigger=EntriesTrigger(
                metastore=self.metastore,
                ids=[int(entry) for entry in self.ids],
                poll_seconds=self.poll_seconds,
                timeout_seconds=float(self.timeout),
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=float(self.timeout) + 60),
        )

    def execute_complete(self, context: Any, event: Mapping[str, str]) -> dict[str, str]:
        from compactor.airflow import tasks

        wrong = {int(entry): state for entry, state in event.items() if not tasks.went_well(state)}
        if wrong:
            raise AirflowFailException(tasks.complaint(self.metastore, wrong))
        return dict(event)
