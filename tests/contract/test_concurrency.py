from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compactor.compaction.entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog import Column
from compactor.metastore.store import Metastore

PROCESSES, ROUNDS = 16, 3
ROOT = Path(__file__).parents[2]


def test_sixteen_processes_get_nothing_twice(metastore: Metastore, url: str, tmp_path: Path) -> None:
    """PROTOCOL 9: counters, claims and exclusive locks hold across processes (BEGIN IMMEDIATE, row locks)."""
    metastore.catalog.create_table("default", "t", "/warehouse/t", [Column(name="a", type="int")])
    total = PROCESSES * ROUNDS
    wanted = total - 5  # fewer than attempts: the last claims find nothing
    requested = [
        metastore.compactions.request(
            Request(
                entity=Entity(database="default", table="t", partition=f"p={number}"),
                type=CompactionType.MINOR,
                initiator="compactor-test",
            )
        )
        for number in range(wanted)
    ]
    counter = tmp_path / "counter"
    counter.write_text("0")
    hammer = Path(__file__).with_name("hammer.py")
    done = subprocess.run(
        [sys.executable, str(hammer), url, str(PROCESSES), str(ROUNDS), str(counter)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["write_ids"] == list(range(1, total + 1))
    # where ids are drawn early, one whose row came too late is taken back and its number is left out
    assert len(set(got["txns"])) == total
    assert got["locks"] == list(range(1, total + 1))
    assert got["claims"] == requested
    assert counter.read_text() == str(total)
