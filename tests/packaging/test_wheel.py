"""The wheel and each of its extras, installed by pip into an environment of its own.

Libraries of ``uv.lock`` are put there first, from the cache that ``make setup`` has filled: they are hundreds of megabytes,
and what was released since is no news of ours. For pip nothing is left to fetch but what the lock leaves out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]

#: What must import with an extra, and could not without it. Installed one after the other into one environment, as
#: extras may be combined; that core alone is enough for core is seen before any of them.
EXTRAS = {
    "postgres": ("psycopg", "compactor.database.servers"),
    "mysql": ("pymysql", "compactor.database.servers"),
    "zookeeper": ("kazoo", "compactor.metastore.locks.zookeeper"),
    "jceks": ("cryptography", "compactor.settings.credential_store"),
    "hdfs": ("requests", "compactor.storage.hdfs"),
    "kerberos": ("requests_kerberos", "compactor.storage.hdfs_kerberos"),
    "s3": ("s3fs", "compactor.storage.s3"),
    "gcs": ("gcsfs", "compactor.storage.gcs"),
    "abfs": ("adlfs", "compactor.storage.abfs"),
    "tables": ("polars", "compactor.tables"),
    "iceberg": ("pyiceberg", "compactor.mirror.mirrored_tables"),
    "spark": ("pyspark.sql", "compactor.launch.spark_session", "compactor.launch.job.worker_job"),
    "airflow": ("airflow.sdk", "compactor.airflow.dags", "compactor.airflow.plugin"),
}
#: What a command says that would need the extra, before it is there.
ASKED_FOR = {
    "hdfs": "hdfs://nn: HDFS needs the extra: pip install 'hive-compactor[hdfs]'",
    "kerberos": "hdfs://nn: Kerberos needs the extra: pip install 'hive-compactor[hdfs,kerberos]'",
}
_HDFS = '[storage.hdfs]\nurl = "http://127.0.0.1:1"\nauthorities = ["nn"]\nkerberos = true\n'


class Environment:
    """A fresh virtual environment that knows nothing of this checkout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._extras: list[str] = []
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self._environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._environment |= {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "COMPACTOR_METASTORE_URL": f"sqlite:///{folder / 'metastore.db'}",
            "COMPACTOR_WAREHOUSE": str(folder),
        }

        (folder / "hdfs.toml").write_text(_HDFS, "utf-8")

    def run(self, program: str, *arguments: str) -> str:
        done = self._run(program, *arguments)
        assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def said_of_a_file_in_hdfs(self) -> str:
        """Returns why one is not read, from a cluster that is not there and wants tickets."""
        done = self._run("compactor", "--config", "hdfs.toml", "dump", "hdfs://nn/t/bucket_00000")
        assert done.returncode != 0
        return done.stderr

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._folder / "venv" / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self._folder,
            env=self._environment,
            check=False,
        )

    def install(self, wheel: Path, extra: str = "") -> None:
        """As somebody does who has the libraries of the lock already."""
        self._extras += ["--extra", extra] if extra else []
        uv = [ROOT / ".tools" / "bin" / "uv", "sync", "--quiet", "--frozen", "--inexact", *self._extras]
        here = {
            "UV_SYSTEM_CERTS": "true",
            "UV_PROJECT_ENVIRONMENT": str(self._folder / "venv"),
            "UV_PYTHON_DOWNLOADS": "never",
        }
        without_us = ["--no-install-project", "--no-default-groups"]
        subprocess.run([*uv, *without_us], check=True, cwd=ROOT, env=self._environment | here)
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        self.run("python", "-m", "pip", "install", "--quiet", "--no-compile", what)

    def has(self, module: str) -> bool:
        found = self.run("python", "-c", f"import importlib.util as u; print(u.find_spec({module!r}) is not None)")
        return found.strip() == "True"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, capture_output=True)
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture
def environment() -> Iterator[Environment]:
    """On disk: Airflow and Spark take more than a gigabyte."""
    with tempfile.TemporaryDirectory(prefix="compactor-wheel-") as folder:
        yield Environment(Path(folder))


def test_it_asks_for_what_the_project_says(wheel: Path) -> None:
    """Else what is installed here from the lock would hide that pip were told of less."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(archive.read(metadata).decode("utf-8")).get_all("Requires-Dist", [])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    core = [(None, line) for line in project["dependencies"]]
    extras = [(extra, line) for extra, lines in project["optional-dependencies"].items() for line in lines]
    wanted = {Requirement(f"{line}; extra == '{extra}'" if extra else line) for extra, line in [*core, *extras]}
    assert {Requirement(line) for line in told} == wanted


def test_core_and_every_extra(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    environment.run("compactor", "--help")
    environment.run("compactor", "metastore", "init")
    environment.run("compactor", "doctor")
    assert [extra for extra, (library, *_) in EXTRAS.items() if environment.has(library.partition(".")[0])] == []
    for extra, modules in EXTRAS.items():
        if extra in ASKED_FOR:
            assert ASKED_FOR[extra] in environment.said_of_a_file_in_hdfs()
        environment.install(wheel, extra)
        environment.run("python", "-W", "error::ImportWarning", "-c", f"import {', '.join(modules)}")
    # What stands before it is what Airflow says while it makes its home.
    shown = environment.run("airflow", "providers", "get", "hive-compactor", "--full", "--output", "json")
    (provider,) = json.loads(shown[shown.index("[{") :])
    assert [one["connection-type"] for one in provider["connection-types"]] == ["hive_compactor"]
    assert [one["schemes"] for one in provider["asset-uris"]] == [["hive"]]
    assert "metastores" in provider["config"]["compactor"]["options"]
