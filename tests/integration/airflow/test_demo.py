"""`make demo` and `make up`, as their targets start them, in a real scheduler; nothing is left, however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compactor.cleaner.blockers import blocking_transactions
from demo import scenes
from demo.demo_folder import DemoPaths
from demo.tables import TABLES
from tests.support.patience import PATIENCE, until

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]


def started(what: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", what, "--folder", str(folder), "--months", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    environment["PYTHONUNBUFFERED"] = "1"  # its lines are read while it runs
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


class Ran(NamedTuple):
    """A demo that has run to its end: its folder, its output, and its figures by table."""

    folder: Path
    said: str
    tables: Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The demo with one month of flights, whole."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    with started("run", folder) as process:
        said, _ = process.communicate()
    assert process.returncode == 0, said
    figures = json.loads((folder / "report.json").read_text("utf-8"))["tables"]
    return Ran(folder, said, {one["table"]: one for one in figures})


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


def test_the_demo_tells_its_whole_story(ran: Ran) -> None:
    for told in (
        "MERGE INTO demo.orders AS o USING demo.order_changes AS c ON o.id = c.id",
        "demo.orders: 2,475 rows updated, 275 deleted, 225 inserted",
        "demo.damaged has failed, as it should",
        "nothing is removed yet",
        "compact_table is triggered for demo.damaged, whose file is put back",
        "bytes were copied as they were; 12 stripes copied, 0 decoded",
        "every row that was written meanwhile is there",
    ):
        assert told in " ".join(ran.said.split()), told
    assert ran.tables["demo.clicks"]["directories_after"] == ran.tables["demo.damaged"]["directories_after"] == 1
    assert ran.tables["demo.live"]["rows_after"] > ran.tables["demo.live"]["rows_before"]


def test_the_scheduler_finds_compacts_and_cleans_by_itself(ran: Ran) -> None:
    scene = {str(one) for one in (scenes.CLICKS, scenes.DAMAGED, scenes.LIVE)}
    assert ran.tables["demo.orders"]["rows_after"] == 11_000 - 275 + 225
    theirs = [table for name, table in ran.tables.items() if name not in scene]
    assert len(theirs) == len(TABLES) + 1
    for table in theirs:
        assert table["checksum_before"] == table["checksum_after"]
        assert table["rows_before"] == table["rows_after"] > 0
        assert table["directories_after"] == max(table["partitions"], 1) < table["directories_before"]
    assert 30 <= ran.tables["demo.flights"]["directories_before"] <= 60
    assert "compaction_worker success (asset triggered)" in ran.said
    assert "compaction_cleaner success (asset triggered)" in ran.said
    assert "acid_housekeeper success" in ran.said
    assert "compact_table success (manual)" in ran.said
    assert processes(ran.folder) == []


def test_interrupted_it_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with started("run", folder) as demo:
        log = folder / "airflow" / "component-logs" / "scheduler.log"
        until("the scheduler", lambda: log.exists() or demo.poll() is not None, pause=0.2)
        assert demo.poll() is None, demo.communicate()[0]
        assert processes(folder)
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130, said
    assert said.rstrip().endswith("Stopped.")
    assert processes(folder) == []


def test_the_demo_that_stays_up_has_something_to_look_at(tmp_path: Path) -> None:
    place = DemoPaths(folder=tmp_path / "demo")
    with started("up", place.folder) as process:
        try:
            assert process.stdout is not None
            said = ""
            while "Ctrl-C stops it" not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            assert f"cp {place.folder / 'bucket_00000'}" in said
            with place.site() as site:
                until("a compaction that waits for the report", lambda: blocking_transactions(site), pause=0.5)
                history = site.metastore.entries.history
                until("the failure", lambda: any(one.entity == scenes.DAMAGED for one in history()), pause=0.5)
                before = scenes.count_written(site)
                until("further writes", lambda: scenes.count_written(site) > before, pause=0.5)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert process.returncode == 0
