"""``hive_acid`` by Spark Connect: the program has no JVM, and the server's host has the keeper (TABLES 14)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.tables import Store
from tests.support.patience import until
from tests.support.spark_connect import connect_server

pytestmark = pytest.mark.whole
CLIENT = Path(__file__).parent / "connect_client.py"


def test_a_program_without_a_jvm_reads_and_writes(
    store: Store, config: str, tmp_path: Path, open_agents: Callable[[], list[str]]
) -> None:
    with connect_server(tmp_path) as address:
        client = subprocess.run(
            [sys.executable, str(CLIENT), address, config], capture_output=True, text=True, check=False
        )
        assert client.returncode == 0, client.stderr
    found = json.loads(client.stdout)
    assert "BadExpression" in found.pop("error")
    assert "no column 'x'" in found.pop("refused")
    assert found == {
        "before": [2, 3],
        "first": [1, 2, 3],
        "same": [1, 2, 3],
        "joined": 3,
        "after": [1, 2, 3, 4, 5],
        "overwritten": [9],
        "merged": {"deleted": 0, "updated": 1, "inserted": 2},
        "deleted": 1,
        "updated": 1,
        "changed": [[9, "y"], [10, "Z"]],
    }
    assert [row["i"] for row in store.load_table("db.t").scan().to_arrow().to_pylist()] == [9, 10]
    until("the end of the keeper's transactions with the server", lambda: open_agents() == [])
