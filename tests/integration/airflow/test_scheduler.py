"""The DAGs in a real scheduler: the demo with one month of flights. And that nothing of it is left, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE, until

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "compactor.demo", "run", "--months", "1", "--folder", str(folder)]


def processes(folder: Path) -> list[str]:
    """Commands of living processes that work in ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_the_scheduler_finds_compacts_and_cleans_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(command(folder), cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    tables = {table["table"]: table for table in json.loads((folder / "report.json").read_text("utf-8"))["tables"]}
    assert len(tables) == 4
    for table in tables.values():
        assert table["checksum_before"] == table["checksum_after"]
        assert table["rows_before"] == table["rows_after"] > 0
        assert table["directories_after"] == max(table["partitions"], 1) < table["directories_before"]
    assert 30 <= tables["demo.flights"]["directories_before"] <= 60
    assert "compaction_worker success (asset triggered)" in done.stdout
    assert "compaction_cleaner success (asset triggered)" in done.stdout
    assert "acid_housekeeper success" in done.stdout
    assert "compact_table success (manual)" in done.stdout
    assert processes(folder) == []


def test_interrupted_it_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    demo = subprocess.Popen(command(folder), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = folder / "airflow" / "component-logs" / "scheduler.log"
    until("the scheduler", lambda: log.exists() or demo.poll() is not None, pause=0.2)
    assert demo.poll() is None, demo.communicate()[0]
    assert processes(folder)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130, output
    assert output.rstrip().endswith("Stopped.")
    assert processes(folder) == []
