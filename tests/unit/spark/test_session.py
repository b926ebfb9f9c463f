from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from compactor.errors import NotSupported
from compactor.spark.session import is_alive, session


def test_without_spark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(NotSupported, match=r"install hive-compactor\[spark\], or use --in-process"):
        session("compactor")


def test_a_stopped_context_is_not_alive() -> None:
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    assert not is_alive(stopped)  # type: ignore[arg-type]
