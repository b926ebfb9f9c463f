"""Events as Trino's HTTP event listener posts them, and rows of HiveServer2's query history, as far as we read them."""

from __future__ import annotations

from typing import Any


def trino(number: int = 1, *, table: str = "t", at: str = "2026-11-25T10:00:00.123456Z", **more: Any) -> dict[str, Any]:
    """Returns a ``QueryCompletedEvent``."""
    return {
        "createTime": "2026-11-25T09:59:58.000Z",
        "context": {"user": "ann", "principal": "ann", "catalog": "hive", "schema": "default", "queryType": "SELECT"},
        "metadata": {
            "queryId": f"20261125_100000_{number:05}_abcde",
            "query": f"SELECT count(*) FROM {table} WHERE a > {number}",
            "queryState": "FINISHED",
        },
        "ioMetadata": {"inputs": [{"catalogName": "hive", "schema": "default", "table": table, "columns": ["a"]}]},
        "statistics": {"wallTime": 2.5, "cpuTime": 1.0, "completedSplits": 12, "physicalInputBytes": 4096},
        "endTime": at,
        **more,
    }


def hive(number: int = 1, *, used: str = "default@t", **more: Any) -> dict[str, Any]:
    """Returns a row of ``sys.query_history``."""
    return {
        "query_id": f"hive_20261125_{number}",
        "sql": f'select * from t where b = "{number}"',
        "db_name": "default",
        "end_user": "ann",
        "query_state": "FINISHED",
        "used_tables": used,
        "end_time_utc": "2026-11-25 10:00:00.123456789",
        "total_time_ms": 1500,
        "total_tasks": -1,
        "input_split_length_bytes": 100,
        **more,
    }


def plain(
    number: int, *, at: float, seconds: float, table: str = "default.t", sql: str = "select a", **more: Any
) -> Any:
    """Returns a plain record; ``at`` in seconds."""
    return {"engine": "own", "id": str(number), "tables": [table], "at": at, "seconds": seconds, "sql": sql, **more}
