"""Hive 3.1.3 as a live Hive."""

from __future__ import annotations

from tests.support.live_hive import Release
from tests.support.servers import hive_schema

HIVE_3_1 = Release(
    version="3.1.3",
    name="hive3",
    schema=lambda: hive_schema("postgresql", "3.1.0"),
    main="Launch",
)
