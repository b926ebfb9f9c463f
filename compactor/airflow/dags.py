"""Builds the DAGs. Parsing reads only Airflow's configuration, no database and no file."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Asset, AssetAlias, chain, get_current_context, task
from airflow.sdk.definitions.timetables.assets import AssetOrTimeSchedule
from airflow.sdk.definitions.timetables.trigger import DeltaTriggerTimetable

from compactor.airflow.assets import compacted, requested, tables
from compactor.airflow.configuration import airflow_pools, approval_bytes, boolean, dag_id, seconds, text
from compactor.airflow.form import fields, must_know_words, parse_form
from compactor.airflow.operators import CompactionSubmitOperator
from compactor.airflow.sensors import ChangeSensor, RequestsSensor, marker_variable, unquote_marker
from compactor.airflow.task_ends import BACKOFF, RETRIES, RETRY_DELAY, fail_without_retry

_START = datetime(2024, 1, 1, tzinfo=UTC)
#: For tasks that read a database, which may be restarting: a retry needs a pause.
_PATIENT: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2.0}
#: For tasks that launch: an application that cannot be launched is not tried often. The last try comes after five minutes,
#: for an API server that is away costs a try, too. Meanwhile the application continues.
_RECONNECTING: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 8.0,
}
#: Runs of the worker's DAG that may wait at a time, for slots or for long compactions. Each has a request of its own.
_WAITING_RUNS = 100


def compaction_dags(metastore: str = "default") -> list[DAG]:
    """Returns the five DAGs of one metastore."""
    return [
        _build_initiator(metastore),
        _build_worker(metastore),
        _build_cleaner(metastore),
        _build_housekeeper(metastore),
        _build_compact_table(metastore),
    ]


def _make_alias(asset: Asset) -> AssetAlias:
    """Returns the outlet that a task declares. Only what the task adds to it makes an event."""
    return AssetAlias(name=f"{asset.name}?")


def _refuse_unknown_words(known: Collection[str] = ()) -> None:
    """Fails the task before anything is done if the conf of its run has a word that the DAG does not know.

    Raises:
        AirflowFailException: it has; the message names the words.
    """
    run = get_current_context()["dag_run"]
    with fail_without_retry():
        must_know_words(run.dag_id, run.conf, known)


def _make_dag(name: str, metastore: str, *, schedule: Any, **more: Any) -> DAG:
    return DAG(
        dag_id=dag_id(name, metastore),
        schedule=schedule,
        start_date=_START,
        catchup=False,
        tags=["compactor", f"metastore:{metastore}"],
        default_args={"owner": "compactor"},
        **more,
    )


def _make_schedule(key: str, asset: Asset | None = None) -> Any:
    """Returns the schedule: every ``[compactor] key`` seconds, and on events of ``asset``."""
    timetable = DeltaTriggerTimetable(timedelta(seconds=seconds(key)))
    return timetable if asset is None else AssetOrTimeSchedule(timetable=timetable, assets=[asset])


def _build_initiator(metastore: str) -> DAG:
    asset, aborts = requested(metastore), compacted(metastore)
    alias, aborts_alias = _make_alias(asset), _make_alias(aborts)
    dag = _make_dag(
        "compaction_initiator",
        metastore,
        schedule="@continuous",
        max_active_runs=1,
        doc_md="Waits for a change of the metastore, then queues compactions for tables over a threshold.",
    )
    with dag:

        @task(outlets=[alias, aborts_alias], multiple_outputs=False, **_PATIENT)
        def initiate(marker: str, *, outlet_events: Any = None) -> dict[str, int]:
            from airflow.sdk import Variable

            from compactor.airflow import tasks

            _refuse_unknown_words()
            pools, wants_cleaning = tasks.scan(metastore)
            for pool, entries in pools.items():
                outlet_events[alias].add(asset, extra={"pool": pool, "entries": entries})
            if wants_cleaning:
                outlet_events[aborts_alias].add(aborts, extra={"because": "aborted transactions past their threshold"})
            Variable.set(marker_variable(metastore), unquote_marker(marker))
            return pools

        changed = ChangeSensor(
            task_id="changed",
            metastore=metastore,
            poll_seconds=seconds("poll_seconds"),
            retries=RETRIES,
            retry_delay=RETRY_DELAY,
            retry_exponential_backoff=BACKOFF,
        )
        initiate(changed.output)
    return dag


def _build_worker(metastore: str) -> DAG:
    asset = compacted(metastore)
    alias = _make_alias(asset)
    dag = _make_dag(
        "compaction_worker",
        metastore,
        schedule=_make_schedule("worker_interval", requested(metastore)),
        max_active_runs=_WAITING_RUNS,
        doc_md="Plans batches of queued requests and submits each to Spark under the queue of its pool.",
    )

    def give_back(context: Any) -> None:
        from compactor.airflow import tasks

        tasks.give_back_planned(metastore, context["ti"])

    with dag:

        @task(on_retry_callback=give_back, on_failure_callback=give_back, **_PATIENT)
        def plan() -> list[dict[str, Any]]:
            from compactor.airflow import tasks

            _refuse_unknown_words()
            return tasks.plan(metastore)

        @task(outlets=[alias], **_PATIENT)
        def announce(*, outlet_events: Any = None) -> int:
            from compactor.airflow import tasks

            entries = tasks.count_ready_for_cleaning(metastore)
            if entries:
                outlet_events[alias].add(asset, extra={"entries": entries})
            return entries

        @task(**_PATIENT)
        def of_pool(batches: list[dict[str, Any]], pool: str | None, others: list[str]) -> list[dict[str, Any]]:
            return [b for b in batches if (b["pool_name"] == pool if pool else b["pool_name"] not in others)]

        batches, pools = plan(), airflow_pools()
        # A mapped task has one Airflow pool, so each compaction pool with its own Airflow pool needs its own task.
        compacts = [
            _submit_batches(
                metastore, "compact", text("pool"), of_pool(batches, None, list(pools)) if pools else batches
            )
        ]
        for pool, airflow_pool in pools.items():
            chosen = of_pool.override(task_id=f"of_pool__{pool}")(batches, pool, [])
            compacts.append(_submit_batches(metastore, f"compact__{pool}", airflow_pool, chosen))
        # A teardown runs after failed batches too, and they still fail the run.
        chain(compacts, announce().as_teardown())
    return dag


def _build_cleaner(metastore: str) -> DAG:
    dag = _make_dag(
        "compaction_cleaner",
        metastore,
        schedule=_make_schedule("cleaner_interval", compacted(metastore)),
        max_active_runs=1,
        doc_md="Removes directories that no reader needs any longer, and reports what blocks the others.",
    )
    with dag:

        @task(multiple_outputs=False, **_PATIENT)
        def clean() -> dict[str, Any]:
            from compactor.airflow import tasks

            _refuse_unknown_words()
            with fail_without_retry():
                return tasks.clean_once(metastore)

        clean()
    return dag


def _build_housekeeper(metastore: str) -> DAG:
    dag = _make_dag(
        "acid_housekeeper",
        metastore,
        schedule=_make_schedule("housekeeper_interval"),
        max_active_runs=1,
        doc_md="Aborts transactions of dead clients, purges history and write sets, and raises alarms.",
    )
    with dag:

        @task(multiple_outputs=False, **_PATIENT)
        def keep_house() -> dict[str, Any]:
            from compactor.airflow import tasks

            _refuse_unknown_words()
            tasks.keep_waiting_batches(metastore)
            return tasks.keep_house_once(metastore)

        @task(multiple_outputs=False, **_PATIENT)
        def alarms() -> list[dict[str, object]]:
            from compactor.airflow import tasks

            _refuse_unknown_words()
            with fail_without_retry():
                return tasks.report_alarms(metastore, get_current_context())

        keep_house()
        alarms()  # independent of the housekeeper
    return dag


def _submit_batches(metastore: str, task_id: str, airflow_pool: str, batches: Any) -> Any:
    return CompactionSubmitOperator.partial(
        task_id=task_id,
        metastore=metastore,
        pool=airflow_pool,
        outlets=[tables(metastore)] if boolean("table_assets") else [],
        map_index_template="batch {{ task.batch_id }}",
        **_RECONNECTING,
    ).expand_kwargs(batches)


def _build_compact_table(metastore: str) -> DAG:
    asset = requested(metastore)
    alias = _make_alias(asset)
    approval = approval_bytes()
    dag = _make_dag(
        "compact_table",
        metastore,
        schedule=None,
        params=fields(),
        doc_md="`ALTER TABLE ... COMPACT`: queues requests for tables or partitions; thresholds do not apply.",
    )
    with dag:

        @task(multiple_outputs=False, **_PATIENT)
        def plan() -> dict[str, Any]:
            from compactor.airflow import tasks

            _refuse_unknown_words(fields())
            with fail_without_retry():
                form = parse_form(get_current_context()["params"])
                tables = tasks.list_tables(metastore, form.tables)
                needs_plans = form.dry_run or approval is not None
                plans = tasks.dry_run(metastore, tables, form.arguments) if needs_plans else []
            size = sum(int(str(plan["input_bytes"])) for plan in plans)
            return {"tables": tables, "arguments": form.arguments, "bytes": size, "plans": plans}

        @task.short_circuit(**_PATIENT)
        def not_only_a_dry_run() -> bool:
            return not get_current_context()["params"]["dry_run"]

        @task(outlets=[alias], trigger_rule="none_failed_min_one_success", **_PATIENT)
        def request(planned: dict[str, Any], *, outlet_events: Any = None) -> list[int]:
            from compactor.airflow import tasks

            with fail_without_retry():
                ids = tasks.request(metastore, planned["tables"], planned["arguments"])
            if ids:
                outlet_events[alias].add(asset, extra={"entries": len(ids)})
            return ids

        planned = plan()
        continues, ids = not_only_a_dry_run(), request(planned)
        planned >> continues
        if approval is None:
            continues >> ids
        else:
            continues >> _require_approval(approval, planned, ids)
        RequestsSensor(
            task_id="done",
            metastore=metastore,
            ids=ids,
            poll_seconds=seconds("poll_seconds"),
            timeout=timedelta(hours=24).total_seconds(),
            retries=RETRIES,
            retry_delay=RETRY_DELAY,
            retry_exponential_backoff=BACKOFF,
        )
    return dag


def _require_approval(limit: int, planned: Any, then: Any) -> Any:
    """Asks a person for approval if more than ``limit`` bytes would be read; a rejection ends the run."""

    @task.branch(**_PATIENT)
    def is_large(planned: dict[str, Any]) -> str:
        return "approve" if planned["bytes"] > limit else "request"

    large = is_large(planned)
    approve = ApprovalOperator(
        task_id="approve",
        subject="Compact {{ ti.xcom_pull('plan')['tables'] | join(', ') }}",
        body="It would read {{ ti.xcom_pull('plan')['bytes'] }} bytes. The log of task plan has each partition.",
    )
    large >> [approve, then]
    approve >> then
    return large
