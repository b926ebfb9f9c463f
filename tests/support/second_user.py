"""A real second user of this machine, as whom a test runs commands."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Any

NAME = "nobody"


@functools.cache
def may_act() -> bool:
    """Returns true if this user may run commands as the second one, as root may, or by sudo without a password."""
    if os.geteuid() == 0:
        return True
    return shutil.which("sudo") is not None and act("true").returncode == 0


def act(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as the second user."""
    command, more = _command(script, arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **more)


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a shell script as the second user; what it prints can be read."""
    command, more = _command(script, arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/", **more)


def _command(script: str, arguments: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    command = ["sh", "-c", script, "sh", *arguments]
    if os.geteuid() == 0:
        return command, {"user": NAME, "group": "nogroup", "extra_groups": []}
    return ["sudo", "-n", "-u", NAME, *command], {}
