"""Missing Debian packages are named, then installed where that is allowed; where it is not, the line to run is printed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "debian-packages"
PROGRAMS = ("bash", "env", "true", "dirname")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs with which ``there`` is an installed package and every other one is not."""
    for name in PROGRAMS:
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    program(tmp_path, "dpkg-query", 'for last; do :; done; [ "$last" = there ] && echo -n installed')
    return tmp_path


def program(machine: Path, name: str, body: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\n{body}\n")
    (machine / name).chmod(0o755)


def run(machine: Path, *packages: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(machine)}
    return subprocess.run([SCRIPT, *packages], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("packages", [(), ("there",), ("there", "there")])
def test_nothing_missing_says_nothing(machine: Path, packages: tuple[str, ...]) -> None:
    done = run(machine, *packages)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_missing_is_named_and_installed(machine: Path) -> None:
    log = machine / "log"
    program(machine, "apt-get", f'echo "$@" >> {log}')
    program(machine, "sudo", 'shift; exec "$@"')
    done = run(machine, "there", "one", "two")
    assert done.returncode == 0
    assert "missing: one two" in done.stdout
    update, install = log.read_text().splitlines()
    assert update.split()[0] == "update"
    assert install.split()[0] == "install"
    assert install.split()[-2:] == ["one", "two"]


def test_where_nothing_may_be_installed_the_line_is_printed(machine: Path) -> None:
    done = run(machine, "there", "one", "two")
    assert done.returncode == 1
    assert "sudo apt-get install -y --no-install-recommends one two" in done.stderr


def test_a_failed_installation_fails(machine: Path) -> None:
    program(machine, "apt-get", "exit 100")
    program(machine, "sudo", 'shift; exec "$@"')
    assert run(machine, "one").returncode != 0
