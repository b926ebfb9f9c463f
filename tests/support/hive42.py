"""Hive 4.2.0 as a live Hive, which writes a notification log."""

from __future__ import annotations

from pathlib import Path

from tests.support.downloads import ROOT
from tests.support.hive4 import HIVE_4_1
from tests.support.java import java_of
from tests.support.live_hive import Release

_REQUIREMENT = ROOT / "tests" / "live" / "hive42" / "java.txt"

#: The changes of Hive's own upgrade from 4.1.0.
SCHEMA_4_2 = """
CREATE TABLE "CATALOG_PARAMS" (
    "CTLG_ID" bigint NOT NULL REFERENCES "CTLGS" ("CTLG_ID") ON DELETE CASCADE,
    "PARAM_KEY" varchar(180) NOT NULL,
    "PARAM_VALUE" varchar(4000),
    PRIMARY KEY ("CTLG_ID", "PARAM_KEY"));
UPDATE "VERSION" SET "SCHEMA_VERSION" = '4.2.0', "VERSION_COMMENT" = 'Hive release version 4.2.0';
"""


def java() -> Path:
    """Returns the Java that its classes are made for."""
    return java_of(_REQUIREMENT, HIVE_4_2.cache)


HIVE_4_2 = Release(
    version="4.2.0",
    name="hive42",
    in_queue="4.2.0",
    schema=lambda: HIVE_4_1.schema() + SCHEMA_4_2,
    like=HIVE_4_1,
    run_time=java,
    properties={"live.listeners": "org.apache.hive.hcatalog.listener.DbNotificationListener"},
)
