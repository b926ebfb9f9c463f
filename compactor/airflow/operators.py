"""The submit operator: one batch of queue entries as one Spark application."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf as airflow_conf
from airflow.sdk import AssetAlias, BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
)

from compactor.airflow.assets import create_asset
from compactor.airflow.configuration import read_choice, seconds, text
from compactor.airflow.links import HistoryLink, SparkLink
from compactor.airflow.options import OPTIONS
from compactor.airflow.spark_launch import (
    ClusterSubmission,
    SparkConnection,
    SparkLaunch,
    SubmissionStopped,
    read_spark_connection,
    store_keytab,
)
from compactor.base.errors import BadSetting
from compactor.base.private_files import SAFE_PATH, must_be_secret
from compactor.base.redaction import is_secret, redact
from compactor.launch import driver_processes
from compactor.launch.submit_target import LOCAL_MASTER, WORKER_JOB
from compactor.launch.yarn_application import find_reason, make_tag
from compactor.settings.spark_conf import driver_config, for_yarn, must_know_metastore

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_KEPT_LINES = 2000  #: lines of a driver's output, to find the reason of a failure in
_FOLLOW_S = 0.5  #: seconds between two looks at a driver that holds its task's slot


class CompactionSubmitOperator(BaseOperator):
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
        conf: Mapping[str, str] | None = None,
        conn_id: str | None = None,
        deploy_mode: str | None = None,
        principal: str | None = None,
        keytab: str | None = None,
        spark_binary: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.metastore = metastore
        self.batch_id = batch_id
        self.pool_name = pool_name
        self.job = job
        self.max_seconds = max_seconds
        self.queue_name = queue_name
        self.run_as = run_as
        self.planned_at = planned_at
        self.conf = dict(conf or {})
        self.conn_id = conn_id or text("spark_conn_id")
        self.deploy_mode = deploy_mode or text("deploy_mode") or None
        self.principal = principal or text("principal") or None
        self.keytab = keytab or text("keytab") or None
        self.spark_binary = spark_binary
        self.env_vars = dict(env_vars or driver_environment())
        self._attached: _AttachedDriver | None = None  #: the driver for which this task waits in its slot
        self._submission: ClusterSubmission | None = None  #: the spark-submit that hands the application over

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

        program = None
        try:
            launch = self.prepare_launch()
            program = launch.program
            name = self._start_driver(context, launch, is_renewed=is_renewed)
        except SubmissionStopped:
            raise
        except Exception as error:
            if isinstance(error, OSError) and program is not None:
                reason = _describe_start_failure(program, error)
                raise AirflowFailException(str(tasks.give_back(self.metastore, int(self.batch_id), reason))) from error
            self.log.warning("%s", tasks.give_back(self.metastore, int(self.batch_id), f"it was not launched: {error}"))
            raise
        if name is not None:
            self._remember(name)
        if self._attached is not None:
            self._wait_for_attached(context, self._attached)

    def _start_driver(self, context: Any, launch: SparkLaunch, *, is_renewed: bool) -> str | None:
        """Returns the name to record for the application; None if its driver records YARN's own name."""
        from compactor.launch.batch_watch import find_running

        holds_slot = read_choice("launcher", "spark-submit", "process") == "spark-submit" and not launch.is_cluster
        if text("linger") and not holds_slot:
            launch = replace(launch, arguments=(*launch.arguments, "--linger", str(seconds("linger"))))
        with self.without_secrets(launch) as public:
            # The driver of a renewed batch is gone, but YARN may need a while to notice it in client mode.
            may_run = launch.is_cluster or (launch.is_yarn and not is_renewed)
            running = find_running(self.tag) if may_run else None
            if running or launch.is_cluster:
                return running or self._submit(context, public)
            log = driver_log(self.metastore, self.batch_id)
            begins_at = log.stat().st_size if log.exists() else 0
            environment = {**os.environ, **public.environment, **self._connection()}
            driver = driver_processes.start(public.command, environment, log, inherits=public.inherits)
        self.log.info("batch %s: its driver's output goes to %s", self.batch_id, log)
        if holds_slot:
            self._attached = _AttachedDriver(context["ti"], driver, log, begins_at)
        return None if holds_slot and launch.is_yarn else driver

    @contextmanager
    def without_secrets(self, launch: SparkLaunch) -> Iterator[SparkLaunch]:
        """Moves secrets from the command line to a file in memory until the block ends.

        Raises:
            BadSetting: somebody else may read or replace a keytab that spark-submit would use.
        """
        from compactor.site.spark_secrets import (
            check_keytabs,
            defaults_file,
            inherited_path,
            properties_file,
        )

        if launch.keytab is not None:
            must_be_secret(Path(launch.keytab), "keytab of [compactor] or of the Airflow connection")
        check_keytabs(launch.conf)

        public: dict[str, str] = {}
        secret = self._secret_conf()
        for key, value in launch.conf.items():
            (secret if is_secret(key, str(value)) else public)[key] = str(value)
        with properties_file(secret, defaults_file(launch.program, os.environ)) as descriptor:
            if descriptor is None:
                yield launch
            else:
                file = inherited_path(descriptor)
                yield replace(launch, conf=public, properties_file=file, inherits=(descriptor,))

    def _secret_conf(self) -> dict[str, str]:
        from compactor.airflow.hooks import CompactorHook

        return CompactorHook(self.metastore).configuration().settings.secret_spark_conf

    @property
    def tag(self) -> str:
        """The tag of the batch's applications on YARN."""
        return make_tag(self.metastore, int(self.batch_id), self.planned_at)

    def _submit(self, context: Any, launch: SparkLaunch) -> str:
        """Submits to the cluster; gives the batch back if that fails, so that nothing stays reserved.

        Raises:
            AirflowException: the cluster refused the application, and the message quotes it; or this task was stopped.
        """
        self.log.info("batch %s: %s", self.batch_id, redact(shlex.join(launch.command)))
        self._submission = ClusterSubmission(context["ti"], launch)
        try:
            return self._submission.wait(self.log)
        except SubmissionStopped:
            raise
        except AirflowException as error:
            raise self._give_back(str(error)) from error
        finally:
            self._submission = None

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
        """Ends the driver for which the task waits in its slot, or the spark-submit that it runs.

        A person ended or cleared the task, or it has reached its time-out.

        Otherwise only this process ends, as when it has lost Airflow's API server: the next try finds the driver. If a
        person ended the task, its requests are aborted as well.
        """
        if self._attached is not None:
            attached = self._attached
            attached.is_left = True
            if self._let_go(attached.ti, attached.name):
                driver_processes.end(attached.name)
        elif self._submission is not None:
            submission = self._submission
            submission.stop()
            self._let_go(submission.ti, submission.application)

    def _let_go(self, ti: Any, application: str | None) -> bool:
        """Returns true if ``application`` ends with this task; then ends its batch, and on YARN itself."""
        from compactor.airflow import tasks
        from compactor.airflow.task_ends import is_cleared, is_ended_by_person

        is_timed_out = isinstance(sys.exception(), AirflowTaskTimeout)
        try:
            is_over = is_ended_by_person(ti)
            if is_over or is_timed_out or is_cleared(ti):
                if self._submission is not None and application is not None:
                    tasks.record_launch(self.metastore, int(self.batch_id), application)
                if is_over:
                    tasks.abort(self.metastore, int(self.batch_id))
                else:
                    tasks.release(self.metastore, int(self.batch_id), "its task was stopped")
                return True
            self.log.warning("batch %s: %s goes on without this task", self.batch_id, application or "its application")
        except Exception as error:  # noqa: BLE001 - without an answer the driver goes on, as no work is lost then
            self.log.warning(
                "batch %s: %s goes on without this task: %s", self.batch_id, application or "its application", error
            )
        return False

    def prepare_launch(self) -> SparkLaunch:
        """Returns how spark-submit starts the batch: on the cluster of the connection, else on this machine.

        Raises:
            BadSetting: the connection or a deploy mode cannot be used, or the driver would find no configuration.
        """
        connection = read_spark_connection(self.conn_id)
        if connection is None:
            self.log.info("no Airflow connection %s: Spark runs here, as %s", self.conn_id, LOCAL_MASTER)
            connection = SparkConnection()
        keytab, principal = self.keytab, self.principal or connection.principal
        if self.run_as:
            # spark-submit takes only one of the two: impersonation uses the ticket of the current login.
            keytab = principal = None
        elif keytab is None and connection.keytab is not None:
            keytab = store_keytab(self.conn_id, connection.keytab)
        launch = SparkLaunch(
            program=self.spark_binary or find_spark_binary(connection.program),
            master=connection.master,
            deploy_mode=self.deploy_mode or connection.deploy_mode,
            name=self.job or f"compactor-{self.metastore}-{self.batch_id}",
            application=str(WORKER_JOB),
            arguments=(
                *("--metastore", self.metastore, "--batch", str(self.batch_id)),
                *(() if self.max_seconds is None else ("--max-seconds", str(self.max_seconds))),
            ),
            conf=self.conf,
            environment=self.env_vars,
            queue=self.queue_name or connection.queue,
            proxy_user=self.run_as,
            principal=principal,
            keytab=keytab,
        )
        return self._adapt(launch, connection.namespace)

    def _adapt(self, launch: SparkLaunch, namespace: str | None) -> SparkLaunch:
        """Returns ``launch`` with configuration and environment as its cluster and deploy mode need them."""
        conf, environment = dict(launch.conf), dict(launch.environment)
        if launch.deploy_mode not in (None, "client", "cluster"):
            raise BadSetting(
                f"deploy mode {launch.deploy_mode!r} of [compactor] deploy_mode or of the extra deploy-mode of Airflow "
                f"connection {self.conn_id}; expected: client or cluster"
            )
        if launch.is_cluster:
            self._adapt_to_cluster_mode(launch, conf, environment)
        elif not launch.is_local:
            # Only executors unpack an archive; the driver runs this interpreter, which has what it needs.
            conf.setdefault("spark.pyspark.driver.python", sys.executable)
        if launch.is_kubernetes and namespace:
            conf.setdefault("spark.kubernetes.namespace", namespace)
        if launch.is_yarn:
            conf = for_yarn(conf, is_cluster=launch.is_cluster)
            tags = conf.get("spark.yarn.tags")
            conf["spark.yarn.tags"] = f"{tags},{self.tag}" if tags else self.tag
        return replace(launch, conf=conf, environment=environment)

    def _adapt_to_cluster_mode(self, launch: SparkLaunch, conf: dict[str, str], environment: dict[str, str]) -> None:
        if not (launch.is_yarn or launch.is_kubernetes):
            raise BadSetting(
                f"deploy mode cluster on {launch.master}: Spark supports it for Python on YARN and Kubernetes only; use "
                "client, and [compactor] launcher = process to hold no slot"
            )
        for name in ("PYSPARK_PYTHON", SAFE_PATH):  # this machine's python is not the cluster's
            environment.pop(name, None)
        # spark-submit ends once the application is accepted.
        if launch.is_kubernetes:
            conf["spark.kubernetes.submission.waitAppCompletion"] = "false"
            prefix = "spark.kubernetes.driverEnv"
        else:
            conf["spark.yarn.submit.waitAppCompletion"] = "false"
            prefix = "spark.yarn.appMasterEnv"
            # A driver on a node of YARN opens compactor.toml at the same path, or a copy that travels with it.
            config = environment.get("COMPACTOR_CONFIG")
            must_know_metastore(config, conf if config else {**conf, **self._secret_conf()})
            if config:
                environment["COMPACTOR_CONFIG"] = str(driver_config(config, conf, is_cluster=True))
        conf.update({f"{prefix}.{name}": value for name, value in environment.items()})


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


def _describe_start_failure(program: str, error: OSError) -> str:
    """Returns why spark-submit was not started; the error may be about the driver's log, too."""
    from compactor.site.spark_program import describe_start_failure

    if error.filename in (None, program):
        return describe_start_failure(program, error)
    return f"its driver cannot be started: {error.filename}: {error.strerror}"


def driver_log(metastore: str, batch_id: int | str) -> Path:
    """Returns the path of the log of a driver that is a separate process."""
    folder = text("driver_logs")
    default = Path(airflow_conf.get("logging", "base_log_folder")).parent / "compactor-drivers"
    return (Path(folder) if folder else default) / f"{metastore}-batch-{batch_id}.log"


def find_spark_binary(of_connection: str | None = None) -> str:
    """Returns the program that submits: that of ``[compactor]`` if it is set, else the connection's.

    A name that is not on PATH is looked up next to the running python.
    """
    name = text("spark_binary")
    if of_connection is not None and name == OPTIONS["spark_binary"].default:
        name = of_connection
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
