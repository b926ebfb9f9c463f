"""A real Hive of any release in its own JVM, on a PostgreSQL of ours, driven over a pipe."""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.downloads import ROOT, kept_once
from tests.support.java import compiled
from tests.support.maven import maven
from tests.support.ports import free_port
from tests.support.servers import MEMORY, Server, postgres

_LIVE = ROOT / "tests" / "live"
COMMON = _LIVE / "hive"  #: driver, settings and logs of every release
_START_SECONDS, _STATEMENT_SECONDS = 300, 300
#: Its classes use internals of Java, which Java 17 allows only on request.
_OPENED = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "time")),
    *(f"java.base/java.util{name}" for name in ("", ".concurrent", ".concurrent.atomic", ".regex")),
    "java.sql/java.sql",
)

#: Hadoop brings them; Log4j 2 writes the logs.
_OTHER_LOGS = ("slf4j-reload4j", "slf4j-log4j12", "log4j-1.2.17")
_JOBS = "org/apache/hadoop/hive/ql/exec/mr/ExecDriver"


class HiveError(Exception):
    """Hive's error message for a failed request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Hive, and what it needs that others do not."""

    version: str
    name: str  #: of its folder under ``tests/live``, and of its database
    schema: Callable[[], str]  #: script for an empty PostgreSQL
    in_queue: str | None = None  #: version that its queue shows, if it has a column for that
    main: str = "LiveHive"
    options: str = ""  #: of its connections to the database
    properties: Mapping[str, str] = field(default_factory=dict)  #: of Java
    like: Release | None = None  #: release whose driver, settings and list of jars it shares
    run_time: Callable[[], Path] = lambda: Path("java")  #: Java that runs it

    @property
    def sources(self) -> Path:
        return self.like.sources if self.like else _LIVE / self.name

    @property
    def cache(self) -> Path:
        return ROOT / "build" / "cache" / f"hive-{self.version}"

    @property
    def java(self) -> list[Path]:
        """Returns our sources: the driver, and what it says to this release alone."""
        return sorted([*COMMON.glob("*.java"), *self.sources.glob("*.java")])

    def classpath(self) -> list[Path]:
        """Returns our driver of Hive, the jar for its jobs, and Hive's jars."""
        jars = self.libraries()
        return [self._compiled(), self._job_jar(jars), *jars]

    def libraries(self) -> list[Path]:
        """Returns Hive's jars, downloaded once with Maven; the one with the most classes first."""
        folder = self._made("lib", [self.sources / "pom.xml"], self._download)
        jars = [jar for jar in folder.glob("*.jar") if not jar.name.startswith(_OTHER_LOGS)]
        return sorted(jars, key=lambda jar: (not jar.name.startswith("hive-exec"), jar.name))

    def _download(self, folder: Path) -> Path:
        goal = ["-f", str(self.sources / "pom.xml"), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        maven([*goal, f"-Dhive.version={self.version}", f"-DoutputDirectory={folder / 'lib'}"], folder)
        return folder / "lib"

    def _job_jar(self, jars: Sequence[Path]) -> Path:
        """Returns a jar that holds nothing but the class of jobs.

        A job takes the first jar in which that class is found, and copies it before it starts: without this jar, it would
        copy all of Hive.
        """

        def cut(folder: Path) -> Path:
            made = folder / "job"
            made.mkdir()
            with zipfile.ZipFile(jars[0]) as hive, zipfile.ZipFile(made / "job.jar", "w") as jar:
                for name in hive.namelist():
                    if name.startswith(_JOBS):
                        jar.writestr(name, hive.read(name))
            return made

        return self._made("job", [self.sources / "pom.xml"], cut) / "job.jar"

    def _compiled(self) -> Path:
        """Returns our compiled driver."""
        if self.like is not None:  # the machine's own compiler may be too old for jars that need a newer run time
            return self.like._compiled()
        jars = ":".join(map(str, self.libraries()))

        def compile_them(folder: Path) -> Path:
            compiled(self.java, folder / "classes", "-cp", jars)
            return folder / "classes"

        return self._made("classes", self.java, compile_them)

    def _made(self, name: str, of: Iterable[Path], make: Callable[[Path], Path]) -> Path:
        """Returns what was made once of the contents of these files."""
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in of)).hexdigest()[:12]
        return kept_once(self.cache, f"{name}-{digest}", make)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The database and the files of a Hive; what it leaves there survives it."""

    release: Release
    folder: Path
    database: str  #: host:port/name
    password: str
    port: int  #: port of the metastore's server
    #: It runs for minutes in tests, so hot code is worth compiling.
    java: tuple[str, ...] = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Hive:
    """A running Hive. Statements of one session run one after the other, those of different sessions in parallel.

    It ends as soon as its standard input does, and so with us, however we end.
    """

    def __init__(self, place: Place) -> None:
        self.release = place.release
        self.log = place.folder / "hive.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                _command(place),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=place.folder,
                text=True,
                encoding="utf-8",
            )
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[list[str]]] = {}
        self._ready: Future[None] = Future()
        self._guard = threading.Lock()
        threading.Thread(target=self._listen, name="hive's answers", daemon=True).start()

    def wait_until_ready(self) -> None:
        self._ready.result(_START_SECONDS)

    def sql(self, text: str, session: str = "main") -> list[str]:
        """Runs a statement and returns its rows, columns separated by tabs.

        Raises:
            HiveError: the statement failed.
        """
        return self.do("sql", session=session, text=text)

    def set(self, key: str, value: str, session: str = "main") -> None:
        """Changes a setting of the session."""
        self.do("set", session=session, key=key, value=value)

    def do(self, what: str, session: str = "main", **arguments: Any) -> list[str]:
        """Sends one request and returns its answer."""
        return self.begin(what, session, **arguments).result(_STATEMENT_SECONDS)

    def begin(self, what: str, session: str = "main", **arguments: Any) -> Future[list[str]]:
        """Sends one request; its answer comes later."""
        asked: Future[list[str]] = Future()
        with self._guard:
            number = next(self._numbers)
            self._waiting[number] = asked
            assert self._process.stdin is not None
            given = {"id": number, "session": session, "do": what, **arguments}
            self._process.stdin.write(json.dumps(given) + "\n")
            self._process.stdin.flush()
        return asked

    def kill(self) -> None:
        """Kills it, as a machine that loses power would."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def _causes(self) -> str:
        """Returns the log's last words about a failed job, which the statement's own error does not mention."""
        lines = self.log.read_text("utf-8", "replace").splitlines()[-400:]
        causes = [line for line in lines if line.startswith(("Caused by: ", "java.")) or " ERROR " in line]
        return "".join(f"\n  log: {line}" for line in causes[-12:])

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed by ``kill``
            for line in self._process.stdout:
                answer = json.loads(line)
                if "id" not in answer:
                    self._ready.set_result(None)
                    continue
                asked = self._waiting.pop(answer["id"])
                if answer["ok"]:
                    asked.set_result(answer["rows"])
                else:
                    asked.set_exception(HiveError(f"{answer['error']}{self._causes()}"))
        gone = HiveError(f"Hive has ended; it said: {self.log.read_text('utf-8', 'replace')[-3000:]}")
        for asked in [self._ready, *self._waiting.values()]:
            if not asked.done():
                asked.set_exception(gone)


@contextmanager
def placed(release: Release, *java: str) -> Iterator[tuple[Place, Server]]:
    """Yields a database with the release's schema and a folder for a warehouse; ``java`` holds the options of its JVM."""
    folder = Path(tempfile.mkdtemp(prefix="hive-", dir=MEMORY if MEMORY.is_dir() else None))
    port, password = free_port(), secrets.token_hex(16)
    try:
        with postgres(port) as server:
            server.make(release.name, release.schema())
            server.sql(f"ALTER USER hive PASSWORD '{password}';", release.name)
            (folder / "external").mkdir()  # where Trino puts the tables that it creates
            database = f"127.0.0.1:{port}/{release.name}"
            place = Place(release=release, folder=folder, database=database, password=password, port=free_port())
            yield (replace(place, java=java) if java else place), server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(place: Place) -> Iterator[Hive]:
    """Yields a Hive that ends with the block."""
    hive = Hive(place)
    try:
        hive.wait_until_ready()
        yield hive
    finally:
        hive.kill()


def _command(place: Place) -> list[str]:
    release = place.release
    properties = {
        "live.folder": str(place.folder),
        "live.database": f"jdbc:postgresql://{place.database}{release.options}",
        "live.password": place.password,
        "live.metastore.port": str(place.port),
        "live.listeners": "",
        "log4j2.configurationFile": str(COMMON / "log4j2.properties"),
        "java.io.tmpdir": str(place.folder),
        "java.net.preferIPv4Stack": "true",
        "user.timezone": "UTC",
        **release.properties,
    }
    return [
        str(release.run_time()),
        *place.java,
        "-XX:-UsePerfData",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        *(f"-D{name}={value}" for name, value in properties.items()),
        *("-cp", ":".join(map(str, [release.sources, COMMON, *release.classpath()])), release.main),
    ]
