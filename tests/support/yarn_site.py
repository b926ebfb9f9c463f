"""A site whose applications run on a YARN of our own: its metastore, its compactor.toml, Spark's configuration, and the
ways in which a person submits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from compactor.batches.assembly import PlannedBatch
from compactor.compaction.queue_entry import Entry
from compactor.launch.yarn_application import find_application_id
from compactor.metastore.catalog.values import Table
from compactor.site.deployment import open_deployment
from compactor.site.site import Site, own_state
from compactor.state.batches import Batch
from tests.support.patience import PATIENCE, until
from tests.support.spark_cluster import QUICK, Packed
from tests.support.tables import insert, make_table, rows_of
from tests.support.yarn import Yarn

SPARK = Path(pyspark.__file__).parent
#: Small containers, so that several applications fit: a driver, its master in client mode, and one executor.
DEFAULTS = {
    "spark.master": "yarn",
    "spark.yarn.jars": f"local:{SPARK}/jars/*",  # else 400 MB are packed and copied each time
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "384m",
    "spark.driver.memory": "512m",
    "spark.driver.memoryOverhead": "384m",
    "spark.yarn.am.memory": "384m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.yarn.am.extraJavaOptions": QUICK,
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
SECRET = "spark.hadoop.fs.s3a.secret.key"
BLOCKER = Path(__file__).with_name("yarn_blocker.py")
#: An application without a SparkContext, which its master would not wait for so long.
OCCUPIES = {
    "spark.yarn.am.waitTime": "1h",
    "spark.yarn.submit.waitAppCompletion": "false",
    "spark.yarn.maxAppAttempts": "1",
}
#: What to occupy of the node, so that beside it no driver fits; or a driver, and none of its executors.
NO_DRIVER_FITS, NO_EXECUTOR_FITS = "7000m", "6100m"
#: An executor that no node can hold: the driver works, and waits for ever.
NEVER_FITS = {"spark.executor.memory": "7300m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnSite:
    """A metastore with tables, and how its batches reach ``yarn``."""

    yarn: Yarn
    packed: Packed
    site: Site
    warehouse: Path
    folder: Path
    hadoop: Path | None = None  #: core-site.xml and yarn-site.xml of clients, if not the cluster's own

    @property
    def config(self) -> Path:
        return self.folder / "compactor.toml"

    def write_config(
        self, url: str, settings: Mapping[str, str] | None = None, further: str = "", to: Path | None = None
    ) -> None:
        """Writes compactor.toml, with the packed environment for every application."""
        packed = {
            "compactor.spark.archives": f"{self.packed.archive}#environment",
            "compactor.spark.pyspark.python": "./environment/bin/python",
            "compactor.spark.scheduler.maxRegisteredResourcesWaitingTime": "2s",
            f"compactor.{SECRET}": "M4rk-of-the-site",  # so every batch is submitted with a file of properties
        }
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in {**packed, **(settings or {})}.items()]
        (to or self.config).write_text(
            f'[metastore.default]\nurl = "{url}"\nwarehouse = "{self.warehouse}"\nmode = "clean"\n{further}\n'
            "[metastore.default.settings]\n" + "\n".join(lines) + "\n"
        )

    def spark_home(self, conf: Mapping[str, str], home: Path | None = None) -> Mapping[str, str]:
        """Returns the environment of spark-submit, with ``conf`` in spark-defaults.conf."""
        events = self.folder / "events"
        events.mkdir(exist_ok=True)
        given = {
            **DEFAULTS,
            "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
            "spark.eventLog.dir": events.as_uri(),
            **conf,
        }
        home = home or self.folder / "spark"
        home.mkdir(exist_ok=True)
        (home / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in given.items()))
        return {
            "SPARK_CONF_DIR": str(home),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HADOOP_CONF_DIR": str(self.hadoop or self.yarn.configuration),
            "PYTHONPATH": "",
        }

    def table(self, name: str, **parameters: str) -> Table:
        """Creates a table with two deltas of four rows."""
        table = make_table(self.site, self.warehouse, name, **parameters)
        insert(self.site, table, range(4))
        insert(self.site, table, range(4, 8))
        return table

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        return rows_of(self.site, table)

    def entry(self, table: Table) -> Entry:
        """Returns the only entry of ``table``, from the queue or the history."""
        entries = self.site.metastore.entries
        (found,) = [e for e in (*entries.queue(), *entries.history()) if e.entity.table == table.name]
        return found

    def batches(self) -> list[Batch]:
        """Returns the batches, newest first."""
        return own_state(self.site).batches.find(self.site.name)

    def compactor(self, *arguments: str) -> list[str]:
        return [str(Path(sys.executable).with_name("compactor")), "--config", str(self.config), *arguments]

    def submit(
        self, mode: str, *arguments: str, conf: Mapping[str, str] | None = None, flags: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``compactor FLAGS submit ARGUMENTS`` to its end."""
        with self.submitting(mode, *arguments, conf=conf, flags=flags) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @contextmanager
    def submitting(
        self, mode: str, *arguments: str, conf: Mapping[str, str] | None = None, flags: Sequence[str] = ()
    ) -> Iterator[subprocess.Popen[str]]:
        """Starts ``compactor submit``; it and what it started have ended when the block ends."""
        line = self.compactor(*flags, "submit", "--master", "yarn", "--deploy-mode", mode, *arguments)
        with self.started(line, conf=conf) as process:
            yield process

    def accepted(self) -> dict[str, Any] | None:
        """Returns an application of ours that waits for a container of its queue; None if there is none."""
        found = self.yarn.applications(states=("ACCEPTED",))
        return next((one for one in found if one["applicationTags"].startswith("compactor-")), None)

    @contextmanager
    def occupied(self, queue: str, memory: str) -> Iterator[str]:
        """Occupies a container of so much memory, by somebody else's application in ``queue``, until the block ends."""
        line = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster", "--queue", queue]
        with self.started([*line, str(BLOCKER)], conf=OCCUPIES | {"spark.driver.memory": memory}) as process:
            _, said = process.communicate(timeout=PATIENCE)
        number = find_application_id(said)
        assert number is not None, said
        until("the occupied container", lambda: self.yarn.application(number).get("amContainerLogs"), pause=0.2)
        try:
            yield number
        finally:
            self.yarn.kill(number)

    @contextmanager
    def configured(self) -> Iterator[Site]:
        """Opens the site as compactor.toml says."""
        with open_deployment(config_path=str(self.config)) as site:
            yield site

    def spark_submit(self, mode: str, planned: PlannedBatch) -> subprocess.CompletedProcess[str]:
        """Submits a planned batch as docs/spark.md says, without any of our launchers, and waits for its end."""
        with self.started(self.spark_submit_line(mode, planned)) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def spark_submit_line(self, mode: str, planned: PlannedBatch, *arguments: str) -> list[str]:
        given = {
            "spark.yarn.dist.archives": f"{self.packed.archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            **({"spark.pyspark.driver.python": str(self.packed.python)} if mode == "client" else {}),
        }
        line = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
        line += ["--queue", str(planned.queue), *(["--files", str(self.config)] if mode == "cluster" else [])]
        line += [word for key, value in given.items() for word in ("--conf", f"{key}={value}")]
        line += [str(self.packed.application), "--metastore", "default", "--batch", str(planned.batch_id)]
        return [*line, "--config", "compactor.toml" if mode == "cluster" else str(self.config), *arguments]

    @contextmanager
    def started(
        self, line: Sequence[str], environment: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Starts ``line`` with Spark's environment in a folder where nothing can be imported."""
        home = Path(tempfile.mkdtemp(prefix="spark-", dir=self.folder))
        own = os.environ | self.spark_home(conf or {}, home) | dict(environment or {})
        with subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", *line],
            cwd=self.folder,
            env=own,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()
