"""The version of Spark that tables for Spark need."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotSupported
from compactor.spark_tables import must_have_data_sources


@pytest.mark.parametrize("version", ["4.2.1", "4.3.0", "4.10.1", "5.0.0.dev1"])
def test_a_spark_that_has_what_they_are_built_on(version: str) -> None:
    must_have_data_sources(version)


@pytest.mark.parametrize("version", ["3.5.7", "4.1.0"])
def test_an_older_one_is_refused_by_its_version(version: str) -> None:
    with pytest.raises(NotSupported, match=rf"^PySpark {version} .* need 4\.2 or later"):
        must_have_data_sources(version)
