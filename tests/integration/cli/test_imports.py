"""A command imports what it uses: a person waits for the answer, not for libraries that it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.site.site import Site
from tests.support.downloads import ROOT
from tests.support.tables import insert, make_table

#: Prints which of the modules in the first argument were imported by the command in the others.
_COMMAND = """
import sys
from compactor.cli import main
unneeded, sys.argv[1:] = sys.argv[1].split(), sys.argv[2:]
try:
    main()
except SystemExit as end:
    if end.code:
        raise
print(*(name for name in unneeded if name in sys.modules), file=sys.stderr)
"""
_MODULE = "import importlib, sys; importlib.import_module(sys.argv[2]); "
_MODULE += "print(*(name for name in sys.argv[1].split() if name in sys.modules), file=sys.stderr)"

ORC = "numpy pyarrow pyorc google.protobuf compactor.orc.format.tail compactor.rows.acid_file"
ENGINE = f"{ORC} compactor.rewrite.full_acid compactor.rewrite.insert_only compactor.rewrite.run"
FOREIGN = "alembic mako rich pyspark airflow prometheus_client kazoo fsspec pyiceberg"
SERVERS = "sqlalchemy.dialects.postgresql sqlalchemy.dialects.mysql"
HIVE_2 = "compactor.hive2 compactor.metastore.schema.hive2 compactor.metastore.queue.hive2_queue"
STORES = "compactor.storage.hdfs compactor.storage.s3 compactor.storage.abfs compactor.storage.gcs"
FOR_ALL = f"{ENGINE} {FOREIGN} {SERVERS} {HIVE_2} {STORES}"
SQL = "sqlalchemy compactor.metastore compactor.state compactor.site.site"


def unneeded(code: str, names: str, *arguments: str, directory: Path | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, names, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("--help", f"{FOR_ALL} {SQL} compactor.acid compactor.storage"),
        ("show --help", f"{FOR_ALL} {SQL} compactor.cli.request_commands compactor.cli.run compactor.launch"),
        ("show settings", f"{FOR_ALL} compactor.metastore.locks compactor.metastore.transactions.transactions"),
        (
            "show compactions",
            f"{FOR_ALL} compactor.worker compactor.initiator compactor.cleaner compactor.acid.directory "
            "compactor.metastore.locks compactor.metastore.statistics compactor.metastore.notifications",
        ),
        ("show history", f"{FOR_ALL} compactor.worker compactor.initiator compactor.cleaner"),
        ("show tables", f"{FOR_ALL} compactor.worker compactor.metastore.statistics"),
        ("show locks", f"{FOR_ALL} compactor.worker compactor.initiator"),
        ("show transactions", f"{FOR_ALL} compactor.worker compactor.initiator"),
        ("show alarms", FOR_ALL),
        ("explain default.t", f"{FOR_ALL} compactor.rewrite.plan.plan compactor.batches"),
        ("compact default.t", f"{FOR_ALL} compactor.rewrite.plan.plan compactor.batches compactor.cleaner"),
        ("pause default.t", f"{FOR_ALL} compactor.initiator compactor.worker"),
    ],
)
def test_a_command_imports_what_it_uses(
    command: str, names: str, deployment: Site, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(deployment, make_table(deployment, warehouse), [1])
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", f"sqlite:///{deployment.metastore.database.path}")
    assert unneeded(_COMMAND, names, *command.split(), directory=tmp_path) == []


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("compactor.initiator.initiator", f"{FOR_ALL} compactor.cleaner compactor.housekeeper"),
        ("compactor.cleaner.cleaner", f"{FOR_ALL} compactor.initiator.initiator compactor.housekeeper"),
        ("compactor.housekeeper.housekeeper", f"{FOR_ALL} compactor.cleaner compactor.initiator.initiator"),
        ("compactor.launch.batch_watch", FOR_ALL),
        ("compactor.batches.assembly", FOR_ALL),
        ("compactor.answers.readings", FOR_ALL),
        ("compactor.spark_tables", f"{SQL} pyarrow numpy msgspec compactor.acid compactor.tables"),
        (
            "compactor.spark_tables.reader",
            f"{SQL} msgspec compactor.spark_tables.acid_table compactor.spark_tables.session",
        ),
    ],
)
def test_a_role_and_an_executor_import_what_they_use(module: str, names: str) -> None:
    assert unneeded(_MODULE, names, module) == []


def test_a_module_that_is_imported_is_reported() -> None:
    assert unneeded(_MODULE, "alembic numpy", "compactor.state.state_upgrade") == ["alembic"]
