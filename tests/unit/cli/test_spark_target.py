from __future__ import annotations

from pathlib import Path

import pytest

from compactor.cli.spark_target import target_of

DEFAULTS = """# of the site
spark.master            yarn
spark.submit.deployMode=cluster
spark.executor.memory:  4g   \n
! spark.pyspark.python /no
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    return tmp_path


def test_options_win_over_the_site_s_defaults(home: Path) -> None:
    found = target_of("spark-submit", None, None, {"SPARK_HOME": str(home)})
    assert (found.master, found.deploy_mode, found.options) == ("yarn", "cluster", ())
    assert found.defaults["spark.executor.memory"] == "4g"
    assert "spark.pyspark.python" not in found.defaults
    assert (found.is_yarn, found.is_cluster, found.is_local) == (True, True, False)
    given = target_of("spark-submit", "local[2]", "client", {"SPARK_HOME": str(home)})
    assert (given.is_local, given.is_cluster) == (True, False)
    assert given.options == ("--master", "local[2]", "--deploy-mode", "client")


def test_the_defaults_are_where_spark_submit_finds_them(home: Path, tmp_path: Path) -> None:
    assert target_of(str(home / "bin" / "spark-submit"), None, None, {}).is_yarn
    assert target_of("x", None, None, {"SPARK_CONF_DIR": str(home / "conf"), "SPARK_HOME": "/nowhere"}).is_yarn
    assert target_of("/nowhere/bin/spark-submit", None, None, {}).is_local
