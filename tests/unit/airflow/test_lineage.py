from __future__ import annotations

from collections.abc import Collection

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor

from compactor.airflow import tasks
from compactor.airflow.compact_table import CompactTableOperator
from compactor.airflow.lineage import lineage_of

ONE = {"rows_in": 9, "rows_out": 8, "bytes_in": 700, "bytes_out": 600, "files_in": 5, "files_out": 1}


@pytest.fixture(autouse=True)
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_figures(metastore: str, ids: Collection[int]) -> dict[str, dict[str, int]]:
        return {f"{metastore}.t{entry}": ONE for entry in ids}

    monkeypatch.setattr(tasks, "run_figures", run_figures)


def test_a_table_is_read_and_written() -> None:
    found = lineage_of("archive", [1, 2])
    assert [(one.namespace, one.name) for one in found.inputs] == [
        ("hive://archive", "archive.t1"),
        ("hive://archive", "archive.t2"),
    ]
    assert [(one.namespace, one.name) for one in found.outputs] == [(one.namespace, one.name) for one in found.inputs]
    read, written = found.inputs[0].inputFacets["inputStatistics"], found.outputs[0].outputFacets["outputStatistics"]
    assert (read.rowCount, read.size, read.fileCount) == (9, 700, 5)
    assert (written.rowCount, written.size, written.fileCount) == (8, 600, 1)


def test_the_provider_finds_it_on_the_operator() -> None:
    operator = CompactTableOperator(task_id="compact", table="a.t")
    extractor = DefaultExtractor(operator)
    empty = extractor.extract_on_complete(None)
    operator.compactions = [7]
    found = extractor.extract_on_complete(None)
    assert empty is not None
    assert found is not None
    assert (empty.inputs, [one.name for one in found.outputs]) == ([], ["default.t7"])
