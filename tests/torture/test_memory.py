"""Memory is bounded by rows and their width, never by a stripe (PROTOCOL 2.4)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from tests.torture import wide
from tests.torture.victims import deletes_of

ROOT = Path(__file__).parents[2]
LIMIT = 1 << 30


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "bucket_00000"
    wide.write(path)
    with LocalSource(path) as source:
        tail = read_tail(source)
    assert ([stripe.rows for stripe in tail.stripes], tail.length < 100_000) == ([wide.ROWS], True)
    return path


@pytest.mark.parametrize(("shape", "deleted"), [("MAJOR", 0), ("MAJOR", 1), ("MINOR", 1)])
def test_a_small_file_of_three_million_rows_takes_less_than_a_gigabyte(
    wide_file: Path, tmp_path: Path, shape: str, deleted: int
) -> None:
    """PROTOCOL 2.4: decoded at once these rows are more; one deleted row makes all of them be re-encoded."""
    inserts = tmp_path / "t" / "delta_0000001_0000001_0000"
    inserts.mkdir(parents=True)
    shutil.copyfile(wide_file, inserts / "bucket_00000")
    if deleted:
        deletes = tmp_path / "t" / "delete_delta_0000002_0000002_0000"
        deletes.mkdir()
        (deletes / "bucket_00000").write_bytes(deletes_of(wide.ROW_TYPE, [(1, wide.BUCKET, wide.ROWS // 2)]))
    command = [sys.executable, "-m", "tests.torture.wide", str(tmp_path / "t"), shape]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert found.returncode == 0, found.stderr
    rows, peak = map(int, found.stdout.split())
    assert rows == wide.ROWS - deleted
    assert peak < LIMIT
