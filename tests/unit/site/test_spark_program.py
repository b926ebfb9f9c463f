from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compactor.base.errors import NotSupported
from compactor.site import spark_program
from compactor.site.spark_program import describe_start_failure, find_spark_submit, read_version


def program(folder: Path, text: str, mode: int = 0o755) -> Path:
    path = folder / "bin" / "spark-submit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_spark_submit_of_spark_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    path = program(tmp_path, "#!/bin/sh\n")
    assert find_spark_submit() == str(path)


def test_without_spark_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(spark_program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotSupported, match=r"install hive-compactor\[spark\] or set SPARK_HOME, or run workers with"):
        find_spark_submit()


def test_the_client_of_spark_connect_is_no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is importable as ``pyspark`` and brings no spark-submit."""
    site_packages = tmp_path / "lib"
    (site_packages / "pyspark").mkdir(parents=True)
    (site_packages / "pyspark" / "__init__.py").touch()
    metadata = site_packages / "pyspark_client-4.1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.1.0\n", "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + sys.argv[1:];"
        "from compactor.site.spark_program import find_spark_submit\n"
        "try:\n    find_spark_submit()\nexcept Exception as error:\n    print(error)"
    )
    ours = str(Path(spark_program.__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", code, str(site_packages), ours], capture_output=True, text=True, check=True
    )
    assert "pyspark-client is installed, which has no spark-submit; install" in ended.stdout


@pytest.mark.parametrize(
    ("text", "mode", "because"),
    [
        ("#!/bin/sh\necho 'JAVA_HOME is not set' >&2\nexit 1\n", 0o755, "ended with 1 and said: JAVA_HOME is not set"),
        ("#!/bin/sh\nexit 0\n", 0o755, "ended with 0 and said: nothing"),
        ("#!/no/such/python\n", 0o755, "cannot be started: the interpreter in its first line does not exist"),
        ("#!/bin/sh\n", 0o644, "cannot be started: Permission denied"),
    ],
)
def test_a_spark_submit_that_does_not_run(tmp_path: Path, text: str, mode: int, because: str) -> None:
    path = program(tmp_path, text, mode)
    with pytest.raises(NotSupported) as caught:
        read_version(str(path))
    assert str(caught.value).startswith(str(path))
    assert because in str(caught.value)


def test_its_version(tmp_path: Path) -> None:
    path = program(tmp_path, "#!/bin/sh\necho '   version 4.1.4' >&2\necho 'Using Scala version 2.13.17' >&2\n")
    assert read_version(str(path)) == "4.1.4"


def test_a_program_that_is_gone() -> None:
    error = FileNotFoundError(2, "No such file or directory", "/gone/spark-submit")
    assert describe_start_failure("/gone/spark-submit", error).startswith(
        "/gone/spark-submit cannot be started: No such file or directory; install hive-compactor[spark]"
    )
