"""The driver is found among the processes above, and told from a later one with its id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.base.errors import NotSupported
from compactor.spark_tables.driver_jvm import Process, find_driver, find_process


def test_a_process_is_itself_and_not_a_later_one_of_its_id() -> None:
    found = find_process(os.getpid())
    assert found.is_alive
    assert not Process(pid=found.pid, started=found.started + 1).is_alive


def test_a_process_that_has_ended_is_not_alive() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        found = find_process(child.pid)
        assert found.is_alive
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not found.is_alive  # it has not been waited for yet
    with pytest.raises(NotSupported, match="not found"):
        find_process(child.pid)


def test_without_a_jvm_there_is_no_driver() -> None:
    with pytest.raises(NotSupported, match="no JVM of a Spark driver"):
        find_driver()


def test_the_driver_is_the_nearest_jvm_above(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.symlink_to("/bin/sh")
    code = "from compactor.spark_tables.driver_jvm import find_driver; print(find_driver().pid)"
    with subprocess.Popen(
        [java, "-c", f"'{sys.executable}' -c '{code}'; exit 0"], stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert int(started.stdout.read()) == started.pid
