from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import TaskContext

from compactor.launch import spark_executor
from compactor.rewrite.plan.unit import UnitResult
from tests.support.units import small_unit


@pytest.mark.parametrize("context", [None, object()], ids=["another process", "an executor"])
def test_only_the_process_of_an_executor_is_prepared_and_once(
    context: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    monkeypatch.setattr(spark_executor, "exclude_pandas", lambda: done.append("no pandas"))
    monkeypatch.setattr(spark_executor, "collect_rarely", lambda: done.append("rare collections"))
    monkeypatch.setattr(spark_executor.gc, "freeze", lambda: done.append("frozen"))
    spark_executor._prepare_executor.cache_clear()
    try:
        (found,) = spark_executor.attempt_parcel([small_unit(tmp_path)])
        assert spark_executor.attempt_parcel([]) == []
    finally:
        spark_executor._prepare_executor.cache_clear()
    assert isinstance(found, UnitResult)
    assert found.figures.rows_out == 3
    assert done == (["no pandas", "rare collections", "frozen"] if context else [])
