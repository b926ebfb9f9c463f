"""The command line of the application; tests of `batches.driver` and of Spark cover what it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.launch.job.worker_job import find_log_url, main
from tests.support.hadoop import write_site

INSIDE = {"CONTAINER_ID": "container_1_0001_01_000001", "NM_HOST": "nm", "NM_HTTP_PORT": "8042", "USER": "hive"}
LOG = "://nm:8042/node/containerlogs/container_1_0001_01_000001/hive"


@pytest.mark.parametrize("arguments", [[], ["--batch", "seven"], ["--batch", "7", "--verify", "none"], ["--oops"]])
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: compactor-worker" in capsys.readouterr().err


def test_help_says_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--batch" in capsys.readouterr().out


def test_no_metastore_is_1_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COMPACTOR_METASTORE_URL", raising=False)
    assert main(["--batch", "7"]) == 1
    assert "no database is configured; set COMPACTOR_METASTORE_URL" in capsys.readouterr().err


def test_a_wrong_setting_is_1(
    metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    assert main(["--batch", "7", "--set", "compactor.no.such=1"]) == 1
    assert "compactor.no.such" in capsys.readouterr().err


def test_a_metastore_that_is_not_there_is_1(
    metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    assert main(["--batch", "7"]) == 1
    assert "metastore.db" in capsys.readouterr().err


def test_the_node_manager_shows_the_log(tmp_path: Path) -> None:
    assert find_log_url(INSIDE) == f"http{LOG}"
    write_site(tmp_path / "yarn-site.xml", {"yarn.http.policy": "HTTPS_ONLY"})
    assert find_log_url({**INSIDE, "HADOOP_CONF_DIR": str(tmp_path)}) == f"https{LOG}"
    assert find_log_url({"USER": "hive"}) is None
