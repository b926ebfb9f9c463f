"""The spark-submit that starts applications, and whether it runs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache

from compactor.base.errors import NotSupported

_VERSION_S = 60.0  #: seconds within which spark-submit prints its version
_VERSION = re.compile(r"version ([0-9][^\s]*)")
_REMEDY = "install hive-compactor[spark] or set SPARK_HOME, or run workers with --in-process"


def find_spark_submit() -> str:
    """Returns the path of spark-submit in SPARK_HOME, on PATH or in the installed pyspark.

    Raises:
        NotSupported: there is no spark-submit in any of them.
    """
    home = os.environ.get("SPARK_HOME")
    if home and os.access(f"{home}/bin/spark-submit", os.X_OK):
        return f"{home}/bin/spark-submit"
    path = shutil.which("spark-submit")
    if path is not None:
        return path
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if os.access(f"{folder}/bin/spark-submit", os.X_OK):
            return f"{folder}/bin/spark-submit"
    why = f"; {_CLIENT}" if _has_client_alone() else ""
    raise NotSupported(f"spark-submit is neither in SPARK_HOME nor on PATH nor in an installed pyspark{why}; {_REMEDY}")


_CLIENT = "pyspark-client is installed, which has no spark-submit"


def _has_client_alone() -> bool:
    names = {distribution.name for distribution in importlib.metadata.distributions() if distribution.name}
    return "pyspark-client" in names and "pyspark" not in names


def read_version(program: str) -> str:
    """Returns the version that ``program``, a spark-submit, prints.

    Raises:
        NotSupported: it cannot be started, or fails; the message quotes it.
    """
    return _read_version(program, os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


@cache
def _read_version(program: str, _java_home: str | None, _path: str | None) -> str:
    try:
        ended = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_VERSION_S,
            check=False,
        )
    except OSError as error:
        raise NotSupported(describe_start_failure(program, error)) from error
    except subprocess.TimeoutExpired as error:
        raise NotSupported(f"{program} --version did not end within {_VERSION_S:.0f} s; {_REMEDY}") from error
    version = _VERSION.search(ended.stdout)
    if ended.returncode != 0 or version is None:
        lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
        said = lines[-1] if lines else "nothing"
        raise NotSupported(f"{program} --version ended with {ended.returncode} and said: {said}; {_REMEDY}")
    return version[1]


def describe_start_failure(program: str, error: OSError) -> str:
    """Returns why the operating system did not start ``program``, and what to do."""
    missing = error.strerror or type(error).__name__
    if isinstance(error, FileNotFoundError) and os.path.exists(program):
        missing = "the interpreter in its first line does not exist"
    why = f"; {_CLIENT}" if _has_client_alone() else ""
    return f"{program} cannot be started: {missing}{why}; {_REMEDY}"
