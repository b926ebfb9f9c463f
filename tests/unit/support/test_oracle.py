"""The plain reader sees in every step exactly what Hive or Trino saw, so that others may be held to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.metastore.metastore import Metastore
from demo.fixtures import register_fixture
from tests.support.expected import difference, read_expected, step_id, steps
from tests.support.oracle import read_lines


@pytest.mark.parametrize("path", steps(), ids=step_id)
def test_rows_and_row_ids_are_those_of_the_fixture(metastore: Metastore, warehouse: Path, path: Path) -> None:
    table = register_fixture(metastore, path, warehouse)
    expected = read_expected(path)
    found = read_lines(metastore, table, null_partition=expected.null_partition)
    assert difference(expected.row_ids, found) == ""
