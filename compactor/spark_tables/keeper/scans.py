"""Plans scans for Spark."""

from __future__ import annotations

from dataclasses import replace

from compactor.metastore.catalog.values import Table
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind
from compactor.spark_tables.keeper.commits import write_ids_between
from compactor.spark_tables.keeper.held import Held
from compactor.spark_tables.messages import PlannedScan, PlanScan
from compactor.tables.reading.later_rows import later_rows
from compactor.tables.reading.planning import plan_scan
from compactor.tables.reading.wanted import Wanted
from compactor.tables.schema import IN_PARTS
from compactor.tables.store import named_table

_TIMESTAMPS = "us"  #: all that Spark has


def planned(held: Held, request: PlanScan, *, rewrites: bool = False) -> PlannedScan:
    """Returns the plan of a scan under the snapshot of ``held``; see ``plan_scan`` for the errors.

    Args:
        rewrites: rows will be written again, so that no digit may be lost.
    """
    site = held.txn.site
    table = named_table(site, request.table)
    wanted = Wanted(
        row_filter=request.row_filter,
        selected_fields=request.columns,
        row_ids=request.row_ids or request.change is not None,
        timestamps=_TIMESTAMPS,
    )
    shown = wanted.schema(table)
    exact = replace(wanted, timestamps=IN_PARTS) if rewrites else wanted
    plan = plan_scan(held.txn, table, exact)
    if request.between is not None:
        plan = later_rows(plan, *write_ids_between(site, table, request.between, plan.write_ids))
    stores = held.tokens.standing_in(site.storage.options, table.location)
    has_files = request.change is not None
    return PlannedScan(
        hold=held.hold,
        plan=plan,
        stores=stores,
        padded=_padded(table),
        has_files=has_files,
        shown=None if plan.schema.equals(shown) else shown,
    )


def _padded(table: Table) -> tuple[str, ...]:
    """Returns the columns of type char, with which trailing blanks are compared here and not in Spark."""
    columns = (*table.columns, *table.partition_keys)
    return tuple(one.name for one in columns if parse_hive_type(one.type)[0].kind is TypeKind.CHAR)
