"""Only a Java that Spark can use is taken from the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "machine-java"


def java(home: Path, version: str) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    path.chmod(0o755)
    return home


def found(tmp_path: Path, *, home: Path | None = None, path: Path | None = None) -> str:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "env", "dirname", "readlink", "sed", "head"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    environment["PATH"] = str(programs) if path is None else f"{path / 'bin'}:{programs}"
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("version", ["17.0.15", "21", "21-ea", "25.0.1"])
def test_new_enough(tmp_path: Path, version: str) -> None:
    home = java(tmp_path / "jdk", version)
    assert found(tmp_path, path=home) == str(home)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_too_old(tmp_path: Path, version: str) -> None:
    assert found(tmp_path, path=java(tmp_path / "jdk", version)) == ""


def test_java_home_comes_first_unless_it_is_too_old(tmp_path: Path) -> None:
    old, new = java(tmp_path / "old", "11.0.2"), java(tmp_path / "new", "17.0.1")
    assert found(tmp_path, home=old, path=new) == str(new)


def test_a_java_home_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path, home=tmp_path / "gone") == ""


def test_the_wrapper_of_setup_is_not_the_machines(tmp_path: Path) -> None:
    assert found(tmp_path, path=java(tmp_path / ".tools" / "java", "21")) == ""
