"""The work of the DAGs' tasks, in plain values: passes of roles, requests, batches, alarms.

Imported when a task runs, not to parse DAGs. Each function is the work of another task, and imports what that task needs: no
task pays for the roles of the others. The gauges are ``compactor.<metastore>.<reading>`` and
``compactor.<metastore>.alarms``, sent by statsd or OpenTelemetry as Airflow is configured.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Variable
from airflow.sdk.module_loading import import_string
from airflow.sdk.observability import stats

from compactor.airflow import waiting_batches
from compactor.airflow.configuration import only_pools, text
from compactor.airflow.hooks import CompactorHook
from compactor.airflow.options import OPTIONS
from compactor.airflow.task_ends import fail_without_retry
from compactor.base.errors import BadSetting, CompactorError, LaunchFailed, NotFound, Refused
from compactor.base.redaction import redact_plain
from compactor.compaction.pool_policy import DEFAULT
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.site.finding import Level
from compactor.site.mode import Mode, may_somewhere

if TYPE_CHECKING:
    from compactor.answers.alarms import Alarm
    from compactor.answers.preview import Preview
    from compactor.answers.readings import Readings
    from compactor.launch.batch_watch import BatchProgress
    from compactor.requests.request import Enqueued, RequestWords
    from compactor.site.site import Site
    from compactor.state.runs import Run

log = logging.getLogger(__name__)
#: States of entries that are queued or running.
_UNDER_WAY = frozenset({State.INITIATED.label, State.WORKING.label})
_SUCCESSES = frozenset({State.READY_FOR_CLEANING.label, State.SUCCEEDED.label, State.REFUSED.label})


def read_marker(metastore: str) -> tuple[str, float]:
    """Reads the change marker, with a digest of the settings, and the interval of checks.

    The interval is ``hive.compactor.check.interval``, in seconds.
    """
    from compactor.metastore.change_marker import change_marker

    with CompactorHook(metastore).get_conn() as site:
        interval = site.settings.milliseconds("hive.compactor.check.interval") / 1000
        settings = hashlib.sha256(
            repr((site.settings.explain(), dict(site.settings.database_modes))).encode()
        ).hexdigest()
        return f"{change_marker(site.metastore)}-{settings[:16]}", interval


def scan(metastore: str) -> tuple[dict[str, int], bool]:
    """Runs one pass of the initiator.

    Returns:
        The number of entries waiting for a worker, by pool ("" for none); and whether aborted transactions exceed their
        threshold, which is the cleaner's work.
    """
    from compactor.initiator.initiator import initiate

    with CompactorHook(metastore).get_conn() as site:
        scanned = initiate(site)
        log.info("initiator: %s", scanned.to_json())
        return count_waiting(site), scanned.wants_cleaning


def count_waiting(site: Site) -> dict[str, int]:
    """Counts, by pool, the waiting entries that our worker DAG takes and no batch has reserved."""
    if not may_somewhere(site.settings, Mode.COMPACT):
        return {}
    reserved = site.state.batches.reserved(site.name) if site.state is not None else frozenset()
    pools = only_pools()
    entries = [
        entry
        for entry in site.metastore.entries.waiting()
        if entry.id not in reserved and (pools is None or (entry.pool or DEFAULT) in pools)
    ]
    return dict(Counter(entry.pool or "" for entry in entries))


def plan(metastore: str) -> list[dict[str, Any]]:
    """Plans batches of the waiting entries, as arguments of ``CompactionSubmitOperator``.

    Plans as many as Airflow can map; the other entries wait for the next run.
    """
    from compactor.batches.assembly import plan_batches

    with CompactorHook(metastore).get_conn() as site:
        if not may_somewhere(site.settings, Mode.COMPACT):
            log.info("metastore %s: compactor.mode leaves compactions to Hive's workers", metastore)
            return []
        ti = waiting_batches.current_task()
        run = None if ti is None else waiting_batches.name_run(ti)
        if run is not None:
            waiting_batches.end_marked(site)
            waiting_batches.keep_or_give_back(site, run)
        batches = plan_batches(
            site,
            only_pools(),
            most=waiting_batches.most_mapped(),
            task_for=lambda pool, planned: None if run is None else waiting_batches.name_task(run, pool, planned),
        )
    pool = text("pool")
    if batches and pool != OPTIONS["pool"].default:
        # A task cannot list the pools, and Airflow lets a task with an unknown pool wait silently.
        log.info("batches wait for a slot of pool %s; if it is missing: airflow pools set %s 2 Spark", pool, pool)
    for batch in batches:
        log.info("batch %s: %s entries, %s bytes, pool %s", batch.batch_id, batch.entries, batch.bytes, batch.pool)
    return [
        {
            "batch_id": batch.batch_id,
            "pool_name": batch.pool,
            "job": batch.job,
            "max_seconds": batch.max_seconds,
            "queue_name": batch.queue,
            "run_as": batch.run_as,
            "planned_at": batch.planned_at,
            "conf": dict(batch.conf),
        }
        for batch in batches
    ]


def keep_waiting_batches(metastore: str) -> None:
    """See ``waiting_batches.keep_or_give_back`` and ``end_marked``."""
    with CompactorHook(metastore).get_conn() as site:
        if site.state is not None:
            waiting_batches.end_marked(site)
            waiting_batches.keep_or_give_back(site)


def give_back_planned(metastore: str, ti: Any) -> None:
    """Gives back what the task ``plan`` of this run has planned and could not hand on."""
    with CompactorHook(metastore).get_conn() as site:
        if site.state is not None:
            waiting_batches.give_back_planned(site, waiting_batches.name_run(ti))


def count_ready_for_cleaning(metastore: str) -> int:
    """Counts the entries that wait for the cleaner."""
    with CompactorHook(metastore).get_conn() as site:
        if not may_somewhere(site.settings, Mode.CLEAN):
            return 0
        return len(site.metastore.entries.ready_for_cleaning())


def clean_once(metastore: str) -> dict[str, object]:
    """Runs one pass of the cleaner; the result says what blocks the waiting entries.

    Raises:
        CompactorError: an entry could not be cleaned; the others were.
    """
    from compactor.cleaner.cleaner import clean
    from compactor.initiator.fresh_look import look_at_changed

    with CompactorHook(metastore).get_conn() as site:
        cleaned = clean(site)
        look_at_changed(site.for_a_pass(), cleaned.changed)
    log.info("cleaner: %s", cleaned.to_json())
    if cleaned.failed:
        raise CompactorError("; ".join(f"{failure.entity}: {failure.because}" for failure in cleaned.failed))
    return cleaned.to_json()


def keep_house_once(metastore: str) -> dict[str, object]:
    """Runs one pass of the housekeeper."""
    from compactor.housekeeper.housekeeper import keep_house

    with CompactorHook(metastore).get_conn() as site:
        figures = keep_house(site).to_json()
    log.info("housekeeper: %s", figures)
    return figures


def run_mirrors_once(metastore: str, tables: Sequence[str]) -> list[dict[str, Any]]:
    """Runs one pass over each mirror, or over the mirrors of ``tables``.

    Returns the result or the error of each pass.

    Raises:
        AirflowFailException: a table has no mirror, or the configuration is wrong.
        DatabaseUnavailable: the metastore or our state cannot be reached.
    """
    from compactor.mirror.mirrored_tables import run_mirrors

    with CompactorHook(metastore).get_conn() as site, fail_without_retry():
        return [outcome.to_json() for outcome in run_mirrors(site, tables)]


def list_tables(metastore: str, names: Iterable[str]) -> list[str]:
    """Returns the tables that match ``names``, each once; a pattern only matches transactional tables.

    Raises:
        NotFound: a table does not exist, or nothing matches a pattern.
    """
    from compactor.site.named_tables import find_table

    matches: dict[str, None] = {}
    with CompactorHook(metastore).get_conn() as site:
        every = None
        for name in names:
            if "*" not in name:
                matches[str(find_table(site.metastore.catalog, name))] = None
                continue
            every = [str(t) for t in site.metastore.catalog.tables() if t.is_transactional] if every is None else every
            matching = sorted(table for table in every if fnmatch.fnmatchcase(table, name.lower()))
            if not matching:
                raise NotFound(f"no transactional table matches {name!r}; expected, for example: demo.* or demo.fl*")
            matches |= dict.fromkeys(matching)
    return list(matches)


def dry_run(metastore: str, tables: Iterable[str], arguments: Mapping[str, Any]) -> list[dict[str, object]]:
    """Returns what a compaction would read and write, partition by partition; queues nothing.

    Raises:
        CompactorError: a table cannot be compacted in this way.
    """
    from compactor.answers.preview import preview

    plans: list[dict[str, object]] = []
    with CompactorHook(metastore).get_conn() as site:
        for table in tables:
            for plan in preview(site, table, partition=arguments["partition"], type=arguments["type"]):
                plans.append(plan.to_json())
                summary = plan.error or plan.nothing or _summarize(plan)
                log.info("%s %s: %s", plan.type.label.lower(), plan.entity, summary)
    return list(redact_plain(plans))


def _summarize(plan: Preview) -> str:
    work = (
        f"reads {plan.input_bytes} bytes of {', '.join(plan.inputs)}, writes {', '.join(plan.outputs)}; copies "
        f"{plan.cost.bytes_copied} bytes, re-encodes {plan.cost.bytes_reencoded}"
    )
    expected = plan.expected
    time = (
        "its time is unknown: too few runs like it have ended"
        if expected is None
        else f"takes about {expected.seconds:.3g} s ({expected.low:.3g} to {expected.high:.3g}, by {expected.runs} runs)"
    )
    return "; ".join((work, time, *plan.summary.sentences))


def request(metastore: str, tables: Iterable[str], arguments: Mapping[str, Any]) -> list[int]:
    """Queues a request for each table or partition, and returns the ids of the entries.

    Logs requests that are already queued, and requests that would do nothing. A further try of the task repeats only
    requests that failed or were cancelled, and returns the others as they are.

    Raises:
        CompactorError: nothing was queued.
    """
    from compactor.requests.request import RebalanceOptions, RequestWords, list_earlier

    others = dict(arguments)
    rebalance = RebalanceOptions(buckets=others.pop("buckets", None), order_by=others.pop("order_by", None))
    ids: list[int] = []
    refused: list[str] = []
    ti = waiting_batches.current_task()
    run = None if ti is None else name_task_of_run(ti)
    with CompactorHook(metastore).get_conn() as site:
        for table in tables:
            words = RequestWords(table=table, rebalance=rebalance, **others)
            try:
                earlier = [] if run is None else list_earlier(site, words, run)
                ids += [entry.id for entry in earlier]
                enqueued = _enqueue(site, words, run, [entry.entity for entry in earlier])
            except Refused as error:
                log.warning("%s", error)
                refused.append(str(error))
                continue
            for answer in enqueued:
                log.info("request: %s", answer.to_json())
            ids += [answer.entry_id for answer in enqueued if answer.entry_id is not None]
    if not ids:
        raise Refused("; ".join(refused))
    return ids


def _enqueue(site: Site, words: RequestWords, run: str | None, without: Collection[Entity]) -> list[Enqueued]:
    from compactor.requests.no_op import must_do_something
    from compactor.requests.request import initiator_of_run, request_as

    if not without:
        must_do_something(site, words)
    return request_as(site, words, **({} if run is None else {"who": initiator_of_run(run)}), without=without)


def name_task_of_run(ti: Any) -> str:
    """Returns the name under which the requests of a task of a DAG run are found by its next try."""
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"


def request_once(
    metastore: str, words: Mapping[str, Any], run: str, *, only_if_due: bool, most: int | None = None
) -> list[dict[str, object]]:
    """Queues the requests of a task of a DAG run, once for the run; see ``requests.request_once``.

    Raises:
        CompactorError: nothing was queued.
    """
    from compactor.requests.request import RequestWords
    from compactor.requests.request import request_once as request_once_of

    with CompactorHook(metastore).get_conn() as site:
        answers = request_once_of(site, RequestWords(**words), run, only_if_due=only_if_due, most=most)
    return [answer.to_json() for answer in answers]


def list_due(
    metastore: str, *, table: str | None, partition: str | None, database: str | None
) -> list[dict[str, object]]:
    """Lists the due compactions of a table, or else of a database.

    They are the most urgent ones, as many as Airflow can map.

    Raises:
        CompactorError: there is no such table or partition, or it cannot be read.
    """
    from compactor.initiator.due import due_in_database, due_in_table
    from compactor.site.named_tables import find_table

    with CompactorHook(metastore).get_conn() as site:
        catalog = site.metastore.catalog
        if table is None:
            due = due_in_database(site, (database or "default").lower())
        else:
            target = find_table(catalog, table)
            due = due_in_table(
                site, target, None if partition is None else catalog.resolve_partition(target, partition)
            )
    most = waiting_batches.most_mapped()
    if len(due) > most:
        log.info("%d are due; these are the %d most urgent (core.max_map_length of Airflow)", len(due), most)
    return [candidate.to_json() for candidate in due[:most]]


def read_commits(
    metastore: str, table: str, seen: Mapping[str, object] | None
) -> tuple[dict[str, object], dict[str, object] | None]:
    """Returns the state of ``table`` now, and the commits to it since the state ``seen``.

    A ``seen`` that cannot be parsed counts as a first look.

    Raises:
        CompactorError: the table cannot be read.
    """
    from compactor.answers.table_commits import TableVersion, commits_since

    try:
        earlier = None if seen is None else TableVersion.from_json(seen)
    except (KeyError, ValueError, TypeError, AttributeError):
        log.warning("%s: the stored state %r cannot be parsed; commits from now on are reported", table, seen)
        earlier = None
    with CompactorHook(metastore).get_conn() as site:
        now, news = commits_since(site, table, earlier)
    return now.to_json(), None if news is None else news.to_json()


def tracking_url(metastore: str, ids: Collection[int]) -> str | None:
    """Returns the address of Spark's page of the last application with one of these entries.

    Returns None if unknown.
    """
    with CompactorHook(metastore).get_conn() as site:
        return None if site.state is None or not ids else site.state.batches.tracking_url(site.name, ids)


def sum_run_figures(metastore: str, ids: Collection[int]) -> dict[str, dict[str, int]]:
    """Sums rows, bytes and files that these compactions read and wrote, by ``DATABASE.TABLE``."""
    with CompactorHook(metastore).get_conn() as site:
        runs = {} if site.state is None or not ids else site.state.runs.of_entries(site.name, ids)
    sums: dict[str, Counter[str]] = {}
    for run in runs.values():
        sums.setdefault(f"{run.entity.database}.{run.entity.table}", Counter()).update(_list_figures(run))
    return {table: dict(figures) for table, figures in sorted(sums.items())}


def _list_figures(run: Run) -> dict[str, int]:
    return {
        "rows_in": run.rows_in,
        "rows_out": run.rows_out,
        "bytes_in": run.bytes_before,
        "bytes_out": run.bytes_after,
        "files_in": run.files_before,
        "files_out": run.files_after,
    }


def read_states(metastore: str, ids: Iterable[int]) -> dict[int, str]:
    """Returns each entry's state in the words of SHOW COMPACTIONS, from the queue or the history."""
    with CompactorHook(metastore).get_conn() as site:
        return {entry: site.metastore.entries.get(entry).state.label for entry in ids}


def are_under_way(states: Mapping[int, str]) -> bool:
    """Tells whether an entry is queued or running."""
    return any(state in _UNDER_WAY for state in states.values())


def is_success(state: str) -> bool:
    """Tells whether an entry was compacted (cleaned or not) or had nothing to do."""
    return state in _SUCCESSES


def describe_failures(metastore: str, failed: Mapping[int, str]) -> str:
    """Returns one sentence for each failed entry, with the error in its row."""
    lines = []
    with CompactorHook(metastore).get_conn() as site:
        for entry_id, state in failed.items():
            entry = site.metastore.entries.get(entry_id)
            after = " when the wait timed out" if state in _UNDER_WAY else ""
            lines.append(
                f"compaction {entry_id} of {entry.entity}: {state}{after}" + (f": {entry.error}" if entry.error else "")
            )
    return "; ".join(lines)


def read_progress(metastore: str, batch_id: int) -> BatchProgress:
    """See ``batch_watch.read_progress``."""
    from compactor.launch import batch_watch

    with CompactorHook(metastore).get_conn() as site:
        return batch_watch.read_progress(site, batch_id)


def record_launch(metastore: str, batch_id: int, application: str) -> None:
    """Records the name under which a later try finds the application."""
    from compactor.batches import control

    with CompactorHook(metastore).get_conn() as site:
        control.record_launch(site, batch_id, application)


def record_task(metastore: str, batch_id: int, url: str) -> None:
    """Records the page of the task that has the batch."""
    from compactor.batches import control

    with CompactorHook(metastore).get_conn() as site:
        control.record_task(site, batch_id, url)


def renew(metastore: str, batch_id: int, because: str) -> bool:
    """See ``batch_watch.renew``."""
    from compactor.launch import batch_watch

    with CompactorHook(metastore).get_conn() as site:
        return batch_watch.renew(site, batch_id, because)


def release(metastore: str, batch_id: int, because: str) -> None:
    """See ``batch_watch.release``."""
    from compactor.launch import batch_watch

    with CompactorHook(metastore).get_conn() as site:
        batch_watch.release(site, batch_id, because)


def give_back(metastore: str, batch_id: int, because: str) -> LaunchFailed:
    """See ``batch_watch.give_back``."""
    from compactor.launch import batch_watch

    with CompactorHook(metastore).get_conn() as site:
        return batch_watch.give_back(site, batch_id, because)


def abort(metastore: str, batch_id: int) -> None:
    """See ``batch_watch.abort``."""
    from compactor.launch import batch_watch

    with CompactorHook(metastore).get_conn() as site:
        batch_watch.abort(site, batch_id)


def alarms_variable(metastore: str) -> str:
    """Returns the name of the Airflow variable with the alarms that were notified."""
    return f"compactor_alarms__{metastore}"


def report_alarms(metastore: str, context: Mapping[str, Any]) -> list[dict[str, object]]:
    """Checks a metastore once: sends metrics, logs every alarm, and notifies of the new ones.

    Raises:
        BadSetting: the configured notifier does not exist.
    """
    from compactor.answers.alarms import raised_alarms
    from compactor.answers.readings import take_readings

    with CompactorHook(metastore).get_conn() as site:
        readings = take_readings(site)
        alarms = raised_alarms(readings, site.settings)
    send_gauges(metastore, readings, alarms)
    for alarm in alarms:
        log.log(logging.ERROR if alarm.level is Level.FAIL else logging.WARNING, "%s; %s", alarm.message, alarm.fix)
    notified = set(json.loads(Variable.get(alarms_variable(metastore), default="[]")))
    now = {f"{alarm.name}:{alarm.level.value}" for alarm in alarms}
    fresh = [alarm for alarm in alarms if f"{alarm.name}:{alarm.level.value}" not in notified]
    notifier = load_notifier()
    if fresh and notifier is not None:
        notifier({**context, "metastore": metastore, "alarms": [alarm.to_json() for alarm in fresh]})
    if now != notified:
        Variable.set(alarms_variable(metastore), json.dumps(sorted(now)))
    return [alarm.to_json() for alarm in alarms]


def send_gauges(metastore: str, readings: Readings, alarms: tuple[Alarm, ...]) -> None:
    """Sends a gauge for each reading and for the number of alarms."""
    for name, value in readings.to_json().items():
        stats.gauge(f"compactor.{metastore}.{name}", value)
    stats.gauge(f"compactor.{metastore}.alarms", len(alarms))


def load_notifier() -> Callable[[Mapping[str, Any]], object] | None:
    """Returns the notifier that ``[compactor] notifier`` names; None if the option is empty.

    Raises:
        BadSetting: there is no such object, or it cannot be called.
    """
    path = text("notifier")
    if not path:
        return None
    try:
        notifier: object = import_string(path)
    except ImportError as error:
        raise BadSetting(
            f"[compactor] notifier of Airflow's configuration: {path!r} cannot be imported: {error}"
        ) from error
    if not callable(notifier) or isinstance(notifier, type):
        raise BadSetting(
            f"[compactor] notifier of Airflow's configuration: {path!r} is {notifier!r}; expected: an instance of a "
            "notifier, such as an SmtpNotifier(...) in a module of yours"
        )
    return notifier
