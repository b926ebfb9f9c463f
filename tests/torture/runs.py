"""Children that work on damaged files: started, watched, and started again after the one that they died of."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.child import LIMIT

HANG = 120.0  #: seconds that a child may be silent; one file takes a fraction of a second
GOOD = ("refused", "same", "as before the damage", "unreadable")


@dataclass(slots=True)
class Report:
    """Counts of each outcome, and the outcomes that must not be."""

    verdicts: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def take(self, done: dict[str, Any], death: str) -> None:
        """Records one file: ``done`` is all that its child reported, ``death`` how the child ended if it died."""
        if death:
            # our part was over: the readers that we compare with have no such checks
            self.verdicts["a reader died" if done.get("step") == "compare" else "died"] += 1
            if done.get("step") != "compare":
                self.bad.append(f"{death}: {done}")
            return
        self.verdicts[done["verdict"]] += 1
        if done["verdict"] not in GOOD or done["memory"] > LIMIT or not all(done["names"]):
            self.bad.append(str(done))


def torture(folder: Path, seeds: Sequence[int]) -> Report:
    """Works through ``seeds`` in children, each of which lives until it dies or is done."""
    report = Report()
    left = list(seeds)
    while left:
        done, death = _one_child(folder, left, report)
        if not death:
            break
        if "seed" not in done:
            raise AssertionError(f"a child died before its first file: {death}")
        report.take(done, death)
        left = left[left.index(done["seed"]) + 1 :]
    return report


def _one_child(folder: Path, seeds: Sequence[int], report: Report) -> tuple[dict[str, Any], str]:
    """Returns the child's report of the last file, and how the child died; empty if it finished."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.torture.child", str(folder), *map(str, seeds)]
    said: dict[str, Any] = {}
    with (folder / "stderr").open("w+b") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        death = ""
        rest = b""
        last = time.monotonic()
        while True:
            ready, _, _ = select.select([child.stdout], [], [], 1.0)
            if ready:
                data = os.read(child.stdout.fileno(), 1 << 16)
                if not data:
                    break
                last = time.monotonic()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    part = json.loads(line)
                    said = part if part["step"] == "engine" else said | part
                    if part["step"] == "done":
                        report.take(said, "")
            elif time.monotonic() - last > HANG:
                child.kill()
                death = f"hung for {HANG:.0f} s"
                break
        child.stdout.close()
        code = child.wait()
        if code and not death:
            errors.seek(0)
            lines = [line for line in errors.read().decode(errors="replace").splitlines() if "Extension" not in line]
            death = f"exit code {code}: " + " / ".join(line.strip() for line in [*lines[:12], *lines[-2:]])
    return said, death
