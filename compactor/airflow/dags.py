"""The factory of the DAGs. Parsing it reads Airflow's configuration and nothing else: no database, no file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetAlias, Param, get_current_context, task
from airflow.sdk.definitions.timetables.assets import AssetOrTimeSchedule
from airflow.sdk.definitions.timetables.trigger import DeltaTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException

from compactor.airflow.configuration import dag_id, seconds, text
from compactor.airflow.operators import CompactionSubmitOperator
from compactor.airflow.sensors import ChangeSensor, RequestsSensor, marker_variable
from compactor.errors import CompactorError, DatabaseUnavailable

_START = datetime(2024, 1, 1, tzinfo=UTC)
#: Of tasks that look into a database which may be restarting: one run after the other without a pause helps nobody.
_PATIENT: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2.0}
#: A task whose worker is lost: the next try finds the application that goes on meanwhile.
_RECONNECTING: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}
_TYPES = {"minor": "Minor: merge deltas", "major": "Major: a new base", "rebalance": "Rebalance: even out the buckets"}


def compaction_dags(metastore: str = "default") -> list[DAG]:
    """The five DAGs of one metastore."""
    return [
        _initiator(metastore),
        _worker(metastore),
        _cleaner(metastore),
        _housekeeper(metastore),
        _compact_table(metastore),
    ]


@contextmanager
def told_once() -> Iterator[None]:
    """Fails the task with our message and without another try: what a person must act on, trying again won't mend.

    A database that is away may come back, so that is left to the task's retries.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        raise AirflowFailException(str(error)) from error


def requested(metastore: str) -> Asset:
    """Events of this asset say that requests wait for a worker."""
    return Asset(name=f"hive://{metastore}/-/requested", uri=f"hive://{metastore}/-/requested")


def compacted(metastore: str) -> Asset:
    """Events of this asset say that requests wait for the cleaner."""
    return Asset(name=f"hive://{metastore}/-/compacted", uri=f"hive://{metastore}/-/compacted")


def _alias(asset: Asset) -> AssetAlias:
    """What a task declares as outlet: an event comes only of what it adds, so none where there is no work."""
    return AssetAlias(name=f"{asset.name}?")


def _dag(name: str, metastore: str, *, schedule: Any, **more: Any) -> DAG:
    return DAG(
        dag_id=dag_id(name, metastore),
        schedule=schedule,
        start_date=_START,
        catchup=False,
        tags=["compactor", f"metastore:{metastore}"],
        default_args={"owner": "compactor"},
        **more,
    )


def _every(key: str, asset: Asset | None = None) -> Any:
    """Each ``[compactor] key`` seconds, and on events of ``asset``."""
    timetable = DeltaTriggerTimetable(timedelta(seconds=seconds(key)))
    return timetable if asset is None else AssetOrTimeSchedule(timetable=timetable, assets=[asset])


def _initiator(metastore: str) -> DAG:
    asset, aborts = requested(metastore), compacted(metastore)
    alias, aborts_alias = _alias(asset), _alias(aborts)
    dag = _dag(
        "compaction_initiator",
        metastore,
        schedule="@continuous",
        max_active_runs=1,
        doc_md="Waits for a change of the metastore, then queues what a threshold says is due.",
    )
    with dag:

        @task(outlets=[alias, aborts_alias], multiple_outputs=False, **_PATIENT)
        def initiate(marker: str, *, outlet_events: Any = None) -> dict[str, int]:
            from airflow.sdk import Variable

            from compactor.airflow import passes

            pools, wants_cleaning = passes.scan(metastore)
            for pool, entries in pools.items():
                outlet_events[alias].add(asset, extra={"pool": pool, "entries": entries})
            if wants_cleaning:
                outlet_events[aborts_alias].add(aborts, extra={"because": "aborted transactions past their threshold"})
            Variable.set(marker_variable(metastore), marker)
            return pools

        changed = ChangeSensor(task_id="changed", metastore=metastore, poll_seconds=seconds("poll_seconds"))
        initiate(changed.output)
    return dag


def _worker(metastore: str) -> DAG:
    asset = compacted(metastore)
    alias = _alias(asset)
    dag = _dag(
        "compaction_worker",
        metastore,
        schedule=_every("worker_interval", requested(metastore)),
        doc_md="Plans batches of queued requests and submits each to Spark under the queue of its pool.",
    )
    with dag:

        @task(**_PATIENT)
        def plan() -> list[dict[str, Any]]:
            from compactor.airflow import passes

            return passes.plan(metastore)

        @task(outlets=[alias])
        def announce(*, outlet_events: Any = None) -> int:
            from compactor.airflow import passes

            entries = passes.ready_for_cleaning(metastore)
            if entries:
                outlet_events[alias].add(asset, extra={"entries": entries})
            return entries

        compact = CompactionSubmitOperator.partial(
            task_id="compact",
            metastore=metastore,
            pool=text("pool"),
            map_index_template="batch {{ task.batch_id }}",
            **_RECONNECTING,
        ).expand_kwargs(plan())
        # A teardown: it runs whatever became of the batches, and does not hide from the run that one failed.
        compact >> announce().as_teardown()
    return dag


def _cleaner(metastore: str) -> DAG:
    dag = _dag(
        "compaction_cleaner",
        metastore,
        schedule=_every("cleaner_interval", compacted(metastore)),
        max_active_runs=1,
        doc_md="Removes directories that no reader can need any more; what waits says for whom.",
    )
    with dag:

        @task(multiple_outputs=False, **_PATIENT)
        def clean() -> dict[str, Any]:
            from compactor.airflow import passes

            with told_once():
                return passes.clean_once(metastore)

        clean()
    return dag


def _housekeeper(metastore: str) -> DAG:
    dag = _dag(
        "acid_housekeeper",
        metastore,
        schedule=_every("housekeeper_interval"),
        max_active_runs=1,
        doc_md="Aborts transactions whose client is gone, and keeps history and write sets short.",
    )
    with dag:

        @task(multiple_outputs=False, **_PATIENT)
        def keep_house() -> dict[str, Any]:
            from compactor.airflow import passes

            return passes.keep_house_once(metastore)

        keep_house()
    return dag


def _form() -> dict[str, Param]:
    """The form of ``compact_table``. Free text is judged by the first task, whose message is better than a schema's."""
    return {
        "table": Param("", type="string", title="Table", description="DATABASE.TABLE"),
        "partition": Param(
            None,
            type=["null", "string"],
            title="Partition",
            description="As in SHOW PARTITIONS, or k=v,k=v with plain values. Empty: every partition.",
        ),
        "type": Param("major", type="string", enum=list(_TYPES), values_display=_TYPES, title="Type"),
        "pool": Param(
            None, type=["null", "string"], title="Pool", description="Compaction pool. Empty: the table's own."
        ),
        "properties": Param(
            {},
            type=["null", "object"],
            title="Properties",
            description='WITH OVERWRITE TBLPROPERTIES, for example {"compactor.hive.compactor.job.queue": "etl"}',
        ),
        "wait": Param(True, type="boolean", title="Wait", description="Until a worker is done with it."),
    }


def _compact_table(metastore: str) -> DAG:
    asset = requested(metastore)
    alias = _alias(asset)
    dag = _dag(
        "compact_table",
        metastore,
        schedule=None,
        params=_form(),
        doc_md="`ALTER TABLE ... COMPACT`: queues one request for a table or partition; thresholds do not apply.",
    )
    with dag:

        @task(outlets=[alias])
        def request(*, outlet_events: Any = None) -> list[int]:
            from compactor.airflow import passes

            with told_once():
                ids = passes.request(metastore, passes.check_parameters(get_current_context()["params"]))
            if ids:
                outlet_events[alias].add(asset, extra={"entries": len(ids)})
            return ids

        RequestsSensor(
            task_id="done",
            metastore=metastore,
            ids=request(),
            poll_seconds=seconds("poll_seconds"),
            timeout=timedelta(hours=24).total_seconds(),
        )
    return dag
