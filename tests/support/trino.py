"""A real Trino in its own JVM, on the live Hive's metastore, driven over its HTTP protocol: release 476 or 483."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.downloads import ROOT, made_once
from tests.support.java import compiled, java_of
from tests.support.maven import maven
from tests.support.ports import free_port
from tests.support.server_programs import debian_program

SOURCES = ROOT / "tests" / "live" / "trino"
CACHE = ROOT / "build" / "cache" / "trino-476"
_SOURCES_483 = ROOT / "tests" / "live" / "trino483"
_CACHE_483 = ROOT / "build" / "cache" / "trino-483"
_LISTENER = SOURCES / "listener"
_START_SECONDS, _STATEMENT_SECONDS = 300, 300
#: Plugins of the server that delay its start and are not used here.
_NEEDLESS = (
    *("geospatial", "functions-python", "exchange-filesystem", "spooling-filesystem", "password-authenticators"),
    *("resource-group-managers", "session-property-managers"),
)
_HEADERS = {
    "X-Trino-User": "somebody",
    "X-Trino-Catalog": "hive",
    "X-Trino-Schema": "default",
    "X-Trino-Time-Zone": "UTC",
    "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",  # else timestamps are rounded
}
_MESSAGES_OF_A_START = ("NO_NODES_AVAILABLE", "nodes is empty", "SERVER_STARTING_UP")


class TrinoError(Exception):
    """Trino's error: its name and its message."""


class Trino:
    """A running Trino of ``release``, which posts the queries that it ran to ``tell_url`` with ``token``
    (docs/http-api.md). It ends with us, however we end."""

    def __init__(
        self,
        folder: Path,
        metastore_port: int,
        tell_url: str = "",
        token: str = "",
        *,
        release: TrinoRelease | None = None,
    ) -> None:
        self.version = (release or TRINO_476).version
        self._port = free_port()
        home = folder / f"trino-{self.version}"
        self.log = home / "trino.log"
        etc = home / "etc"
        (etc / "catalog").mkdir(parents=True)
        shutil.copy(SOURCES / "config.properties", etc)
        shutil.copy(SOURCES / "hive.properties", etc / "catalog")
        given = {"LIVE_METASTORE_PORT": str(metastore_port), "LIVE_TRINO_PORT": str(self._port)}
        if tell_url:
            listener = shutil.copy(SOURCES / "listener.properties", etc)
            with (etc / "config.properties").open("a") as config:
                config.write(f"event-listener.config-files={listener}\n")
            given |= {"LIVE_TELL_URL": tell_url, "LIVE_TELL_TOKEN": token}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *(release or TRINO_476).command(home)],
                stdout=log,
                stderr=log,
                cwd=home,
                env=os.environ | given,
            )

    def wait_until_ready(self, first: str) -> None:
        """Waits until it answers ``first``: having started is not enough, since for a while it has no worker."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.sql(first)
                return
            except (OSError, http.client.HTTPException):
                pass
            except TrinoError as error:
                if not any(message in str(error) for message in _MESSAGES_OF_A_START):
                    raise
            assert self._process.poll() is None, f"Trino has ended: {self._said()}"
            assert time.monotonic() < deadline, f"Trino does not start: {self._said()}"
            time.sleep(0.1)

    def sql(self, text: str, session: str = "") -> list[list[Any]]:
        """Returns the rows of a statement as JSON has them: types that JSON lacks are strings.

        Args:
            session: properties as ``SET SESSION`` takes them, ``key=value``.

        Raises:
            TrinoError: the statement failed.
        """
        deadline = time.monotonic() + _STATEMENT_SECONDS
        url = f"http://127.0.0.1:{self._port}/v1/statement"
        headers = _HEADERS | ({"X-Trino-Session": session} if session else {})
        answer = _answer(urllib.request.Request(url, text.encode(), headers))
        rows: list[list[Any]] = []
        while "nextUri" in answer:
            assert time.monotonic() < deadline, f"Trino does not end {text}"
            answer = _answer(urllib.request.Request(answer["nextUri"]))
            rows += answer.get("data", ())
        if "error" in answer:
            raise TrinoError(
                f"{answer['error']['errorName']}: {answer['error']['message']}{_tell_cause(answer['error'])}"
            )
        return rows

    def kill(self) -> None:
        """Kills it at once."""
        self._process.kill()
        self._process.wait()

    def _said(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(line for line in lines if "ERROR" in line or line.startswith(("Caused", "1) ")))[-3000:]


def _tell_cause(error: Mapping[str, Any]) -> str:
    cause = error.get("failureInfo", {}).get("cause")
    return f" ({cause['type']}: {cause.get('message')})" if cause else ""


def _answer(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=_STATEMENT_SECONDS) as response:
        return dict(json.load(response))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrinoRelease:
    """A release of Trino, and how its server starts."""

    version: str
    main: tuple[str, ...]  #: class, with its arguments
    options: tuple[str, ...] = ()  #: of Java

    def download(self) -> None:
        """Downloads everything that a start needs."""
        self._java()
        self._server()

    def command(self, folder: Path) -> list[str]:
        """Returns the command of a server with its settings in ``folder``."""
        home = self._server()
        properties = {
            "node.environment": "test",
            "node.id": "one",
            "node.data-dir": str(folder / "data"),
            "plugin.dir": str(home / "plugin"),
            "config": str(folder / "etc" / "config.properties"),
            "catalog.config-dir": str(folder / "etc" / "catalog"),
            "jdk.attach.allowAttachSelf": "true",
            "user.timezone": "UTC",
            "file.encoding": "UTF-8",
        }
        return [
            *self._java(),
            "-server",
            *self.options,
            "-Xmx1g",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # it runs for minutes, so hot code is worth compiling
            "-XX:-UsePerfData",
            "--enable-native-access=ALL-UNNAMED",
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", f"{home}:{home / 'lib'}/*", *self.main),
        ]

    def _java(self) -> Sequence[str]:
        return [str(java())] if self is TRINO_476 else debian_program("openjdk-25", "java")

    def _server(self) -> Path:
        return server() if self is TRINO_476 else _server_483()


TRINO_476 = TrinoRelease(version="476", main=("io.trino.server.TrinoServer",))
TRINO_483 = TrinoRelease(
    version="483",
    main=("StartTrino", "483"),
    options=(
        "--add-modules=jdk.incubator.vector",
        "-Djdk.lang.Process.launchMechanism=FORK",  # the others start Java's helper, without the loader that it needs
    ),
)


def server() -> Path:
    """Returns the server with the one connector and the one event listener needed, downloaded once with Maven."""
    return made_once(CACHE, "server", SOURCES / "pom.xml", _make_server)


def _make_server(folder: Path) -> Path:
    archives, made = folder / "archives", folder / "made"
    goal = ["-f", str(SOURCES / "pom.xml"), "generate-resources", f"-Dfolder={archives}"]
    maven(["--strict-checksums", *goal], folder)
    made.mkdir()
    # plugins share files by hard links, so everything is unpacked before anything is deleted
    _run(["tar", "-xzf", str(archives / "trino-server-core.tar.gz"), "-C", str(made), "--strip-components=1"])
    for name in _NEEDLESS:
        shutil.rmtree(made / "plugin" / name)
    # not shutil's unpack_archive, which omits names with two dots: Trino shortens its jars' names with three
    with zipfile.ZipFile(archives / "trino-hive.zip") as archive:
        archive.extractall(folder / "hive")
    [hive] = (folder / "hive").iterdir()
    hive.rename(made / "plugin" / "hive")
    (archives / "hdfs").rename(made / "plugin" / "hive" / "hdfs")
    _add_listener(made, archives / "trino-http-event-listener.zip", folder)
    return made


def _add_listener(server: Path, archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder / "listener")
    [unpacked] = (folder / "listener").iterdir()
    plugin = unpacked.rename(server / "plugin" / "http-event-listener")
    for old in plugin.glob("stats-*.jar"):
        old.unlink()
    [stats] = (server / "lib").glob("io.airlift_stats-*.jar")
    shutil.copy(stats, plugin)
    classes = folder / "classes"
    compiled([_LISTENER / "HttpListener.java"], classes, "-sourcepath", str(_LISTENER))
    with zipfile.ZipFile(plugin / "adapter.jar", "w") as jar:
        jar.write(classes / "HttpListener.class", "HttpListener.class")
        jar.writestr("META-INF/services/io.trino.spi.Plugin", "HttpListener\n")


def _server_483() -> Path:
    """Returns the server and the connector for Hive, put together from their jars: this release has no archives."""

    def put_together(folder: Path) -> Path:
        server = folder / "made"
        for artifact, place in (("main", "lib"), ("hive", "plugin/hive"), ("hdfs", "plugin/hive/hdfs")):
            goal = ["-f", str(_SOURCES_483 / "pom.xml"), "generate-resources"]
            maven(["--strict-checksums", *goal, f"-Dartifact=trino-{artifact}", f"-Dfolder={server / place}"], folder)
        with zipfile.ZipFile(server / "plugin" / "hive" / "services.jar", "w") as jar:
            jar.writestr("META-INF/services/io.trino.spi.Plugin", "io.trino.plugin.hive.HivePlugin\n")
        compiled([_SOURCES_483 / "StartTrino.java"], server)
        return server

    return made_once(_CACHE_483, "server", _SOURCES_483 / "pom.xml", put_together)


def java() -> Path:
    """Returns a recent enough Java, whatever the machine's own is."""
    return java_of(SOURCES / "java.txt", CACHE)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
