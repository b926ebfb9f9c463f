"""Compacts a table within a user's own DAG: ``CompactTableOperator``, and ``@task.compact``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import AssetAlias, BaseOperator
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, determine_kwargs, task_decorator_factory
from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from compactor.airflow.assets import requested
from compactor.airflow.configuration import check_seconds, seconds
from compactor.airflow.links import HistoryLink, SparkLink
from compactor.airflow.task_ends import BACKOFF, RETRIES, RETRY_DELAY, fail_without_retry

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_RETURNED = ("table", "partition", "type")  #: what a function of ``@task.compact`` may return


class CompactTableOperator(BaseOperator):
    """Queues compactions of a table, waits until they have ended, and fails with their own error.

    The worker compacts.

    Its value lists the requests: ``table``, ``partition``, ``compaction``, ``type``, ``because`` and, if it waited,
    ``state``. A run requests each compaction once, however often its task is tried or cleared; only failed ones are
    requested again. It waits for compactions that are already queued, without queueing them twice, and each further try
    waits for the same ones. A task that loses its worker or its trigger is tried again, five times by default. If other
    tasks are mapped over its value, it requests as many as Airflow can map, the most urgent first.

    Args:
        table: ``DATABASE.TABLE``.
        partition: as in SHOW PARTITIONS, or ``k=v,k=v``; None means every partition.
        type: ``minor``, ``major`` or ``rebalance``; with ``auto`` the initiator's rules choose.
        only_if_due: requests nothing that is below every threshold.
        deferrable: waits in the triggerer, without a slot.
        wait_for: the longest wait; then the task fails, and the compactions continue.
        compaction_pool: a pool of Compactor; None means the table's own.
        properties: settings of this request alone.
    """

    template_fields: Sequence[str] = ("table", "partition", "type", "compaction_pool", "properties")
    operator_extra_links = (HistoryLink(), SparkLink())
    ui_color = "#d8f0e2"
    compactions: Sequence[int] = ()  #: ids of the requests, once they are queued

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        type: str = "auto",
        only_if_due: bool = True,
        wait: bool = True,
        deferrable: bool = True,
        metastore: str = "default",
        wait_for: timedelta = timedelta(hours=24),
        poll_seconds: float | None = None,
        compaction_pool: str | None = None,
        properties: Mapping[str, str] | None = None,
        retries: int | None = RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        retry_exponential_backoff: float = BACKOFF,
        **kwargs: Any,
    ) -> None:
        self._requested = AssetAlias(name=f"{requested(metastore).name}?")
        kwargs["outlets"] = [*(kwargs.get("outlets") or ()), self._requested]
        super().__init__(
            retries=retries,
            retry_delay=retry_delay,
            retry_exponential_backoff=retry_exponential_backoff,
            **kwargs,
        )
        self.table = table
        self.partition = partition
        self.type = type
        self.only_if_due = only_if_due
        self.wait = wait
        self.deferrable = deferrable
        self.metastore = metastore
        self.wait_for = wait_for
        self.poll_seconds = (
            seconds("poll_seconds") if poll_seconds is None else check_seconds("poll_seconds", poll_seconds)
        )
        self.compaction_pool = compaction_pool
        self.properties = dict(properties or {})

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Requests the compactions that are due, notifies the worker, and waits."""
        from compactor.airflow import tasks

        requests = self._request(context)
        for request in requests:
            self.log.info("%s", request)
        if not requests:
            self.log.info("%s: nothing is due", self.table)
            return []
        context["outlet_events"][self._requested].add(requested(self.metastore), extra={"entries": len(requests)})
        self.compactions = ids = [request["compaction"] for request in requests]
        if not self.wait:
            return requests
        states = tasks.read_states(self.metastore, ids)
        if self.deferrable and tasks.are_under_way(states):
            self._defer(ids, requests)
        return self.execute_complete(context, self._wait(ids), requests)

    def execute_complete(self, context: Any, event: Mapping[str, str], requests: Any) -> list[dict[str, Any]]:
        """Ends the task as its compactions ended.

        Raises:
            AirflowFailException: a compaction failed, was cancelled, or is still running after the longest wait.
        """
        from compactor.airflow import tasks

        self.compactions = [int(entry) for entry in event]
        failed = {int(entry): state for entry, state in event.items() if not tasks.is_success(state)}
        if failed:
            raise AirflowFailException(tasks.describe_failures(self.metastore, failed))
        return [{**request, "state": event[str(request["compaction"])]} for request in requests]

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage:
        """Returns the compacted tables with rows, bytes and files, for OpenLineage's provider."""
        from compactor.airflow.assets import make_lineage

        return make_lineage(self.metastore, self.compactions)

    def _request(self, context: Context) -> list[dict[str, Any]]:
        from compactor.airflow import tasks
        from compactor.airflow.waiting_batches import most_mapped

        ti = context["ti"]
        words: dict[str, Any] = {"table": self.table, "partition": self.partition or None, "type": self.type}
        words |= {"pool": self.compaction_pool or None, "properties": self.properties}
        bound = {"most": most_mapped()} if ti.map_index < 0 and self._is_mapped_over() else {}
        with fail_without_retry():
            return tasks.request_once(
                self.metastore, words, tasks.name_task_of_run(ti), only_if_due=self.only_if_due, **bound
            )

    def _is_mapped_over(self) -> bool:
        return self.get_dag() is not None and next(self.iter_mapped_dependants(), None) is not None

    def _defer(self, ids: Sequence[int], requests: Sequence[dict[str, Any]]) -> None:
        from compactor.airflow.triggers import EntriesTrigger

        longest = self.wait_for.total_seconds()
        self.defer(
            trigger=EntriesTrigger(
                metastore=self.metastore, ids=ids, poll_seconds=self.poll_seconds, timeout_seconds=longest
            ),
            method_name="execute_complete",
            kwargs={"requests": list(requests)},
            timeout=self.wait_for + timedelta(seconds=60),
        )

    def _wait(self, ids: Sequence[int]) -> dict[str, str]:
        from compactor.airflow import tasks

        until = time.monotonic() + self.wait_for.total_seconds()
        while True:
            states = tasks.read_states(self.metastore, ids)
            if time.monotonic() >= until or not tasks.are_under_way(states):
                return {str(entry): state for entry, state in states.items()}
            time.sleep(self.poll_seconds)


class _DecoratedCompactTable(DecoratedOperator, CompactTableOperator):
    """Compacts the table that a function returns.

    It returns a name, or a mapping with ``table``, ``partition`` and ``type``.
    """

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *CompactTableOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = dict(DecoratedOperator.template_fields_renderers)
    custom_operator_name = "@task.compact"

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, table=SET_DURING_EXECUTION, **kwargs)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        call = determine_kwargs(self.python_callable, self.op_args, {**context, **self.op_kwargs})
        result = self.python_callable(*self.op_args, **call)
        words = {"table": result} if isinstance(result, str) else dict(result) if isinstance(result, Mapping) else {}
        if not words.get("table") or not words.keys() <= set(_RETURNED):
            raise AirflowFailException(
                f"{self.task_id}: the function returned {result!r}; expected: DATABASE.TABLE, or a mapping with "
                f"{', '.join(_RETURNED)}"
            )
        for name, value in words.items():
            setattr(self, name, value)
        return CompactTableOperator.execute(self, context)


def compact_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Returns the decorator ``@task.compact``, with the arguments of ``CompactTableOperator``."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_DecoratedCompactTable, **kwargs
    )
