"""A process that may have so much memory and no more; limits of the tests' own process stay as they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from compactor.rewrite.run.memory_limit import limit_memory, memory_limit
limit_memory({most})
print(memory_limit(), resource.getrlimit(resource.RLIMIT_CORE)[0] == 0)
try:
    print(len(bytearray({wanted} << 20)) >> 20)
except MemoryError:
    print("none left")
"""


def said(most: str, wanted: int, before: str = "") -> list[str]:
    program = before + PROGRAM.format(most=most, wanted=wanted)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )


@pytest.mark.parametrize(("wanted", "answer"), [(100, "100"), (600, "none left")])
def test_no_more_is_given_than_the_limit(wanted: int, answer: str) -> None:
    assert said("500 << 20", wanted)[:2] == ["524288000 True", answer]


def test_zero_is_no_limit() -> None:
    assert said("0", 600)[0].startswith("0 ")
    assert said("0", 600)[1] == "600"


def test_a_limit_of_the_system_is_not_exceeded() -> None:
    before = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))"
    assert said("500 << 20", 400, before)[:2] == ["314572800 True", "none left"]
