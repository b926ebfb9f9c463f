from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from compactor.site.site import Site
from tests.support.tables import insert, make_table

Compactor = Callable[..., Result]


@pytest.fixture
def filled(deployment: Site, warehouse: Path) -> None:
    insert(deployment, make_table(deployment, warehouse), [1])


@pytest.mark.usefixtures("filled")
def test_they_are_printed(compactor: Compactor) -> None:
    text = compactor("metrics").stdout
    assert 'compactor_initiated{metastore="default"} 0.0\n' in text
    assert "# HELP compactor_due " in text
    found = {one["name"]: one["value"] for one in json.loads(compactor("metrics", "--json").stdout)}
    assert found["compactor_up"] == 1


@pytest.mark.usefixtures("filled")
def test_they_are_written_in_one_step(compactor: Compactor, tmp_path: Path) -> None:
    path = tmp_path / "compactor.prom"
    assert compactor("metrics", "--file", str(path)).exit_code == 0
    assert path.read_text() == compactor("metrics").stdout
    assert [one.name for one in tmp_path.glob("*.prom*")] == ["compactor.prom"]
    missing = compactor("metrics", "--file", str(tmp_path / "no" / "such.prom"))
    assert (missing.exit_code, "No such file or directory" in missing.output) == (1, True)


def test_a_database_that_is_away_leaves_the_file_as_it_was(
    compactor: Compactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "compactor.prom"
    path.write_text("before")
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", f"sqlite:///{tmp_path}/nothing.db")
    assert compactor("metrics", "--file", str(path)).exit_code == 1
    assert path.read_text() == "before"


@pytest.mark.parametrize("address", ["x", "70000", "host:", "²", "-1"])
def test_what_is_no_address_is_refused(compactor: Compactor, address: str) -> None:
    found = compactor("metrics", "--listen", address)
    assert (found.exit_code, "expected a port up to 65535" in found.output) == (2, True)


def test_a_file_and_an_address_exclude_each_other(compactor: Compactor) -> None:
    assert compactor("metrics", "--listen", "0", "--file", "x").exit_code == 2


@pytest.mark.usefixtures("filled")
def test_they_are_answered_until_a_signal(metastore_url: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from compactor.cli import main; main()", "metrics", "--listen", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "COMPACTOR_METASTORE_URL": metastore_url, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        told = re.fullmatch(r"metrics: (http://127\.0\.0\.1:\d+/metrics)\n", process.stdout.readline())
        assert told is not None
        with urllib.request.urlopen(told.group(1), timeout=30) as answer:
            assert b'compactor_initiated{metastore="default"} 0.0' in answer.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
