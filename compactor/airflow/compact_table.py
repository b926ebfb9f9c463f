"""Compacts a table within somebody's own DAG: ``CompactTableOperator``, and ``@task.compact``."""

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
from compactor.airflow.configuration import seconds
from compactor.airflow.links import HistoryLink, SparkLink
from compactor.airflow.task_ends import fail_without_retry

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_RETURNED = ("table", "partition", "type")  #: what a function of ``@task.compact`` may return


class CompactTableOperator(BaseOperator):
    """Queues compactions of a table for the worker, waits until they have ended, and fails with their own error.

    Its value is a list of what was asked for: ``table``, ``partition``, ``compaction``, ``type``, ``because`` and, if it
    waited, ``state``. The same run asks once, however often its task is tried or cleared; only what has failed is asked
    again. What somebody else has queued already is waited for, not queued twice.

    Args:
        table: ``DATABASE.TABLE``.
        partition: as SHOW PARTITIONS names it, or ``k=v,k=v``; None means every one.
        type: ``minor``, ``major``, ``rebalance``; ``auto`` is what the initiator would choose.
        only_if_due: leaves alone what is below every threshold.
        deferrable: waits in the triggerer, without a slot.
        wait_for: the longest wait, after which the task fails and the compactions go on.
        compaction_pool: of Compactor; None is the table's own.
        properties: settings of this request alone.
    """

    template_fields: Sequence[str] = ("table", "partition", "type", "compaction_pool", "properties")
    operator_extra_links = (HistoryLink(), SparkLink())
    ui_color = "#d8f0e2"
    compactions: Sequence[int] = ()  #: the requests that were asked for, once they were

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
        **kwargs: Any,
    ) -> None:
        self._requested = AssetAlias(name=f"{requested(metastore).name}?")
        kwargs["outlets"] = [*(kwargs.get("outlets") or ()), self._requested]
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.type = type
        self.only_if_due = only_if_due
        self.wait = wait
        self.deferrable = deferrable
        self.metastore = metastore
        self.wait_for = wait_for
        self.poll_seconds = poll_seconds or seconds("poll_seconds")
        self.compaction_pool = compaction_pool
        self.properties = dict(properties or {})

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Asks for what is due, lets the worker know, and waits."""
        from compactor.airflow import tasks

        asked = self._ask(context)
        for one in asked:
            self.log.info("%s", one)
        if not asked:
            self.log.info("%s: nothing is due", self.table)
            return []
        context["outlet_events"][self._requested].add(requested(self.metastore), extra={"entries": len(asked)})
        self.compactions = ids = [one["compaction"] for one in asked]
        if not self.wait:
            return asked
        states = tasks.states(self.metastore, ids)
        if self.deferrable and tasks.under_way(states):  # one that fires at once may be lost on a busy scheduler
            self._defer(ids, asked)
        return self.execute_complete(context, self._wait(ids), asked)

    def execute_complete(self, context: Any, event: Mapping[str, str], asked: Any) -> list[dict[str, Any]]:
        """Ends the task as its compactions ended.

        Raises:
            AirflowFailException: one failed, was cancelled, or goes on beyond the longest wait.
        """
        from compactor.airflow import tasks

        self.compactions = [int(entry) for entry in event]
        wrong = {int(entry): state for entry, state in event.items() if not tasks.went_well(state)}
        if wrong:
            raise AirflowFailException(tasks.failure_message(self.metastore, wrong))
        return [{**one, "state": event[str(one["compaction"])]} for one in asked]

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage:
        """Returns the tables that were compacted, with rows, bytes and files; OpenLineage's provider asks for it."""
        from compactor.airflow.assets import lineage_of

        return lineage_of(self.metastore, self.compactions)

    def _ask(self, context: Context) -> list[dict[str, Any]]:
        from compactor.airflow import tasks

        ti = context["ti"]
        run = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
        words: dict[str, Any] = {"table": self.table, "partition": self.partition or None, "type": self.type}
        words |= {"pool": self.compaction_pool or None, "properties": self.properties}
        with fail_without_retry():
            return tasks.request_once(self.metastore, words, run, only_if_due=self.only_if_due)

    def _defer(self, ids: Sequence[int], asked: Sequence[dict[str, Any]]) -> None:
        from compactor.airflow.triggers import EntriesTrigger

        longest = self.wait_for.total_seconds()
        self.defer(
            trigger=EntriesTrigger(
                metastore=self.metastore, ids=ids, poll_seconds=self.poll_seconds, timeout_seconds=longest
            ),
            method_name="execute_complete",
            kwargs={"asked": list(asked)},
            timeout=self.wait_for + timedelta(seconds=60),
        )

    def _wait(self, ids: Sequence[int]) -> dict[str, str]:
        from compactor.airflow import tasks

        until = time.monotonic() + self.wait_for.total_seconds()
        while True:
            states = tasks.states(self.metastore, ids)
            if time.monotonic() >= until or not tasks.under_way(states):
                return {str(entry): state for entry, state in states.items()}
            time.sleep(self.poll_seconds)


class _DecoratedCompactTable(DecoratedOperator, CompactTableOperator):
    """Compacts the table whose name a function returns, or a mapping with ``table``, ``partition`` and ``type``."""

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *CompactTableOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = dict(DecoratedOperator.template_fields_renderers)
    custom_operator_name = "@task.compact"

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, table=SET_DURING_EXECUTION, **kwargs)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        call = determine_kwargs(self.python_callable, self.op_args, {**context, **self.op_kwargs})
        found = self.python_callable(*self.op_args, **call)
        words = {"table": found} if isinstance(found, str) else dict(found) if isinstance(found, Mapping) else {}
        if not words.get("table") or not words.keys() <= set(_RETURNED):
            raise AirflowFailException(
                f"{self.task_id}: {found!r} was returned; wanted: DATABASE.TABLE, or a mapping with {', '.join(_RETURNED)}"
            )
        for name, value in words.items():
            setattr(self, name, value)
        return CompactTableOperator.execute(self, context)


def compact_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Returns the decorator ``@task.compact``, with the arguments of ``CompactTableOperator``."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_DecoratedCompactTable, **kwargs
    )
