"""The submit operator: one batch of queue entries as one Spark application."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf as airflow_conf
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import AssetAlias, BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowTaskTimeout,
)

import compactor
from compactor.airflow.assets import create_asset
from compactor.airflow.configuration import read_choice, seconds, text
from compactor.airflow.links import HistoryLink, SparkLink
from compactor.base.errors import BadSetting
from compactor.base.private_files import SAFE_PATH, must_be_secret
from compactor.base.redaction import is_secret
from compactor.launch import driver_processes
from compactor.launch.yarn_application import find_application_id, find_reason, make_tag
from compactor.settings.spark_conf import driver_config, for_yarn, must_know_metastore

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

#: The file that spark-submit starts; its contract is ``--metastore NAME --batch ID``.
APPLICATION = Path(compactor.__file__).parent / "launch" / "job" / "worker_job.py"
#: The master unless a connection gives another.
LOCAL_MASTER = "local[*]"
_KEPT_LINES = 2000  #: lines of a driver's output, to find the reason of a failure in
_FOLLOW_S = 0.5  #: seconds between two looks at a driver that holds its task's slot
_UPLOADS = "spark.kubernetes.file.upload.path"


class CompactionSubmitOperator(SparkSubmitOperator):
    """Submits one planned batch under its queue and its run-as user, and waits for it.

    It waits without a slot if possible.

    The command line contains only names and numbers: the driver finds the database by its own configuration, and
    spark-submit inherits a file in memory with the site's secret keys of Spark. The task only watches a driver that is a
    separate process or runs in a cluster, through rows of our state and of the queue. The try after a lost worker finds the
    driver and keeps waiting. A batch has one driver at a time, so no entry runs twice.
    """

    #: No templates: parts of ``conf`` come from table properties, which any owner of a table may write.
    template_fields: Sequence[str] = ()
    operator_extra_links = (HistoryLink(), SparkLink())
    compactions: Sequence[int] = ()  #: ids of the batch's entries, once they were read

    def __init__(
        self,
        *,
        metastore: str,
        batch_id: int | str,
        pool_name: str | None = None,
        job: str | None = None,
        max_seconds: int | None = None,
        queue_name: str | None = None,
        run_as: str | None = None,
        planned_at: int = 0,
        **kwargs: Any,
    ) -> None:
        self.metastore = metastore
        self.batch_id = batch_id
        self.pool_name = pool_name
        self.job = job
        self.max_seconds = max_seconds
        self.queue_name = queue_name
        self.run_as = run_as
        self.planned_at = planned_at
        self._attached: _AttachedDriver | None = None  #: the driver for which this task waits in its slot
        # Our batch row finds a driver again; the provider's own mechanism refuses YARN without an address.
        kwargs.setdefault("durable", False)
        kwargs.setdefault("conn_id", text("spark_conn_id"))
        kwargs.setdefault("deploy_mode", text("deploy_mode") or None)
        kwargs.setdefault("principal", text("principal") or None)
        kwargs.setdefault("keytab", text("keytab") or None)
        self.program: str = kwargs.pop("spark_binary", None) or spark_binary()
        super().__init__(
            application=str(APPLICATION),
            name=job or f"compactor-{metastore}-{batch_id}",
            application_args=[
                *("--metastore", metastore, "--batch", str(batch_id)),
                *(() if max_seconds is None else ("--max-seconds", str(max_seconds))),
            ],
            yarn_queue=queue_name,
            proxy_user=run_as,
            conf=dict(kwargs.pop("conf", None) or {}),
            spark_binary=self.program,
            env_vars=kwargs.pop("env_vars", None) or driver_environment(),
            **kwargs,
        )

    def execute(self, context: Any) -> Any:
        """Launches the batch or finds its driver, then waits and returns the state of its entries."""
        self._record_address(context)
        return self._advance(context, launches=0)

    def execute_complete(self, context: Any, event: str, launches: int = 0) -> Any:
        """Continues after the trigger, checking the batch's progress itself."""
        self.log.info("batch %s: %s", self.batch_id, event)
        return self._advance(context, launches)

    def _record_address(self, context: Any) -> None:
        """Records the address of this task and its log, for people who watch the batch."""
        from compactor.airflow import tasks

        url = getattr(context.get("ti"), "log_url", None)
        if isinstance(url, str):
            tasks.record_task(self.metastore, int(self.batch_id), url)

    def _advance(self, context: Any, launches: int) -> dict[str, str]:
        from compactor.airflow import tasks
        from compactor.batches.control import BatchStatus
        from compactor.launch.batch_watch import MAX_LAUNCHES, NextStep, decide_next_step

        batch_id = int(self.batch_id)
        while True:
            progress = tasks.read_progress(self.metastore, batch_id)
            self.compactions = list(progress.entries)
            step = decide_next_step(progress, launches)
            if step is NextStep.WATCH:
                self.log.info("batch %s: waits for application %s", batch_id, progress.application or "(resident)")
                self._watch(context, launches)
            if step is NextStep.CONCLUDE:
                if progress.status is BatchStatus.WAITS:
                    self.log.info("batch %s: nothing is launched: no entry waits for it any longer", batch_id)
                    tasks.release(self.metastore, batch_id, "others have taken its entries")
                return self._conclude(context, progress)
            if launches >= MAX_LAUNCHES:
                raise AirflowFailException(
                    f"batch {batch_id}: its driver was lost {launches} times; check its log, or Spark's"
                )
            if step is NextStep.RENEW and not tasks.renew(self.metastore, batch_id, progress.status.value):
                self.log.info("batch %s: another batch has taken over its remaining entries", batch_id)
                return self._conclude(context, progress)
            launches += 1
            self._launch(context, is_renewed=step is NextStep.RENEW)

    def _watch(self, context: Any, launches: int) -> None:
        from compactor.airflow.task_ends import WAITING_TRY
        from compactor.airflow.triggers import BatchTrigger

        context["ti"].xcom_push(WAITING_TRY, context["ti"].try_number)
        self.defer(
            trigger=BatchTrigger(
                metastore=self.metastore, batch_id=int(self.batch_id), poll_seconds=seconds("poll_seconds")
            ),
            method_name="execute_complete",
            kwargs={"launches": launches},
        )

    def _conclude(self, context: Any, progress: Any) -> dict[str, str]:
        for line in progress.list_news(None):
            self.log.info("%s", line)
        if progress.failed:
            # A retry would find nothing to do: a failed request is in the history.
            raise AirflowFailException("; ".join(progress.failed.values()))
        if progress.still_open:
            self.log.warning("batch %s: its remaining entries wait for the next pass", self.batch_id)
        for alias in (outlet for outlet in self.outlets if isinstance(outlet, AssetAlias)):
            for (database, table), ids in progress.compacted.items():
                asset = create_asset(metastore=self.metastore, database=database, table=table)
                context["outlet_events"][alias].add(asset, extra={"compactions": list(ids)})
        return {str(number): line for number, line in progress.entries.items()}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage:
        """Returns the compacted tables with rows, bytes and files, for OpenLineage's provider."""
        from compactor.airflow.assets import make_lineage

        return make_lineage(self.metastore, self.compactions)

    def _launch(self, context: Any, *, is_renewed: bool = False) -> None:
        """Starts the driver, or finds the application that an earlier try has started.

        Waits if it holds the slot.

        Whatever fails before there is a driver gives the batch back at once.

        Raises:
            AirflowFailException: spark-submit does not start; another try would not find it either.
        """
        from compactor.airflow import tasks

        try:
            name = self._start_driver(context, is_renewed=is_renewed)
        except OSError as error:
            reason = self._describe_start_failure(error)
            raise AirflowFailException(str(tasks.give_back(self.metastore, int(self.batch_id), reason))) from error
        except Exception as error:
            self.log.warning("%s", tasks.give_back(self.metastore, int(self.batch_id), f"it was not launched: {error}"))
            raise
        if name is not None:
            self._remember(name)
        if self._attached is not None:
            self._wait_for_attached(context, self._attached)

    def _describe_start_failure(self, error: OSError) -> str:
        from compactor.site.spark_program import describe_start_failure

        if error.filename in (None, self.program):
            return describe_start_failure(self.program, error)
        return f"its driver cannot be started: {error.filename}: {error.strerror}"

    def _start_driver(self, context: Any, *, is_renewed: bool) -> str | None:
        """Returns the name to record for the application; None if its driver records YARN's own name."""
        from compactor.launch.batch_watch import find_running

        hook = self._hook = self._get_hook()
        holds_slot = read_choice("launcher", "spark-submit", "process") == "spark-submit" and not is_detached(hook)
        if text("linger") and not holds_slot:
            hook._application_args = [*(hook._application_args or ()), "--linger", str(seconds("linger"))]
        with self._secrets_in_file(hook) as inherits:
            # The driver of a renewed batch is gone, but YARN may need a while to notice it in client mode.
            may_run = is_detached(hook) or (hook._is_yarn and not is_renewed)
            running = find_running(self.tag) if may_run else None
            if running or is_detached(hook):
                return running or self._submit(hook)
            log = driver_log(self.metastore, self.batch_id)
            begins_at = log.stat().st_size if log.exists() else 0
            environment = {**os.environ, **(self.env_vars or {}), **self._connection()}
            command = hook._build_spark_submit_command(self.application)
            driver = driver_processes.start(command, environment, log, inherits=inherits)
        self.log.info("batch %s: its driver's output goes to %s", self.batch_id, log)
        if holds_slot:
            self._attached = _AttachedDriver(context["ti"], driver, log, begins_at)
        return None if holds_slot and hook._is_yarn else driver

    @contextmanager
    def _secrets_in_file(self, hook: SparkSubmitHook) -> Iterator[tuple[int, ...]]:
        """Moves secrets from the command line to a file until the block ends, and yields the open file."""
        from compactor.site.spark_secrets import (
            check_keytabs,
            defaults_file,
            inherited_path,
            properties_file,
        )

        if keytab := hook._connection.get("keytab"):
            must_be_secret(Path(keytab), "keytab of [compactor] or of the Airflow connection")
        check_keytabs(hook._conf)

        public: dict[str, str] = {}
        secret = self._secret_conf()
        for key, value in hook._conf.items():
            (secret if is_secret(key, str(value)) else public)[key] = str(value)
        instead_of = Path(hook._properties_file or defaults_file(self.program, os.environ))
        with properties_file(secret, instead_of) as descriptor:
            if descriptor is None:
                yield ()
                return
            hook._conf, hook._properties_file = public, inherited_path(descriptor)
            hook.submit = partial(hook.submit, pass_fds=(descriptor,))
            yield (descriptor,)

    def _secret_conf(self) -> dict[str, str]:
        from compactor.airflow.hooks import CompactorHook

        return CompactorHook(self.metastore).configuration().settings.secret_spark_conf

    @property
    def tag(self) -> str:
        """The tag of the batch's applications on YARN."""
        return make_tag(self.metastore, int(self.batch_id), self.planned_at)

    def _submit(self, hook: SparkSubmitHook) -> str:
        """Submits to the cluster; gives the batch back if that fails, so that nothing stays reserved.

        Raises:
            AirflowException: the cluster refused the application; the message quotes it.
        """
        try:
            return submit_to_cluster(hook, driver_file_for(hook, self.application))
        except AirflowException as error:
            raise self._give_back(str(error)) from error

    def _give_back(self, output: str) -> AirflowException:
        from compactor.airflow import tasks

        reason = find_reason(output)
        because = f"its application could not do it: {reason}" if reason else "its application could not do it"
        return AirflowException(f"{tasks.give_back(self.metastore, int(self.batch_id), because)}\n{output}")

    def _remember(self, application: str) -> None:
        from compactor.airflow import tasks

        self.log.info("batch %s: application %s", self.batch_id, application)
        tasks.record_launch(self.metastore, int(self.batch_id), application)

    def _connection(self) -> dict[str, str]:
        from compactor.airflow.hooks import CompactorHook

        return CompactorHook(self.metastore).driver_environment()

    def _wait_for_attached(self, context: Any, attached: _AttachedDriver) -> None:
        """Waits until the driver ends, with its output in the task's log.

        Raises:
            AirflowException: the driver ended with an error, or this task was stopped and its driver goes on.
        """
        from compactor.airflow import tasks

        output: deque[str] = deque(maxlen=_KEPT_LINES)
        for line in attached.follow():
            self.log.info("%s", line)
            output.append(line)
        if attached.is_left:
            raise AirflowException(
                f"batch {self.batch_id}: this try ends; {attached.name} goes on, and the next finds it"
            )
        self._attached = None
        if attached.begins_at == 0:
            attached.log.unlink(missing_ok=True)  # the task's log has it
        if attached.exit_code:
            progress = tasks.read_progress(self.metastore, int(self.batch_id))
            if progress.failed:
                self._conclude(context, progress)
            raise self._give_back(f"{attached.name} ended with {attached.exit_code}\n" + "\n".join(output))

    def on_kill(self) -> None:
        """Ends the driver for which the task waits in its slot.

        A person ended or cleared the task, or it has reached its time-out.

        Otherwise only this process ends, as when it has lost Airflow's API server: the next try finds the driver. If a
        person ended the task, its requests are aborted as well.
        """
        attached = self._attached
        if attached is not None:
            from compactor.airflow import tasks
            from compactor.airflow.task_ends import is_cleared, is_ended_by_person

            is_timed_out = isinstance(sys.exception(), AirflowTaskTimeout)
            attached.is_left = True
            try:
                if is_ended_by_person(attached.ti):
                    tasks.abort(self.metastore, int(self.batch_id))
                elif is_timed_out or is_cleared(attached.ti):
                    tasks.release(self.metastore, int(self.batch_id), "its task was stopped")
                else:
                    self.log.warning("batch %s: %s goes on without this task", self.batch_id, attached.name)
                    return
                driver_processes.end(attached.name)
            except Exception as error:  # noqa: BLE001 - without an answer the driver goes on, as no work is lost then
                self.log.warning("batch %s: %s goes on without this task: %s", self.batch_id, attached.name, error)
        elif self._hook is not None:
            super().on_kill()

    def _get_hook(self) -> SparkSubmitHook:
        """Returns the provider's hook.

        Without a connection it would fall back to YARN; we fall back to this machine.

        Raises:
            BadSetting: cluster mode on Spark standalone, which does not support it for Python.
        """
        with _private_files():  # the provider writes the keytab of a connection into /tmp
            hook = super()._get_hook()
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            self.log.info("no Airflow connection %s: Spark runs here, as %s", self._conn_id, LOCAL_MASTER)
            hook._connection.update(master=LOCAL_MASTER, queue=self.queue_name)
            hook._is_yarn = hook._is_yarn_cluster_mode = False
        if self.run_as:
            # spark-submit takes only one of the two: impersonation uses the ticket of the current login.
            hook._connection.update(principal=None, keytab=None)
        if hook._connection["deploy_mode"] == "cluster":
            if not (hook._is_yarn or hook._is_kubernetes):
                raise BadSetting(
                    f"deploy mode cluster on {hook._connection['master']}: Spark supports it for Python on YARN and "
                    "Kubernetes only; use client, and [compactor] launcher = process to hold no slot"
                )
            # This machine's python is not the cluster's.
            ours = ("PYSPARK_PYTHON", SAFE_PATH)
            hook._env_vars = {key: value for key, value in (self.env_vars or {}).items() if key not in ours}
            # spark-submit ends once the application is accepted; without this the hook waits for an exit code.
            hook._track_driver_via_k8s_api = hook._is_kubernetes
            if hook._is_yarn:
                hook._conf["spark.yarn.submit.waitAppCompletion"] = "false"
                self._pass_configuration(hook)
        elif not hook._connection["master"].startswith("local"):
            # Only executors unpack an archive; the driver runs this interpreter, which has what it needs.
            hook._conf.setdefault("spark.pyspark.driver.python", sys.executable)
        if hook._is_yarn:
            hook._conf = for_yarn(hook._conf, is_cluster=hook._is_yarn_cluster_mode)
            tags = hook._conf.get("spark.yarn.tags")
            hook._conf["spark.yarn.tags"] = f"{tags},{self.tag}" if tags else self.tag
        return hook

    def _pass_configuration(self, hook: SparkSubmitHook) -> None:
        """Lets a driver on a node of YARN find compactor.toml.

        It is at the same path, or a copy travels with the driver.

        Raises:
            BadSetting: the driver would find no configuration.
        """
        config = (self.env_vars or {}).get("COMPACTOR_CONFIG")
        must_know_metastore(config, hook._conf if config else {**hook._conf, **self._secret_conf()})
        if config:
            hook._env_vars["COMPACTOR_CONFIG"] = driver_config(config, hook._conf, is_cluster=True)


class _AttachedDriver:
    """A driver for which a task waits in its slot.

    It has a session of its own, so it outlives the task's process.
    """

    def __init__(self, ti: Any, name: str, log: Path, begins_at: int) -> None:
        self.ti = ti
        self.name = name
        self.log = log
        self.begins_at = begins_at  #: in its log, which may have the output of an earlier driver
        self.exit_code: int | None = None  #: once it has ended
        self.is_left = False  #: the task no longer waits for it

    def follow(self) -> Iterator[str]:
        """Yields each line of the driver's output, until the driver ends or is left."""
        with self.log.open(encoding="utf-8", errors="replace") as output:
            output.seek(self.begins_at)
            line = ""
            while True:
                has_ended = driver_processes.is_gone(self.name)
                while piece := output.readline():
                    line += piece
                    if line.endswith("\n"):
                        yield line.rstrip()
                        line = ""
                if has_ended or self.is_left:
                    break
                time.sleep(_FOLLOW_S)
        if line:
            yield line
        if has_ended:
            self.exit_code = driver_processes.reap(self.name)


@contextmanager
def _private_files() -> Iterator[None]:
    """Makes files that the block creates readable by this user only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def is_detached(hook: SparkSubmitHook) -> bool:
    """Tells whether spark-submit ends while the application continues in the cluster."""
    return bool(hook._connection["deploy_mode"] == "cluster")


def submit_to_cluster(hook: SparkSubmitHook, application: str) -> str:
    """Submits, and returns the application's name in the cluster: YARN's id, or NAMESPACE:POD.

    Raises:
        AirflowException: spark-submit failed, or did not report a name.
    """
    try:
        hook.submit(application)
    finally:
        _close_pipe(hook)
    # Not the hook's own result: it only knows pods of the namespace "spark".
    name = find_application_id("\n".join(hook._last_submit_log_lines))
    if name is None:
        raise AirflowException("spark-submit succeeded but did not report an application; set its log level to INFO")
    return name


def driver_file_for(hook: SparkSubmitHook, application: str) -> str:
    """Returns the path of the driver's file for spark-submit.

    A pod finds it in its image, at the same path as here, unless the configuration names a place for uploads.
    """
    return f"local://{application}" if hook._is_kubernetes and _UPLOADS not in hook._conf else application


def driver_log(metastore: str, batch_id: int | str) -> Path:
    """Returns the path of the log of a driver that is a separate process."""
    folder = text("driver_logs")
    default = Path(airflow_conf.get("logging", "base_log_folder")).parent / "compactor-drivers"
    return (Path(folder) if folder else default) / f"{metastore}-batch-{batch_id}.log"


def _close_pipe(hook: SparkSubmitHook | None) -> None:
    """Closes the pipe of the started command, which the provider leaves to the garbage collector."""
    process = hook._submit_sp if hook is not None else None
    if process is not None and process.stdout is not None:
        process.stdout.close()


def spark_binary() -> str:
    """Returns ``[compactor] spark_binary``.

    As is if it is a path or on PATH, else next to the running python.
    """
    name = text("spark_binary")
    if "/" in name or shutil.which(name) is not None:
        return name
    neighbour = Path(sys.executable).with_name(name)
    return str(neighbour) if neighbour.exists() else name


def driver_environment() -> dict[str, str]:
    """Returns the driver's environment: the python of its executors and the path of the configuration.

    No secrets.

    Executors of a local master import nothing from the current directory.
    """
    config = text("config")
    return {"PYSPARK_PYTHON": sys.executable, SAFE_PATH: "1"} | ({"COMPACTOR_CONFIG": config} if config else {})
