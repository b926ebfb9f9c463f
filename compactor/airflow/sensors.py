"""Sensors that wait until the metastore has changed, requests have ended, or a compaction is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.triggers.base import StartTriggerArgs

from compactor.airflow.configuration import check_seconds, seconds
from compactor.airflow.task_ends import BACKOFF, RETRIES, RETRY_DELAY, fail_without_retry


def marker_variable(metastore: str) -> str:
    """Returns the name of the Airflow variable with the change marker from which the last scan started."""
    return f"compactor_marker__{metastore}"


def unquote_marker(marker: str) -> str:
    """Returns the marker without the quotes that Airflow adds.

    Airflow encodes the value of a trigger that ends its task (``TaskSuccessEvent``) as JSON twice. A stored marker with
    quotes would never equal the marker that the next trigger reads, and that trigger would always fire at once.
    """
    return marker.strip('"')


class ChangeSensor(BaseSensorOperator):
    """Succeeds when a scan may find something; its value is the change marker.

    The scheduler passes it straight to the triggerer, and the trigger ends it, without a worker process in between.
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
        """Defers the task, for ``dag.test`` and for executors that start it all the same."""
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
    """Waits until the requests ``ids`` have ended; skipped if the form says not to wait.

    Raises:
        AirflowFailException: a request was not compacted, or the wait timed out.
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
        states = tasks.read_states(self.metastore, ids)
        if tasks.are_under_way(states):
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

        failed = {int(entry): state for entry, state in event.items() if not tasks.is_success(state)}
        if failed:
            raise AirflowFailException(tasks.describe_failures(self.metastore, failed))
        return dict(event)


class CompactionDueSensor(BaseSensorOperator):
    """Waits until a table, partition or table of a database exceeds a threshold of the initiator.

    The thresholds are ``hive.compactor.delta.num.threshold``, ``hive.compactor.delta.pct.threshold`` and those of aborted
    transactions. The value lists the due compactions: ``table``, ``partition``, ``type`` and ``because``, the most urgent
    first, and no more than Airflow can map. Paused and queued ones count as due. Without ``deferrable``, the sensor holds
    a worker slot.

    Raises:
        ValueError: both or neither of ``table`` and ``database`` are given.
        BadSetting: ``poke_interval`` of a deferrable one is not above 0.
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
        retries: int | None = RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        retry_exponential_backoff: float = BACKOFF,
        **kwargs: Any,
    ) -> None:
        if (table is None) == (database is None) or (partition is not None and table is None):
            raise ValueError("expected: either table=DATABASE.TABLE, with or without a partition, or database=")
        kwargs.setdefault("poke_interval", seconds("poll_seconds"))
        super().__init__(
            retries=retries,
            retry_delay=retry_delay,
            retry_exponential_backoff=retry_exponential_backoff,
            **kwargs,
        )
        if deferrable:
            check_seconds("poke_interval", float(self.poke_interval))
        self.table = table
        self.partition = partition
        self.database = database
        self.metastore = metastore
        self.deferrable = deferrable

    def poke(self, context: Any) -> PokeReturnValue:
        from compactor.airflow import tasks

        with fail_without_retry():
            due = tasks.list_due(self.metastore, table=self.table, partition=self.partition, database=self.database)
        return PokeReturnValue(is_done=bool(due), xcom_value=due)

    def execute(self, context: Any) -> Any:
        """Looks once, then waits in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if not result.is_done:
            self._defer()
        return result.xcom_value

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
