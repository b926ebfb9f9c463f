"""`make demo` and `make up`, as their targets start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.demo import scenes
from compactor.demo.demo_folder import DemoPaths
from compactor.service.roles.blockers import blocking_transactions
from tests.support.patience import until

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]


def started(what: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "compactor.demo", what, "--folder", str(folder), "--months", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    environment["PYTHONUNBUFFERED"] = "1"  # its lines are read while it runs
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_demo_tells_its_whole_story(tmp_path: Path) -> None:
    with started("run", tmp_path / "demo") as process:
        said, _ = process.communicate()
    assert process.returncode == 0, said
    for told in (
        "demo.damaged has failed, as it should",
        "nothing is removed yet",
        "compact_table is triggered for demo.damaged, whose file is put back",
        "bytes were copied as they were; 12 stripes copied, 0 decoded",
        "every row that was written meanwhile is there",
    ):
        assert told in " ".join(said.split()), told
    tables = {one["table"]: one for one in json.loads((tmp_path / "demo" / "report.json").read_text("utf-8"))["tables"]}
    assert tables["demo.clicks"]["directories_after"] == tables["demo.damaged"]["directories_after"] == 1
    assert tables["demo.live"]["rows_after"] > tables["demo.live"]["rows_before"]


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
                before = scenes.written(site)
                until("further writes", lambda: scenes.written(site) > before, pause=0.5)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert process.returncode == 0
