"""Spark 3.5 has no data sources in Python; all else works beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.downloads import ROOT
from tests.support.spark_cluster import oldest

_COMMAND = ("-c", "from compactor.cli import main; main()")
_SCRIPT = """
create database shop location '{place}';
create table shop.t (i int, s string) stored as orc tblproperties ('transactional' = 'true');
insert into shop.t values (1, 'a'), (2, 'b');
update shop.t set s = 'c' where i = 2;
select s, i from shop.t where i > 1;
"""


def ran(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python where PySpark is 3.5."""
    path = f"{oldest().parent}{os.pathsep}{ROOT}"
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path}, cwd=folder, text=True, capture_output=True
    )


def test_tables_for_spark_say_that_they_need_a_newer_one(tmp_path: Path) -> None:
    done = ran("-c", "import compactor.spark_tables", folder=tmp_path)
    assert done.returncode == 1
    assert "PySpark 3.5.7 is too old for tables for Spark, which need 4.2 or later" in done.stderr


def test_sql_without_spark_runs_beside_it(tmp_path: Path) -> None:
    (tmp_path / "compactor.toml").write_text(
        f'[metastore.default]\nurl = "sqlite:///{tmp_path}/metastore.db"\nmode = "clean"\n'
    )
    made = ran(*_COMMAND, "metastore", "init", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    done = ran(*_COMMAND, "--json", "sql", _SCRIPT.format(place=tmp_path / "shop"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == '{"s": "c", "i": 2}'
