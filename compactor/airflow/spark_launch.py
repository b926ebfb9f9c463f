"""The start of spark-submit: Airflow's connection, the command line, the submission to a cluster."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from compactor.base.errors import BadSetting
from compactor.base.redaction import redact
from compactor.launch.submit_target import LOCAL_MASTER, SubmitTarget
from compactor.launch.yarn_application import find_application_id

log = logging.getLogger(__name__)
_MASTERS = ("local", "spark://", "k8s://")  #: what a master other than ``yarn`` begins with
#: The programs that a connection may name; only the configuration may name any other.
_PROGRAMS = ("spark-submit", "spark2-submit", "spark3-submit")
#: Fields that the form of Airflow's Spark provider adds to a connection; the others are for the provider's own operators.
READ_FIELDS = frozenset({"queue", "deploy-mode", "spark-binary", "namespace", "principal", "keytab"})
UNREAD_FIELDS = frozenset({"rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address"})
_KEPT_LINES = 2000  #: lines of spark-submit's output, to find the reason of a failure in


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConnection:
    """The cluster that an Airflow connection names, with its defaults for each application."""

    master: str = LOCAL_MASTER
    deploy_mode: str | None = None
    queue: str | None = None
    namespace: str | None = None
    principal: str | None = None
    keytab: str | None = field(default=None, repr=False)  #: its content, in Base64
    program: str | None = None


def read_spark_connection(conn_id: str) -> SparkConnection | None:
    """Returns the cluster of the connection ``conn_id``; None if it does not exist.

    A connection has the fields that Airflow's Spark provider gives it.

    Raises:
        BadSetting: a field has a value that spark-submit would refuse, or one that would be lost.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    extra = {key: value for key, value in connection.extra_dejson.items() if value not in (None, "")}
    if "spark-home" in extra:
        raise BadSetting(
            f"Airflow connection {conn_id}: has the extra spark-home; expected: none; name its program by "
            "[compactor] spark_binary of Airflow's configuration, such as /opt/spark/bin/spark-submit"
        )
    program = extra.get("spark-binary")
    if program is not None and program not in _PROGRAMS:
        raise BadSetting(
            f"Airflow connection {conn_id}: extra spark-binary is {program!r}; expected: one of {', '.join(_PROGRAMS)}; "
            "any other program is named by [compactor] spark_binary of Airflow's configuration"
        )
    if unknown := sorted(extra.keys() - READ_FIELDS - UNREAD_FIELDS):
        log.warning(
            "Airflow connection %s: the extra %s is not used; known: %s",
            *(conn_id, ", ".join(unknown), ", ".join(sorted(READ_FIELDS))),
        )
    return SparkConnection(
        master=_find_master(conn_id, connection),
        deploy_mode=extra.get("deploy-mode"),
        queue=extra.get("queue"),
        namespace=extra.get("namespace"),
        principal=extra.get("principal"),
        keytab=extra.get("keytab"),
        program=program,
    )


def _find_master(conn_id: str, connection: Any) -> str:
    """Returns the URL of a connection's master, written in one field or divided into fields.

    In the form, the host may be a whole URL, such as ``k8s://https://api``. Airflow divides a connection's own URI, such as
    ``spark://m:7077``, into type, host and port.
    """
    kind, host, port = str(connection.conn_type), connection.host or "", connection.port
    is_whole = kind == "spark" and bool(host) and ("://" in host or not port)
    master = (host if is_whole else f"{kind}://{host}") + (f":{port}" if port else "")
    if master == "yarn://":
        return "yarn"
    if master != "yarn" and not (master.startswith(_MASTERS) and not master.endswith("://")):
        raise BadSetting(
            f"Airflow connection {conn_id}: its type, host and port give the master {master!r}; expected: yarn, local[*], "
            "spark://HOST:PORT or k8s://URL; write it as the host of a connection of type spark"
        )
    return master


def store_keytab(conn_id: str, keytab: str) -> str:
    """Stores the keytab of a connection in a file of this user alone, and returns its path.

    spark-submit, and a driver that outlives its task, read the keytab by path. Its name follows from its content, so each
    keytab is stored once.

    Raises:
        BadSetting: the keytab is not in Base64, or cannot be stored.
    """
    whose = f"keytab of Airflow connection {conn_id}"
    try:
        content = base64.b64decode("".join(keytab.split()), validate=True)
    except binascii.Error as error:
        raise BadSetting(f"{whose}: is not in Base64 ({error}); expected: the output of base64 KEYTAB") from None
    folder = Path(tempfile.gettempdir()).resolve()
    path = folder / f"compactor-{os.geteuid()}-{hashlib.sha256(content).hexdigest()[:32]}.keytab"
    try:
        if not path.exists():
            descriptor, staged = tempfile.mkstemp(prefix=".compactor-", suffix=".keytab", dir=folder)  # of mode 0600
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(staged, path)
    except OSError as error:
        raise BadSetting(f"{whose}: cannot be stored in {folder} (TMPDIR): {error.strerror}") from error
    return str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLaunch(SubmitTarget):
    """One start of spark-submit."""

    program: str
    name: str
    application: str  #: path of the driver's file
    arguments: tuple[str, ...]
    conf: Mapping[str, str]
    environment: Mapping[str, str]  #: what the process gets besides ours
    queue: str | None = None
    proxy_user: str | None = None
    principal: str | None = None
    keytab: str | None = None  #: path
    properties_file: str | None = None
    inherits: tuple[int, ...] = ()  #: open files that the process gets

    @property
    def command(self) -> list[str]:
        """The command line."""
        options = {
            "--master": self.master,
            "--deploy-mode": self.deploy_mode,
            "--name": self.name,
            "--queue": self.queue,
            "--proxy-user": self.proxy_user,
            "--principal": self.principal,
            "--keytab": self.keytab,
            "--properties-file": self.properties_file,
        }
        line = [self.program]
        for option, value in options.items():
            line += [option, value] if value else []
        for key, value in sorted(self.conf.items()):
            line += ["--conf", f"{key}={value}"]
        return [*line, self.find_driver_file(self.application, self.conf), *self.arguments]


class SubmissionStopped(AirflowException):
    """A task ended its own spark-submit."""


class ClusterSubmission:
    """A spark-submit that hands an application over to a cluster, and then ends."""

    def __init__(self, ti: Any, launch: SparkLaunch) -> None:
        """Starts it for the task ``ti``.

        Raises:
            OSError: it cannot be started.
        """
        self.ti = ti
        self.is_stopped = False
        self.output: deque[str] = deque(maxlen=_KEPT_LINES)
        self._program = launch.program
        self._process = subprocess.Popen(
            launch.command,
            env={**os.environ, **launch.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=launch.inherits,
        )

    @property
    def application(self) -> str | None:
        """The application's name in the cluster once it is reported: YARN's id, or NAMESPACE:POD."""
        return find_application_id("\n".join(self.output))

    def wait(self, logger: Any) -> str:
        """Logs the output until the process ends, and returns the application's name in the cluster.

        Raises:
            SubmissionStopped: ``stop`` was called.
            AirflowException: spark-submit failed, or did not report a name.
        """
        with self._process as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.output.append(line.rstrip())
                logger.info("%s", redact(line.rstrip()))
        if self.is_stopped:
            raise SubmissionStopped("this try ends; if the cluster has accepted the application, the next try finds it")
        if process.returncode:
            raise AirflowException(f"{self._program} ended with {process.returncode}\n" + "\n".join(self.output))
        if self.application is None:
            raise AirflowException(
                f"{self._program} succeeded but did not report an application; set its log level to INFO"
            )
        return self.application

    def stop(self) -> None:
        """Ends spark-submit; an application that the cluster has accepted goes on."""
        self.is_stopped = True
        self._process.terminate()
