"""Storage servers of our own on loopback: a NameNode with a DataNode, and a server that speaks S3. They end with the
tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import requests

from tests.support.hadoop import hadoop_jars, java_command, write_site
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

_START_SECONDS = PATIENCE
HTTPFS_SERVER = "org.apache.hadoop.fs.http.server.HttpFSServerWebServer"
HTTPFS_PLACES = {"home": "", "config": "conf", "log": "log", "temp": "temp"}


def answers(url: str, status: int | None = None) -> bool:
    """Returns true if ``url`` is answered, with ``status`` where one is given: for ``Daemon.running``."""
    try:
        found = requests.get(url, timeout=10).status_code
    except requests.RequestException:
        return False
    return status is None or found == status


@dataclass(slots=True, kw_only=True)
class Daemon:
    """One process; it ends with us, however we end."""

    name: str
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / f"{self.name}.log").open("a") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *self.command],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | dict(self.environment),
            )

    def until(self, answers: Callable[[], bool]) -> None:
        """Waits until the daemon is ready to serve."""
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if answers():
                return
            time.sleep(0.1)
        raise AssertionError(f"{self.name} did not start: {(self.folder / f'{self.name}.log').read_text()[-4000:]}")

    @contextmanager
    def running(self, answers: Callable[[], bool]) -> Iterator[None]:
        """Keeps the daemon serving for the duration of the block."""
        self.start()
        try:
            self.until(answers)
            yield
        finally:
            self.end()

    def end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hdfs:
    """A cluster of one NameNode and one DataNode. ``location`` is its root, ``url`` the address of WebHDFS."""

    location: str
    url: str
    user: str
    data_node: Daemon

    def can_write(self) -> bool:
        """Returns true once a file can be written: the DataNode has registered and answers."""
        probe = f"{self.url}/webhdfs/v1/.probe?op=CREATE&overwrite=true&user.name={self.user}"
        try:
            return requests.put(probe, data=b"1", timeout=10).status_code == 201
        except requests.RequestException:
            return False


@contextmanager
def hdfs(folder: Path, user: str) -> Iterator[Hdfs]:
    """Yields a cluster whose superuser is ``user``, with its files in ``folder``."""
    rpc, http, data, data_http, data_ipc = (free_port() for _ in range(5))
    values = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{rpc}",
        "dfs.namenode.rpc-address": f"127.0.0.1:{rpc}",
        "dfs.namenode.http-address": f"127.0.0.1:{http}",
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.namenode.acls.enabled": "true",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.datanode.address": f"127.0.0.1:{data}",
        "dfs.datanode.http.address": f"127.0.0.1:{data_http}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{data_ipc}",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.replication": "1",
        "dfs.heartbeat.interval": "1",
        f"hadoop.proxyuser.{user}.hosts": "127.0.0.1",  # HttpFS acts on behalf of others
        f"hadoop.proxyuser.{user}.groups": "*",
    }
    for name in ("core-site.xml", "hdfs-site.xml"):
        write_site(folder / name, values)
    for application in ("hdfs", "datanode"):  # the daemons' web pages, which Maven's archives leave out
        (folder / "webapps" / application).mkdir(parents=True)
    java = [*java_command(), "-cp", f"{folder}:{hadoop_jars()}/*"]
    environment = {"HADOOP_USER_NAME": user}
    server = "org.apache.hadoop.hdfs.server"
    format_it = [*java, f"{server}.namenode.NameNode", "-format", "-nonInteractive"]
    subprocess.run(format_it, check=True, capture_output=True, cwd=folder, env=os.environ | environment)
    name_node = Daemon(
        name="namenode", folder=folder, command=[*java, f"{server}.namenode.NameNode"], environment=environment
    )
    data_node = Daemon(
        name="datanode", folder=folder, command=[*java, f"{server}.datanode.DataNode"], environment=environment
    )
    cluster = Hdfs(location=f"hdfs://127.0.0.1:{rpc}", url=f"http://127.0.0.1:{http}", user=user, data_node=data_node)
    started: list[Daemon] = []
    try:
        for daemon in (name_node, data_node):
            daemon.start()
            started.append(daemon)
        data_node.until(cluster.can_write)
        yield cluster
    finally:
        for daemon in started:
            daemon.end()


@contextmanager
def httpfs(folder: Path, cluster: Hdfs) -> Iterator[str]:
    """Yields the address of an HttpFS in front of ``cluster``, for which it acts as the cluster's own user."""
    port, home = free_port(), folder / "httpfs"
    for name in ("conf", "log", "temp"):
        (home / name).mkdir(parents=True)
    (home / "secret").write_text("of nobody", "utf-8")
    values = {
        "httpfs.http.hostname": "127.0.0.1",
        "httpfs.http.port": str(port),
        "httpfs.authentication.signature.secret.file": str(home / "secret"),
    }
    write_site(home / "conf" / "httpfs-site.xml", values)
    write_site(home / "conf" / "core-site.xml", {"fs.defaultFS": cluster.location})
    places = [f"-Dhttpfs.{name}.dir={home / folder}" for name, folder in HTTPFS_PLACES.items()]
    server = Daemon(
        name="httpfs",
        folder=home,
        command=[*java_command(*places), "-cp", f"{home / 'conf'}:{hadoop_jars()}/*", HTTPFS_SERVER],
        environment={"HADOOP_USER_NAME": cluster.user},
    )
    url = f"http://127.0.0.1:{port}"

    probe = f"{url}/webhdfs/v1/?op=LISTSTATUS&user.name={cluster.user}"
    with server.running(partial(answers, probe, 200)):
        yield url


class Between:
    """A proxy in front of a server: answers with ``status`` itself where ``fails`` says so; ``seen`` records everything
    that passed.

    ``body`` may replace a request's body by another of the same length, ``asked`` a request header, and ``headers`` a
    response header.
    """

    def __init__(self, url: str) -> None:
        self.reset()
        self._target = urlsplit(url)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def reset(self) -> None:
        """Lets everything pass again, and clears the record."""
        self.fails: Callable[[str, str], bool] = lambda method, path: False
        self.status = 503
        self.body: Callable[[bytes], bytes] = bytes
        self.asked: Callable[[str, str], str] = lambda name, value: value
        self.headers: Callable[[str, str, str], str] = lambda method, name, value: value
        self.seen: list[tuple[str, str]] = []

    def __enter__(self) -> Between:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        between = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                between.seen.append((self.command, self.path))
                if between.fails(self.command, self.path):
                    self._answer(between.status, [], b"")
                    return
                server = HTTPConnection(between._target.hostname or "", between._target.port)
                asked = {name: between.asked(name.lower(), value) for name, value in self.headers.items()}
                server.request(self.command, self.path, between.body(body), asked)
                answer = server.getresponse()
                content = answer.read()
                left_out = ("transfer-encoding", "content-length", "connection", "date", "server")
                kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in left_out]
                headers = [(k, between.headers(self.command, k.lower(), v)) for k, v in kept]
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._answer(answer.status, headers, content, length)
                server.close()

            def _answer(
                self, status: int, headers: list[tuple[str, str]], content: bytes, length: str | None = None
            ) -> None:
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing: ``seen`` records what passed."""

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

        return Handler


@contextmanager
def s3(folder: Path) -> Iterator[str]:
    """Yields the address of a server that speaks S3 and keeps its objects in memory."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = Daemon(
        name="s3", folder=folder, command=[sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    )

    def answers() -> bool:
        try:
            with urlopen(f"{url}/moto-api/", timeout=5):
                return True
        except (URLError, OSError):
            return False

    with server.running(answers):
        yield url


@contextmanager
def gcs(folder: Path, bucket: str) -> Iterator[str]:
    """Yields the address of an in-memory emulator of Google's store, with one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = ["start", "--host", "127.0.0.1", "--port", str(port), "--in-memory", "--default-bucket", bucket]
    server = Daemon(name="gcs", folder=folder, command=[sys.executable, "-m", "gcp_storage_emulator", *options])

    def answers() -> bool:
        try:
            with urlopen(f"{url}/storage/v1/b/{bucket}", timeout=5):
                return True
        except (URLError, OSError):
            return False

    with server.running(answers):
        yield url
