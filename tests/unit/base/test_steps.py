"""``reach`` dies where it is told to, by SIGKILL, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from compactor.base.steps import Step, reach

SCRIPT = """
from compactor.base.steps import Step, reach
for _ in range(3):
    reach(Step.CLAIMED)
    print("claimed", flush=True)
reach(Step.NAMED)
print("named", flush=True)
"""


def _run(die_at: str | None) -> tuple[int, list[str]]:
    environment = {key: value for key, value in os.environ.items() if key != "COMPACTOR_DIE_AT"}
    if die_at is not None:
        environment["COMPACTOR_DIE_AT"] = die_at
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("die_at", "code", "printed"),
    [
        (None, 0, ["claimed"] * 3 + ["named"]),
        ("CLAIMED", -signal.SIGKILL, []),
        ("CLAIMED:1", -signal.SIGKILL, []),
        ("CLAIMED:3", -signal.SIGKILL, ["claimed"] * 2),
        ("NAMED", -signal.SIGKILL, ["claimed"] * 3),
        ("CLAIMED:4", 0, ["claimed"] * 3 + ["named"]),
        ("CLEANED", 0, ["claimed"] * 3 + ["named"]),
    ],
)
def test_dies_at(die_at: str | None, code: int, printed: list[str]) -> None:
    assert _run(die_at) == (code, printed)


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPACTOR_DIE_AT", raising=False)
    for step in Step:
        reach(step)


def test_every_step_says_where_it_is() -> None:
    assert len({step.value for step in Step}) == len(Step)
