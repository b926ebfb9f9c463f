"""Hive 4.1.0 as a live Hive."""

from __future__ import annotations

from tests.support.live_hive import Release
from tests.support.servers import hive_schema

#: The changes of Hive's own upgrade from 4.0.0, on all of which the queries of 4.1.0 rely.
SCHEMA_4_1 = """
DROP INDEX "TAB_COL_STATS_IDX", "TAB_COL_STATS_N49", "PCS_STATS_IDX", "PART_COL_STATS_N49", "TBLS_N49";
ALTER TABLE "TAB_COL_STATS" DROP COLUMN "CAT_NAME", DROP COLUMN "DB_NAME", DROP COLUMN "TABLE_NAME";
ALTER TABLE "PART_COL_STATS" DROP COLUMN "CAT_NAME", DROP COLUMN "DB_NAME", DROP COLUMN "TABLE_NAME",
    DROP COLUMN "PARTITION_NAME";
CREATE INDEX "TAB_COL_STATS_IDX" ON "TAB_COL_STATS" ("TBL_ID", "COLUMN_NAME");
CREATE INDEX "PCS_STATS_IDX" ON "PART_COL_STATS" ("PART_ID", "COLUMN_NAME");
ALTER TABLE "TBLS" DROP CONSTRAINT "UNIQUETABLE", ADD CONSTRAINT "UNIQUETABLE" UNIQUE ("DB_ID", "TBL_NAME");
CREATE UNIQUE INDEX "TXN_STATE_IDX" ON "TXNS" ("TXN_STATE", "TXN_ID");
UPDATE "VERSION" SET "SCHEMA_VERSION" = '4.1.0', "VERSION_COMMENT" = 'Hive release version 4.1.0';
"""

HIVE_4_1 = Release(
    version="4.1.0",
    name="hive4",
    in_queue="4.1.0",
    schema=lambda: hive_schema("postgresql", "4.0.0") + SCHEMA_4_1,
    # without both, its cleaner cannot mark an unpartitioned table as cleaned in PostgreSQL
    options="?preferQueryMode=simple",
    properties={"spring.jdbc.getParameterType.ignore": "true"},
)
