"""Hive's own ``orcfiledump``, and what it printed for files that are kept here: ``python -m tests.support.orcfiledump`` asks
it again and writes ``tests/golden/orcfiledump``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.downloads import ROOT
from tests.support.hive4 import HIVE_4_1
from tests.support.live_hive import COMMON

GOLDEN = ROOT / "tests" / "golden" / "orcfiledump"
_SAMPLES, _FIXTURES = "tests/golden/orcfiledump/samples", "tests/fixtures"
#: Written by Hive 2.3, 3.1 and 4.1 and by Trino: rows, delete events, originals, every type, several stripes.
FILES = [
    f"{_FIXTURES}/{path}"
    for path in (
        "hive-2.3/f7_v1/s1_dml/f7_v1/delta_0000032_0000032_0000/bucket_00000",
        "hive-2.3/f1_basic/s11_minor_over_base/f1_basic/delta_0000007_0000009/bucket_00000",
        "hive-3.1/f5_orig/s1_converted/f5_orig/000000_0",
        "hive-3.1/f6_types/s2_major/f6_types/base_0000003/bucket_00000",
        "hive-4.1/f1_basic/s2_update/f1_basic/delete_delta_0000002_0000002_0000/bucket_00000_0",
        "hive-4.1/f6_types/s3_major/f6_types/base_0000005_v0000151/bucket_00000",
        "hive-4.1/g4_stripes/s3_major/g4_stripes/base_0000003_v0000013/bucket_00000",
        "trino-476/t1_basic/s3_update/t1_basic/delta_0000003_0000003_0000/bucket_00000",
    )
]
_ROWS = ("empty", "hybrid", "numbers", "proleptic", "texts", "zero")  #: of which all rows are kept


class Printed(NamedTuple):
    """The output of a program; ``errors`` without the log of Hadoop."""

    output: str
    errors: str
    code: int


def cases() -> Mapping[str, Sequence[str]]:
    """Returns the arguments of each call of which the output is kept, by the name of its file."""
    samples = sorted(f"{_SAMPLES}/{file.name}" for file in (GOLDEN / "samples").iterdir())
    few = [file for file in FILES if "g4_stripes" not in file]
    return {
        "fixtures.txt": FILES,
        "fixtures_rows.txt": ["-d", *few],
        "samples.txt": ["-t", "--column-type", "-r", "*", *samples],
        "samples_rows.txt": ["--data", *(f"{_SAMPLES}/{name}.orc" for name in _ROWS)],
        "some_columns.txt": ["--rowindex", "0,3", FILES[-2], FILES[-1], f"{_SAMPLES}/blooms.orc"],
    }


def real(arguments: Sequence[str], folder: Path = ROOT) -> Printed:
    """Returns what Hive's tool prints, in time zone UTC."""
    properties = {"user.timezone": "UTC", "log4j2.configurationFile": str(COMMON / "log4j2.properties")}
    done = subprocess.run(
        [
            *("java", "-Xmx500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", ":".join(map(str, HIVE_4_1.libraries())), "org.apache.orc.tools.FileDump", *arguments),
        ],
        capture_output=True,
        check=False,
        cwd=folder,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    errors = [line for line in done.stderr.splitlines(keepends=True) if " WARN " not in line]
    return Printed(done.stdout, "".join(errors), done.returncode)


def _main() -> None:
    for name, arguments in cases().items():
        printed = real(arguments)
        assert printed.code == 0, printed.errors
        (GOLDEN / name).write_text(printed.output, "utf-8", newline="")


if __name__ == "__main__":
    _main()
