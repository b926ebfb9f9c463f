"""Statements and changes that a program has begun with the keeper: kept alive while it works, given up after an error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from compactor.spark_tables.asking import asked
from compactor.spark_tables.errors_of_spark import typed
from compactor.spark_tables.messages import AbortChange, Renew
from compactor.spark_tables.row_changes import HiveAcidChange, KeeperRequest, options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
RENEW_S = 120.0  #: between two messages that a statement is at work


def ask_keeper(spark: SparkSession, place: Mapping[str, str], request: KeeperRequest) -> str:
    """Returns the keeper's answer as text.

    Args:
        place: the options ``metastore`` and ``config``.

    Raises:
        CompactorError: the one that it answered with.
        Exception: what else Spark raises.
    """
    try:
        return asked(spark, HiveAcidChange.name(), {**place, **options_of(request)})
    except Exception as error:
        if (known := typed(error)) is not None:
            raise known from error
        raise


@contextmanager
def at_work(spark: SparkSession, place: Mapping[str, str], name: str) -> Iterator[None]:
    """Keeps a statement or change under way until the block ends, which ends it without a trace if it raises.

    Raises:
        CompactorError: the one that an error of Spark in the block was.
    """
    ended = threading.Event()
    threading.Thread(target=_renew, args=[spark, place, name, ended], name=f"renews {name}", daemon=True).start()
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # the first error says more; a transaction that stays open times out
            ask_keeper(spark, place, AbortChange(change=name))
        if (known := typed(error)) is not None:
            raise known from error
        raise
    finally:
        ended.set()


def _renew(spark: SparkSession, place: Mapping[str, str], name: str, ended: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        try:
            ask_keeper(spark, place, Renew(name=name))
        except Exception as error:  # noqa: BLE001 - of a session that ends, or is busy: the next one comes in time
            log.warning("statement %s could not be renewed: %s", name, error)
