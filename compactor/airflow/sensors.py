"""Sensors that wait for a change of the metastore, for requests to end, and for something to be due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.triggers.base import StartTriggerArgs

from compactor.airflow.configuration import seconds
from compactor.airflow.task_ends import fail_without_retry


def marker_variable(metastore: str) -> str:
    """Returns the name of the Airflow variable with the change marker from which the last scan started."""
    return f"compactor_marker__{metastore}"


def plain(marker: str) -> str:
    """Returns the marker as the metastore gave it.

    Airflow encodes the value of a trigger that ends its task (``TaskSuccessEvent``) as JSON twice, so a text comes back in
    quotes. Stored with them, it would never equal the marker that the next trigger reads, which would fire forever.
    """
    return marker.strip('"')


class ChangeSensor(BaseSensorOperator):
    """Succeeds when a scan may find something, with the change marker as its value.

    The scheduler hands it straight to the triggerer, and the trigger ends it, without a worker process in between.
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
        """Defers from here, for ``dag.test`` and for executors that start the task anyway."""
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
    """Waits until the requests ``ids`` are no longer queued or being worked on; skipped if the form says not to wait.

    Raises:
        AirflowFailException: a request did not end as compacted, or the wait timed out.
    """

    template_fields: Sequence[str] = ("ids",)

    def __init__(self, *, metastore: str, ids: Any, poll_seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metastore = metastore
        self.ids = ids
        self.poll_seconds = poll_seconds

    def execute(self, context: Any) -> dict[str, str]:
        """Looks once, then waits in the triggerer."""
        if not context["params"]["wait"]:
            raise AirflowSkipException("the form says not to wait")
        from compactor.airflow import tasks

        ids = [int(entry) for entry in self.ids]
        states = tasks.states(self.metastore, ids)
        if tasks.under_way(states):  # a trigger that fires at once may be lost on a busy scheduler
            self._defer(ids)
        return self.execute_complete(context, {str(entry): state for entry, state in states.items()})

    def _defer(self, ids: Sequence[int]) -> None:
        from compactor.airflow.triggers import EntriesTrigger

        self.defer(
            trigger=EntriesTrigger(
                metastore=self.metastore,
                ids=ids,
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
            raise AirflowFailException(tasks.failure_message(self.metastore, wrong))
        return dict(event)


class CompactionDueSensor(BaseSensorOperator):
    """Waits until a table, one of its partitions, or anything in a database is over a threshold of the initiator:
    ``hive.compactor.delta.num.threshold``, ``hive.compactor.delta.pct.threshold`` or those of aborted transactions.

    Its value is the list of what is due: ``table``, ``partition``, ``type`` and ``because``. What is paused or queued
    already is due, too. It holds no worker slot, unless ``deferrable`` is false.

    Raises:
        ValueError: both or neither of ``table`` and ``database`` are given.
    """

    template_fields: Sequence[str] = ("table", "partition", "database")

    def __init__(
        self,
        *,
        table: str | None = None,
        partition: str | None = None,
        database: str | None = None,
        metastore: str = "default",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        if (table is None) == (database is None) or (partition is not None and table is None):
            raise ValueError("wanted: either table=DATABASE.TABLE, with or without a partition, or database=")
        kwargs.setdefault("poke_interval", seconds("poll_seconds"))
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.database = database
        self.metastore = metastore
        self.deferrable = deferrable

    def poke(self, context: Any) -> PokeReturnValue:
        from compactor.airflow import tasks

        with fail_without_retry():
            found = tasks.due(self.metastore, table=self.table, partition=self.partition, database=self.database)
        return PokeReturnValue(is_done=bool(found), xcom_value=found)

    def execute(self, context: Any) -> Any:
        """Looks once, then waits in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        looked = self.poke(context)
        if not looked.is_done:
            self._defer()
        return looked.xcom_value

    def _defer(self) -> None:
        from compactor.airflow.triggers import DueTrigger

        self.defer(
            trigger=DueTrigger(
                metastore=self.metastore,
                table=self.table,
                partition=self.partition,
                database=self.database,
                poll_seconds=float(self.poke_interval),
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=float(self.timeout)),
        )

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        if "error" in event:
            raise AirflowFailException(event["error"])
        return event["due"]
