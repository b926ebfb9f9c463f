"""Makes a session know ``hive_acid``, and lets a program read several tables under one snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compactor.spark_tables.active_session import activate
from compactor.spark_tables.asking import asked
from compactor.spark_tables.data_source import HiveAcid
from compactor.spark_tables.living_frames import watch_of
from compactor.spark_tables.messages import ForgetStream, Place
from compactor.spark_tables.row_changes import HiveAcidChange
from compactor.spark_tables.snapshots import HiveAcidSnapshot
from compactor.spark_tables.statement_control import ask_keeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes ``hive_acid`` known to the session, classic or Connect, and the session that of the thread, in which DataFrames
    can be written then. Its transactions have the application's ID in their names, as ``compactor show transactions`` lists
    them."""
    application = spark.conf.get("spark.app.id", "spark")
    for source in (HiveAcid, HiveAcidSnapshot, HiveAcidChange):
        # a class without a home travels by value, with the ID in it
        spark.dataSource.register(
            type(source.__name__, (source,), {"application": application, "__module__": "__main__"})
        )
    activate(spark)
    watch_of(spark)


@contextmanager
def snapshot(spark: SparkSession, *, metastore: str = "default", config: str | None = None) -> Iterator[str]:
    """Yields the name of a snapshot, for the option ``snapshot`` of any number of reads; its end lets go of it, and cleaners
    no longer wait for it. ``register`` comes first.

    Raises:
        Exception: what Spark makes of an error of the keeper, with its text.
    """
    name = open_snapshot(spark, {"metastore": metastore, **({} if config is None else {"config": config})})
    try:
        yield name
    finally:
        _asked(spark, {"action": "release", "snapshot": name})


def forget_stream(
    spark: SparkSession, table: str, stream: str, *, metastore: str = "default", config: str | None = None
) -> bool:
    """Forgets which batches a stream has written into a table, so that a query with another checkpoint may go on under its
    name, from its first batch; returns false if none was known. Rows stay. The query that had the name writes no more under
    it.

    Raises:
        NotFound: there is no such table.
        Refused: its mode is observe.
    """
    place = {"metastore": metastore, **({} if config is None else {"config": config})}
    request = ForgetStream(place=Place(), table=table, stream=stream)
    return bool(json.loads(ask_keeper(spark, place, request)))


def open_snapshot(spark: SparkSession, options: Mapping[str, str], *, is_of_frames: bool = False) -> str:
    """Returns the name of a snapshot that the application holds until it ends, or it is let go of; see ``snapshot``.

    Args:
        options: ``metastore`` and ``config``, as for a read.
        is_of_frames: it is let go of once no DataFrame needs it.
    """
    return _asked(spark, {**options, "action": "open_of_frames" if is_of_frames else "open"})


def _asked(spark: SparkSession, options: dict[str, str]) -> str:
    return asked(spark, HiveAcidSnapshot.name(), options)
