from __future__ import annotations

import sys

import pytest

from compactor.errors import NotSupported
from compactor.spark.session import session


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(NotSupported, match=r"install hive-compactor\[spark\], or use --in-process"):
        session("compactor")
