"""Registers ``hive_acid`` in a session, opens snapshots for several reads, and forgets streams."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compactor.spark_tables.data_source import HiveAcid
from compactor.spark_tables.keeper_requests import ForgetStream, MetastorePlace
from compactor.spark_tables.keeper_sources import HiveAcidChange, HiveAcidSnapshot
from compactor.spark_tables.living_frames import frame_watch
from compactor.spark_tables.program_session import activate, read_answer
from compactor.spark_tables.statement_control import ask_keeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Registers ``hive_acid`` in a session, classic or Connect, and makes it this thread's active one.

    Only the active session of a thread can write. ``compactor show transactions`` lists the session's transactions with the
    ID of its application.
    """
    application = spark.conf.get("spark.app.id", "spark")
    for source in (HiveAcid, HiveAcidSnapshot, HiveAcidChange):
        # A class of __main__ is pickled by value, so the ID travels with it.
        spark.dataSource.register(
            type(source.__name__, (source,), {"application": application, "__module__": "__main__"})
        )
    activate(spark)
    frame_watch(spark)


@contextmanager
def snapshot(spark: SparkSession, *, metastore: str = "default", config: str | None = None) -> Iterator[str]:
    """Yields the name of a snapshot, for the option ``snapshot`` of any number of reads.

    Call ``register`` first.

    At the end of the block the snapshot is released, and cleaners no longer wait for it.

    Raises:
        Exception: an error of Spark that contains the text of the keeper's error.
    """
    name = open_snapshot(spark, {"metastore": metastore, **({} if config is None else {"config": config})})
    try:
        yield name
    finally:
        _ask_snapshots(spark, {"action": "release", "snapshot": name})


def forget_stream(
    spark: SparkSession, table: str, stream: str, *, metastore: str = "default", config: str | None = None
) -> bool:
    """Forgets which batches a stream has written into a table; returns false if no batch was known.

    Rows stay. A query with another checkpoint may then write under this name, beginning with its first batch. The query that
    had the name so far can no longer write under it.

    Raises:
        NotFound: the table does not exist.
        Refused: its mode is observe.
    """
    place = {"metastore": metastore, **({} if config is None else {"config": config})}
    request = ForgetStream(place=MetastorePlace(), table=table, stream=stream)
    return bool(json.loads(ask_keeper(spark, place, request)))


def open_snapshot(spark: SparkSession, options: Mapping[str, str], *, is_of_frames: bool = False) -> str:
    """Returns the name of a new snapshot, which is held until it is released or the application ends.

    See ``snapshot``.

    Args:
        options: ``metastore`` and ``config``, as for a read.
        is_of_frames: release the snapshot once no DataFrame needs it.
    """
    return _ask_snapshots(spark, {**options, "action": "open_of_frames" if is_of_frames else "open"})


def _ask_snapshots(spark: SparkSession, options: dict[str, str]) -> str:
    return read_answer(spark, HiveAcidSnapshot.name(), options)
