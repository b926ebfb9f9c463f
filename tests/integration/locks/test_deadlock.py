"""Whatever the order of requests, every process gets all its locks in the end, and no two hold what excludes each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.sizes import sized
from tests.support.zookeeper import ZooKeeper

ROOT = Path(__file__).parents[3]
PROCESSES, ROUNDS = 8, sized(short=2, whole=5)


@pytest.mark.parametrize("manager", ["metastore", "zookeeper"])
def test_eight_processes_end(
    manager: str, metastore_url: str, zookeeper: ZooKeeper, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each wants three of five objects at once, shared or exclusive, named in its own order."""
    if manager == "metastore":
        request.getfixturevalue("metastore")
    where = metastore_url if manager == "metastore" else zookeeper.hosts
    places = tmp_path / "held"
    places.mkdir()
    contend = Path(__file__).with_name("contend.py")
    done = subprocess.run(
        [sys.executable, str(contend), manager, where, str(PROCESSES), str(ROUNDS), str(places)],
        capture_output=True,
        text=True,
        timeout=PATIENCE + 60,  # it speaks first
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"errors": [], "codes": [0] * PROCESSES}
