"""Runs Airflow's four components as children of this process, each in its own session, and ends all of them.

This is not ``airflow standalone``, where a signal only reaches the parent and leaves orphans.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from compactor.base.errors import CompactorError

log = logging.getLogger(__name__)
COMPONENTS = ("api-server", "dag-processor", "scheduler", "triggerer")
#: In the environment of every child, by which processes that left its group are found.
_MARK = "COMPACTOR_DEMO_RUN"
#: Variables that would lead the demo to another metastore, Airflow or Spark.
_NOT_INHERITED = ("AIRFLOW_", "COMPACTOR_", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_GRACE = 10.0  #: seconds between SIGTERM and SIGKILL


class ServersFailed(CompactorError):
    """A component of Airflow ended, never answered, or refused a call."""


def find_free_port() -> int:
    """Returns a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def component_environment(home: Path, dags: Path, port: int, more: Mapping[str, str]) -> dict[str, str]:
    """Returns this process's environment plus the variables by which the components find each other."""
    url = f"http://127.0.0.1:{port}"
    venv = str(Path(sys.executable).parent)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_INHERITED)}
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "PATH": os.pathsep.join([venv, inherited.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        **more,
    }


class AirflowServers:
    """The four components over one AIRFLOW_HOME. ``start`` and ``stop`` may come from different threads.

    Args:
        more: further variables for the environment of each component.
        command: the command that starts a component.
        components: must include the API server.
    """

    def __init__(
        self,
        home: Path,
        dags: Path,
        more: Mapping[str, str],
        *,
        port: int | None = None,
        command: Sequence[str] = (sys.executable, "-m", "airflow"),
        components: Sequence[str] = COMPONENTS,
    ) -> None:
        self.home = home
        self._command = command
        self._components = components
        self.port = port or find_free_port()
        self.user = "admin"
        self.password = secrets.token_urlsafe(12)
        self._mark = secrets.token_hex(8)
        self._environment = component_environment(home, dags, self.port, {**more, _MARK: self._mark})
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._token: str | None = None
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        """One file per component."""
        return self.home / "component-logs"

    def start(self, timeout: float = 300) -> None:
        """Creates Airflow's database, starts the components and waits until the API answers.

        Raises:
            ServersFailed: a component ended or does not answer in time; the message has the end of its log.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({self.user: self.password}), "utf-8")
        deadline = time.monotonic() + timeout
        self._launch("migrate", ["db", "migrate"])
        if self._children["migrate"].wait(timeout) != 0:
            raise ServersFailed(f"airflow db migrate failed: {self.tail('migrate')}")
        for component in self._components:
            self._launch(component, [component])
        while not self._is_answering():
            self.check()
            if time.monotonic() > deadline:
                raise ServersFailed(f"Airflow's API did not answer within {timeout:.0f} s: {self.tail('api-server')}")
            time.sleep(0.3)

    def _launch(self, name: str, arguments: list[str]) -> None:
        with self._lock, ExitStack() as stack:
            if self._stopped:
                raise ServersFailed(f"{name} is not started: the servers were stopped")
            output = stack.enter_context((self.logs / f"{name}.log").open("ab"))
            self._children[name] = subprocess.Popen(
                [*self._command, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _is_answering(self) -> bool:
        try:
            self.call("GET", "/api/v2/dags?limit=1")
        except (OSError, ServersFailed):
            return False
        return True

    def check(self) -> None:
        """Checks that all components are running.

        Raises:
            ServersFailed: one has ended.
        """
        for name, child in self._children.items():
            if name != "migrate" and child.poll() is not None:
                raise ServersFailed(f"airflow {name} ended with {child.returncode}: {self.tail(name)}")

    def tail(self, component: str, lines: int = 25) -> str:
        """Returns the path and the last lines of the log of ``component``."""
        path = self.logs / f"{component}.log"
        text = path.read_text("utf-8", errors="replace") if path.exists() else ""
        return "\n".join([str(path), *text.splitlines()[-lines:]])

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = 120) -> Any:
        """Calls Airflow's REST API and returns the JSON of the response.

        Raises:
            ServersFailed: the status is not 2xx; the message has the body.
            OSError: there is no response.
        """
        if self._token is None:
            login = {"username": self.user, "password": self.password}
            self._token = str(self._send("POST", "/auth/token", login, {}, timeout)["access_token"])
        return self._send(method, path, body, {"Authorization": f"Bearer {self._token}"}, timeout)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], timeout: float
    ) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
        )
        # The loopback interface is reached without the environment's proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode("utf-8", errors="replace")
            raise ServersFailed(f"{method} {path} answered {error.code}: {text[:2000]}") from None

    def stop(self) -> None:
        """Ends every process of the components, and returns once all have ended. May be called twice."""
        with self._lock:
            self._stopped = True
            children = list(self._children.values())
        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in children:
                _signal_group(child.pid, number)
            if self._have_ended(children, _GRACE):
                break
        for pid in self._find_marked():
            log.warning("process %s outlived its group and is killed", pid)
            _signal(pid, signal.SIGKILL)
        for child in children:
            child.wait()

    def _have_ended(self, children: list[subprocess.Popen[bytes]], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not [child for child in children if child.poll() is None or _is_group_alive(child.pid)]:
                return True
            time.sleep(0.1)
        return False

    def _find_marked(self) -> Iterator[int]:
        """Yields the live processes started with our mark; none if there is no /proc."""
        mark = f"{_MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in variables and int(folder.name) != os.getpid():
                yield int(folder.name)

    def __enter__(self) -> AirflowServers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _is_group_alive(group: int) -> bool:
    """Tells whether a process of the group is running.

    Ended orphans stay in the group if the machine's first process does not reap them, as in many containers.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    stats = [_read_stat(folder) for folder in Path("/proc").glob("[0-9]*")]
    return not stats or any(stat[2] == str(group) and stat[0] not in "ZX" for stat in stats if stat)


def _read_stat(folder: Path) -> list[str]:
    """Returns state, parent, group and more of a process; empty once it is gone."""
    try:
        return (folder / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
