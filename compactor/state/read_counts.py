"""The reported queries of other programs: how long each took, without its text and user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.database.prepared import in_parts
from compactor.state.state_tables import READS, lock_state

_R = READS.c
_AT_ONCE = 500
MOST_ROWS = 1_000_000  #: of a metastore, whatever their age


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A query that read a table and ended at ``at`` (epoch ms).

    Similar queries share ``like``. ``query`` is the engine's id of the query, so that the query is stored once.
    """

    database: str
    table: str
    engine: str
    query: str
    like: str
    at: int
    seconds: float
    files: int | None = None
    bytes: int | None = None

    @property
    def key(self) -> str:
        """A digest of the engine, the query and the table."""
        names = json.dumps([self.engine, self.query, self.database, self.table])
        return hashlib.sha256(names.encode(errors="surrogatepass")).hexdigest()


class ReadsOfTable(NamedTuple):
    """Sums over the reads of a table: their number and seconds, and when the last one ended (epoch ms)."""

    database: str
    table: str
    queries: int
    seconds: float
    last_at: int


class Reads:
    """Reads and writes COMPACTOR_READS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def add(self, metastore: str, reads: Sequence[Read]) -> int:
        """Stores reads that are not stored yet; returns their number."""
        new = {read.key: read for read in reads}
        with self._database.write() as conn:
            lock_state(conn)
            for keys in in_parts(list(new), _AT_ONCE):
                known = conn.execute(select(_R.READ_KEY).where(_R.METASTORE == metastore, _R.READ_KEY.in_(keys)))
                for key in known.scalars().all():
                    del new[key]
            if new:
                conn.execute(insert(READS), [_row(metastore, key, read) for key, read in new.items()])
        return len(new)

    def sums(self, metastore: str, since: int) -> list[ReadsOfTable]:
        """Returns the sums of each table over the reads since ``since`` (epoch ms), the longest first."""
        seconds = func.sum(_R.SECONDS)
        query = select(_R.DB_NAME, _R.TABLE_NAME, func.count(), seconds, func.max(_R.ENDED_AT))
        query = query.where(_R.METASTORE == metastore, _R.ENDED_AT >= since).group_by(_R.DB_NAME, _R.TABLE_NAME)
        with self._database.read() as conn:
            rows = conn.execute(query.order_by(seconds.desc(), _R.DB_NAME, _R.TABLE_NAME)).all()
        return [ReadsOfTable(d, t, int(n), float(s), int(at)) for d, t, n, s, at in rows]

    def of_table(self, metastore: str, database: str, table: str, since: int, limit: int) -> list[Read]:
        """Returns the newest reads of a table that ended at ``since`` (epoch ms) or later, newest first."""
        query = select(READS).where(_R.METASTORE == metastore, _R.DB_NAME == database, _R.TABLE_NAME == table)
        query = query.where(_R.ENDED_AT >= since).order_by(_R.ENDED_AT.desc()).limit(limit)
        with self._database.read() as conn:
            return [
                Read(
                    database=row["DB_NAME"],
                    table=row["TABLE_NAME"],
                    engine=row["ENGINE"],
                    query=row["READ_KEY"],
                    like=row["LIKENESS"],
                    at=row["ENDED_AT"],
                    seconds=row["SECONDS"],
                    files=row["FILES"],
                    bytes=row["BYTES"],
                )
                for row in conn.execute(query).mappings()
            ]

    @retried
    def purge(self, metastore: str, older_than_ms: int, most: int = MOST_ROWS) -> int:
        """Deletes reads that ended longer ago than this, and the oldest ones beyond ``most``.

        Returns their number.
        """
        is_ours = _R.METASTORE == metastore
        with self._database.write() as conn:
            newest = select(_R.ENDED_AT).where(is_ours).order_by(_R.ENDED_AT.desc()).offset(most).limit(1)
            beyond = conn.execute(newest).scalar()
            before = max(now_ms(conn) - older_than_ms, 0 if beyond is None else beyond + 1)
            return conn.execute(delete(READS).where(is_ours, _R.ENDED_AT < before)).rowcount


def _row(metastore: str, key: str, read: Read) -> dict[str, object]:
    return {
        "METASTORE": metastore,
        "READ_KEY": key,
        "DB_NAME": read.database,
        "TABLE_NAME": read.table,
        "ENGINE": read.engine,
        "LIKENESS": read.like,
        "ENDED_AT": read.at,
        "SECONDS": read.seconds,
        "FILES": read.files,
        "BYTES": read.bytes,
    }
