"""The servers against children that behave badly; Airflow itself is in the integration tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.servers import AirflowServers, ServersFailed, _is_group_alive, component_environment, find_free_port
from tests.support.patience import PATIENCE, until

FAKE = """
import http.server, json, os, signal, subprocess, sys, time

what = sys.argv[1]
if what == "db":
    sys.exit(int(os.environ.get("FAKE_MIGRATE", "0")))
if what == os.environ.get("FAKE_DIES"):
    print("no more strength")
    sys.exit(3)
if what == "scheduler":
    # A child that is deaf to SIGTERM, and one that left the process group.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
if what != "api-server":
    time.sleep(60)


class Api(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self):
        if self.headers["Authorization"] != "Bearer t0":
            self.answer(401, {"detail": "who are you"})
        elif self.path.startswith("/api/v2/dags"):
            self.answer(200, {"dags": []})
        else:
            self.answer(404, {"detail": "no such path"})

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        passwords = json.load(open(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]))
        known = passwords.get(sent["username"]) == sent["password"]
        self.answer(201 if known else 401, {"access_token": "t0"})

    def log_message(self, *args):
        pass


http.server.HTTPServer(("127.0.0.1", int(os.environ["AIRFLOW__API__PORT"])), Api).serve_forever()
"""


@pytest.fixture
def fake(tmp_path: Path) -> list[str]:
    path = tmp_path / "fake_airflow.py"
    path.write_text(textwrap.dedent(FAKE), "utf-8")
    return [sys.executable, str(path)]


def marked(mark: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)
        except OSError:
            continue


def start_and_watch(servers: AirflowServers) -> None:
    servers.start(timeout=PATIENCE)
    while True:
        servers.check()


def test_all_components_run_and_none_is_left(tmp_path: Path, fake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.servers._GRACE", 1.0)
    with AirflowServers(tmp_path / "home", tmp_path, {"FAKE_NAME": str(tmp_path)}, command=fake) as servers:
        servers.start(timeout=PATIENCE)
        servers.check()
        assert servers.call("GET", "/api/v2/dags") == {"dags": []}
        with pytest.raises(ServersFailed, match=r"GET /nowhere answered 404.*no such path"):
            servers.call("GET", "/nowhere")
        mark = f"FAKE_NAME={tmp_path}"
        until("all five processes", lambda: len(list(marked(mark))) == 5, pause=0.05)
    until("none is left", lambda: not list(marked(mark)), pause=0.05)
    servers.stop()


def test_a_zombie_does_not_count_as_alive() -> None:
    """Such orphans in a container whose first process reaps none made every stop wait for its full time."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    assert _is_group_alive(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    os.killpg(child.pid, 0)  # the kernel still knows the group
    assert not _is_group_alive(child.pid)
    child.wait()


def test_a_component_that_ends_is_reported_with_the_end_of_its_log(
    tmp_path: Path, fake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.servers._GRACE", 1.0)
    with (
        AirflowServers(tmp_path / "home", tmp_path, {"FAKE_DIES": "triggerer"}, command=fake) as servers,
        pytest.raises(ServersFailed, match=r"(?s)airflow triggerer ended with 3.*no more strength"),
    ):
        start_and_watch(servers)


def test_a_failed_migration_starts_nothing(tmp_path: Path, fake: list[str]) -> None:
    with AirflowServers(tmp_path / "home", tmp_path, {"FAKE_MIGRATE": "1"}, command=fake) as servers:
        with pytest.raises(ServersFailed, match="airflow db migrate failed"):
            servers.start(timeout=PATIENCE)
        assert list(servers.logs.glob("scheduler.log")) == []


def test_nothing_is_started_once_stopped(tmp_path: Path, fake: list[str]) -> None:
    servers = AirflowServers(tmp_path / "home", tmp_path, {}, command=fake)
    servers.stop()
    with pytest.raises(ServersFailed, match="servers were stopped"):
        servers.start(timeout=PATIENCE)


def test_the_passwords_are_for_their_owner_only(tmp_path: Path, fake: list[str]) -> None:
    with AirflowServers(tmp_path / "home", tmp_path, {"FAKE_MIGRATE": "1"}, command=fake) as servers:
        with pytest.raises(ServersFailed):
            servers.start(timeout=PATIENCE)
        assert (servers.home / "passwords.json").stat().st_mode & 0o077 == 0


def test_no_child_learns_of_another_metastore_or_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo started where a real metastore is configured must never touch it."""
    foreign = {
        "COMPACTOR_METASTORE_URL": "postgresql://hive@prod/metastore",
        "AIRFLOW_CONN_SPARK_DEFAULT": "spark://prod",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://prod/airflow",
        "SPARK_HOME": "/opt/other",
        "HADOOP_CONF_DIR": "/etc/hadoop",
    }
    for key, value in foreign.items():
        monkeypatch.setenv(key, value)
    found = component_environment(tmp_path, tmp_path, 1234, {"COMPACTOR_X": "ours"})
    assert not set(foreign) & set(found)
    assert found["COMPACTOR_X"] == "ours"
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_a_free_port_is_one_that_can_be_used() -> None:
    assert 1024 < find_free_port() < 65536
