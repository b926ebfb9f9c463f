"""Writes events into Hive's notification log, in the database transaction that makes them true.

It does so only where Hive writes events too, whose first one advances ``NOTIFICATION_SEQUENCE``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, insert, inspect, select, update

from compactor.database.clock import now_ms
from compactor.database.prepared import savepoint
from compactor.metastore.notifications.events import MESSAGE_FORMAT, Event
from compactor.metastore.notifications.notification_tables import NOTIFICATION_LOG, NOTIFICATION_SEQUENCE
from compactor.metastore.notifications.write_events import CommitNews, Write, read_news
from compactor.metastore.schema.counter_rows import draw_catalog_ids
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import CATALOG

_log = logging.getLogger(__name__)
EventMaker: TypeAlias = Callable[[Connection], Sequence[Event]]  #: makes the events of a database transaction
_NEXT = select(NOTIFICATION_SEQUENCE.c.NEXT_EVENT_ID)


class Notifications:
    """The notification log of one metastore."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_readable: bool | None = None  # None until the first check
        self._logged_reasons: set[str] = set()

    def is_written(self, conn: Connection) -> bool:
        """Returns true if this metastore has a listener that writes the log.

        Numbers of events have then been drawn.
        """
        if self._is_readable is None and not inspect(conn).has_table(NOTIFICATION_SEQUENCE.name):
            self._is_readable = False
        if self._is_readable is False:
            return False
        number = conn.execute(_NEXT).scalar()
        self._is_readable = True
        return (number or 0) > 1

    def write(self, conn: Connection, make_events: EventMaker) -> None:
        """Writes the events of ``make_events``, in their order, if Hive writes events here.

        Call it last in a transaction: as in Hive, numbers are drawn under the lock of the sequence's only row, which
        lasts until the commit. An error leaves the log as it is and is logged once; the transaction still commits.
        """
        is_written = self._is_known_to_be_written(conn)
        if is_written is False:
            return
        with savepoint(conn, "compactor_notifications", self._log_failure):
            if (is_written or self.is_written(conn)) and (events := make_events(conn)):
                self._write(conn, events)

    def read(self, conn: Connection, writes: Sequence[Write]) -> CommitNews | None:
        """Returns the news of ``writes``; None if Hive writes no events here, or after an error."""
        is_written = self._is_known_to_be_written(conn) if writes else False
        if is_written is False:
            return None
        with savepoint(conn, "compactor_notifications", self._log_failure):
            if is_written or self.is_written(conn):
                return read_news(conn, writes)
        return None

    def _is_known_to_be_written(self, conn: Connection) -> bool | None:
        """Returns ``is_written`` if finding out cannot fail and so undo the work of ``conn``; else None."""
        if not self._dialect.announces:
            return False
        return None if self._is_readable is None else self.is_written(conn)

    def _write(self, conn: Connection, events: Sequence[Event]) -> None:
        number = conn.execute(self._dialect.for_update(_NEXT)).scalar_one()
        conn.execute(update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=number + len(events)))
        row = draw_catalog_ids(conn, self._dialect, "MNotificationLog", len(events))
        seconds = now_ms(conn) // 1000
        rows = [
            {
                "NL_ID": row + at,
                "EVENT_ID": number + at,
                "EVENT_TIME": seconds,
                "EVENT_TYPE": event.type,
                "CAT_NAME": None if event.database is None else CATALOG,
                "DB_NAME": event.database,
                "TBL_NAME": event.table,
                "MESSAGE": event.message(seconds),
                "MESSAGE_FORMAT": MESSAGE_FORMAT,
            }
            for at, event in enumerate(events)
        ]
        conn.execute(insert(NOTIFICATION_LOG), rows)

    def _log_failure(self, error: Exception) -> None:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        if reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            _log.warning(
                "Hive's notification log is left as it is: %s: %s; programs that follow it, such as Impala's "
                "catalog, do not learn of this change (rights: docs/production.md)",
                type(error).__name__,
                reason,
            )
