"""Plans scans for Spark."""

from __future__ import annotations

from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.spark_tables.keeper.held import Held
from compactor.spark_tables.messages import PlannedScan, PlanScan
from compactor.tables.reading.planning import plan_scan
from compactor.tables.reading.wanted import Wanted
from compactor.tables.store import named_table

_TIMESTAMPS = "us"  #: all that Spark has


def planned(held: Held, request: PlanScan) -> PlannedScan:
    """Returns the plan of a scan under the snapshot of ``held``; see ``plan_scan`` for the errors."""
    site = held.txn.site
    table = named_table(site, request.table)
    wanted = Wanted(
        row_filter=request.row_filter,
        selected_fields=request.columns,
        row_ids=request.row_ids,
        timestamps=_TIMESTAMPS,
    )
    plan = plan_scan(held.txn, table, wanted)
    stores = held.tokens.standing_in(site.storage.options, table.location)
    return PlannedScan(hold=held.hold, plan=plan, stores=stores, padded=_padded(table))


def _padded(table: Table) -> tuple[str, ...]:
    """Returns the columns of type char, with which trailing blanks are compared here and not in Spark."""
    columns = (*table.columns, *table.partition_keys)
    return tuple(one.name for one in columns if parse_hive_type(one.type)[0].kind is TypeKind.CHAR)
