"""Keeps statements of a program alive, aborts them after an error, finds our errors in Spark's."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from compactor.base import errors
from compactor.spark_tables.keeper_requests import AbortChange, Renew
from compactor.spark_tables.keeper_sources import HiveAcidChange, KeeperRequest, request_to_options
from compactor.spark_tables.program_session import read_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_RAISED = re.compile(r"compactor\.base\.errors\.(\w+): ([^\n]*)")
_IN_SQL = re.compile(r"compactor: NotConforming: ([^\n]*)")
RENEW_S = 120.0  #: seconds between two messages that renew a statement


def ask_keeper(spark: SparkSession, place: Mapping[str, str], request: KeeperRequest) -> str:
    """Returns the keeper's answer as text.

    Args:
        place: the options ``metastore`` and ``config``.

    Raises:
        CompactorError: the keeper answered with this error.
        Exception: any other error of Spark.
    """
    try:
        return read_answer(spark, HiveAcidChange.name(), {**place, **request_to_options(request)})
    except Exception as error:
        if (own_error := find_own_error(error)) is not None:
            raise own_error from error
        raise


@contextmanager
def keep_alive(spark: SparkSession, place: Mapping[str, str], name: str) -> Iterator[None]:
    """Renews a statement or change until the block ends. If the block raises, aborts it.

    Raises:
        CompactorError: an error of this package that Spark raised in the block as one of its own.
    """
    ended = threading.Event()
    threading.Thread(target=_renew_until, args=[spark, place, name, ended], name=f"renews {name}", daemon=True).start()
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # the first error matters more; a transaction that stays open times out
            ask_keeper(spark, place, AbortChange(change=name))
        if (own_error := find_own_error(error)) is not None:
            raise own_error from error
        raise
    finally:
        ended.set()


def _renew_until(spark: SparkSession, place: Mapping[str, str], name: str, ended: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        try:
            ask_keeper(spark, place, Renew(name=name))
        except Exception as error:  # noqa: BLE001 - the session ends or is busy: the next renewal is still in time
            log.warning("statement %s could not be renewed: %s", name, error)


def find_own_error(error: BaseException) -> errors.CompactorError | None:
    """Returns the error of this package that ``error`` of Spark reports; None if it reports another one.

    Spark turns an error of its Python processes into a text with their trace, which ends for example with
    ``compactor.base.errors.Refused: db.t: its mode is observe``.
    """
    text = str(error)
    if match := _IN_SQL.search(text):
        return errors.NotConforming(_strip_hints(match[1]))
    raised = _RAISED.findall(text)
    if not raised:
        return None
    name, message = raised[-1]  # the last error of a chain left the process
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.CompactorError)):
        return None
    return errors.WriteConflict(message, _parse_winner(message)) if kind is errors.WriteConflict else kind(message)


def _parse_winner(message: str) -> int:
    """Returns the first transaction that the text of a WriteConflict names; 0 if it names no transaction."""
    match = re.search(r"transaction (\d+)", message)
    return int(match[1]) if match else 0


def _strip_hints(message: str) -> str:
    return message.partition(" SQLSTATE: ")[0].rstrip(". ")
