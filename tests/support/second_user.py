"""A real second user of this machine, as whom a test runs commands."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

NAME = "nobody"


@functools.cache
def may_act() -> bool:
    """Returns true if this user may run commands as the second one, as root may, or by sudo without a password."""
    if os.geteuid() == 0:
        return True
    return shutil.which("sudo") is not None and act("true").returncode == 0


def act(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as the second user."""
    command = ["sh", "-c", script, "sh", *arguments]
    if os.geteuid() == 0:
        return subprocess.run(command, user=NAME, group="nogroup", extra_groups=[], **_RUN)
    return subprocess.run(["sudo", "-n", "-u", NAME, *command], **_RUN)


_RUN = {"capture_output": True, "text": True, "check": False, "cwd": "/"}
