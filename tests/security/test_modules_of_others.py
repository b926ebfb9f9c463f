"""Modules that another user has left in the current directory: no process of ours imports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.downloads import ROOT
from tests.support.patience import PATIENCE

_REWRITE = """
from compactor.rewrite.run.runner import ProcessRunner
if __name__ == "__main__":
    with ProcessRunner(1) as runner:
        runner.start()
"""
_KEEPER = """
import os, sys
from pathlib import Path
from compactor.base.errors import CompactorError
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import LatestCommits, MetastorePlace
application = find_process(os.getpid())
try:
    Keeper(application, Folder(application, Path(sys.argv[1]))).ask(
        LatestCommits(place=MetastorePlace(config=None, metastore="nobody"), table="t")
    )
except CompactorError as error:
    assert "could not be started" not in str(error), error
"""
_EXECUTORS = """
from compactor.launch.spark_session import start_session
with start_session("modules", master="local[1]") as spark:
    assert spark.sparkContext.parallelize([1]).map(lambda number: number + 1).collect() == [2]
"""


@pytest.mark.parametrize(
    "script",
    [_REWRITE, _KEEPER, pytest.param(_EXECUTORS, marks=pytest.mark.whole)],
    ids=["rewrite", "keeper", "executors"],
)
def test_no_module_of_the_current_directory_is_imported(tmp_path: Path, script: str) -> None:
    """``python -m`` and ``python -c`` look there first."""
    shared, program = tmp_path / "shared", tmp_path / "program.py"
    (tmp_path / "root").mkdir(mode=0o700)
    program.write_text(script)
    for name in ("multiprocessing", "json", "msgspec", "compactor", "pyspark"):
        (shared / name).mkdir(parents=True)
        (shared / name / "__init__.py").write_text(f"open({os.fspath(tmp_path / 'imported')!r}, 'a').write({name!r})\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "root")],
        cwd=shared,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (tmp_path / "imported").exists() is False, (tmp_path / "imported").read_text()
    assert done.returncode == 0, done.stderr
