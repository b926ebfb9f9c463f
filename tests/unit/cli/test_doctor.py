from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.metastore.metastore import Metastore

Compactor = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Asking a JVM for its version would take longer than everything else here."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_a_deployment_that_cannot_be_opened_is_a_finding(compactor: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", "sqlite:////nowhere/at/all.db")
    done = compactor("doctor")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("FAIL  deployment: database sqlite:////nowhere/at/all.db")
    assert lines[1] == "      wanted: a check that can run"
    assert [line[:12] for line in lines if not line.startswith(" ")][-1] == "warn  java: "


def test_json_has_every_finding_with_its_level(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("doctor", "--json")
    output = json.loads(done.stdout)
    failed = [finding for finding in output["findings"] if finding["level"] == "fail"]
    assert (output["metastore"], output["failed"]) == ("default", len(failed))
    assert done.exit_code == (1 if failed else 0)
    assert {"level", "subject", "found", "wanted", "fix"} == set(output["findings"][0])
    assert next(f for f in output["findings"] if f["subject"] == "java")["fix"]


def test_before_hive_3_is_a_check_of_its_own(compactor: Compactor, metastore: Metastore) -> None:
    output = json.loads(compactor("doctor", "--before-hive-3", "--json").stdout)
    assert [(f["level"], f["subject"]) for f in output["findings"]] == [("ok", "before Hive 3")]


def test_compact_is_for_hive_2_only(compactor: Compactor, metastore: Metastore) -> None:
    done = compactor("doctor", "--before-hive-3", "--compact")
    assert (done.exit_code, "compact them while Hive 2.3 runs" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compact"], "belong to --before-hive-3"),
        (["--verify", "full"], "belong to --before-hive-3"),
        (["--before-hive-3", "--verify", "full"], "belongs to --compact"),
    ],
)
def test_options_of_the_upgrade_belong_together(compactor: Compactor, arguments: list[str], said: str) -> None:
    done = compactor("doctor", *arguments)
    assert (done.exit_code, said in done.stderr) == (2, True)
