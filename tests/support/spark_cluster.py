"""A standalone cluster of Spark on loopback, from pyspark's own jars: a master and two workers of one core each.

The Spark is the one of uv.lock, or ``oldest``, the oldest that is supported, which is downloaded once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from tests.support.daemons import Daemon
from tests.support.downloads import ROOT, kept_once
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

SPARK = Path(pyspark.__file__).parent
WORKERS = 2
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  #: compiling does not pay off in a JVM that lives for seconds
#: Neither the checkout nor a Spark of the machine may be found by accident.
_BARE = {
    "PYTHONPATH": "",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": QUICK,
}


#: The oldest Spark that is supported, as on most clusters, and the py4j that belongs to it.
OLDEST = ("pyspark==3.5.7", "py4j==0.10.9.7")
_CACHE = ROOT / "build" / "cache" / "spark"


def oldest() -> Path:
    """Returns the home of the oldest Spark, downloaded once."""

    def install(folder: Path) -> Path:
        command = [ROOT / ".tools" / "bin" / "uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
        here = os.environ | {"UV_SYSTEM_CERTS": "true"}
        subprocess.run([*command, "--target", folder / "made", *OLDEST], check=True, env=here)
        return folder / "made"

    return kept_once(_CACHE, "-".join(OLDEST), install) / "pyspark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The archive made by ``make dist-spark``, and its contents unpacked once for drivers."""

    archive: Path
    application: Path
    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"


def pack(folder: Path, extras: str = "") -> Packed:
    """Packs the checkout and its libraries, of those for databases and stores ``extras`` alone."""
    subprocess.run(
        [ROOT / "tools" / "dist-spark", folder],
        check=True,
        env=os.environ | {"DIST_SPARK_EXTRAS": extras, "UV_SYSTEM_CERTS": "true"},
        stdout=subprocess.DEVNULL,
    )
    packed = Packed(
        archive=folder / "compactor-spark.tar.gz",
        application=folder / "compactor-worker.py",
        environment=folder / "unpacked",
    )
    packed.environment.mkdir()
    subprocess.run(["tar", "-C", packed.environment, "-xzf", packed.archive], check=True)
    return packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster. ``folder`` holds what its processes write, ``home`` is its Spark."""

    folder: Path
    home: Path
    master: str
    packed: Packed

    def command(self, arguments: Sequence[str], conf: Mapping[str, str]) -> list[str]:
        """Returns the spark-submit command in client mode, with the packed environment for driver and executors."""
        given = {
            "spark.archives": f"{self.packed.archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.pyspark.driver.python": str(self.packed.python),
            "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(self.folder / "events"),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{PATIENCE:.0f}s",
            **conf,
        }
        line = [str(self.home / "bin" / "spark-submit"), "--master", self.master]
        for key, value in given.items():
            line += ["--conf", f"{key}={value}"]
        return [*line, str(self.packed.application), *arguments]

    @contextmanager
    def submitted(
        self, arguments: Sequence[str], environment: Mapping[str, str], conf: Mapping[str, str] | None = None
    ) -> Iterator[Iterator[Any]]:
        """Submits an application from a folder in which it can import nothing; yields its report of each batch."""
        with (
            (self.folder / "driver.log").open("a") as log,
            subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *self.command(arguments, conf or {})],
                cwd=self.folder,
                env=os.environ | _BARE | {"SPARK_HOME": str(self.home)} | dict(environment),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                yield _said(process.stdout, log)
            finally:
                process.terminate()

    def events(self) -> list[dict[str, Any]]:
        """Returns the events that Spark logged about the last application."""
        log = max((self.folder / "events").iterdir(), key=lambda path: path.name.removesuffix(".inprogress"))
        return [json.loads(line) for line in log.read_text().splitlines()]


@contextmanager
def cluster(folder: Path, packed: Packed, home: Path = SPARK) -> Iterator[Cluster]:
    """Yields a master and its workers until the block ends."""
    (folder / "events").mkdir()
    with standalone(folder, home=home) as address:
        yield Cluster(folder=folder, home=home, master=address, packed=packed)


@contextmanager
def standalone(
    folder: Path, workers: int = WORKERS, environment: Mapping[str, str] | None = None, home: Path = SPARK
) -> Iterator[str]:
    """Yields the address of a master, with workers in ``environment``, each on a host of its own, until the block ends."""
    bare = {**_BARE, "SPARK_HOME": str(home)}
    port, page = free_port(), free_port()
    run = str(home / "bin" / "spark-class")
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    daemons = [
        Daemon(name="master", folder=folder, command=[run, *master, "--webui-port", str(page)], environment=bare)
    ]
    for number in range(workers):
        worker = ["org.apache.spark.deploy.worker.Worker", "--host", f"127.0.0.{number + 1}", "--webui-port", "0"]
        worker += ["--cores", "1", "--memory", "768m", "--work-dir", str(folder / f"work{number}"), address]
        given = {**bare, **(environment or {})}
        daemons.append(Daemon(name=f"worker{number}", folder=folder, command=[run, *worker], environment=given))
    try:
        for daemon in daemons:
            daemon.start()
        daemons[0].until(lambda: _alive(page) == workers)
        yield address
    finally:
        for daemon in reversed(daemons):
            if daemon.process is not None:
                daemon.end()


def _said(output: Iterable[str], log: TextIO) -> Iterator[Any]:
    """Yields the lines of JSON in ``output``; spark-submit mixes them with the driver's log.

    Raises:
        AssertionError: the driver ended before the expected line.
    """
    for line in output:
        if line.startswith("{"):
            yield json.loads(line)
        else:
            log.write(line)
    log.flush()
    raise AssertionError(f"the driver ended: {Path(log.name).read_text()[-4000:]}")


def _alive(page: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, OSError):
        return 0
