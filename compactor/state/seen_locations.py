"""Locations that held data at the last look, each with the identity of its directory.

An empty directory with another identity is not the one that was there before: a mount is missing (PROTOCOL 11.11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import PLACES, lock_state

_P = PLACES.c
_AT_ONCE = 500  #: rows in one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """A location that held data at ``at`` (epoch ms); ``identity`` is None where the store has no identities."""

    identity: str | None
    at: int


class Places:
    """Reads and writes COMPACTOR_PLACES."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, metastore: str) -> dict[str, KnownPlace]:
        """Returns every place of a metastore, by location."""
        with self._database.read() as conn:
            rows = conn.execute(select(PLACES).where(_P.METASTORE == metastore)).all()
        return {row.LOCATION: KnownPlace(identity=row.IDENTITY, at=row.SEEN_AT) for row in rows}

    @retried
    def remember(self, metastore: str, seen: Mapping[str, KnownPlace]) -> None:
        """Stores places by location; they replace earlier ones."""
        rows = [
            {
                "METASTORE": metastore,
                "LOCATION_KEY": hashlib.sha256(location.encode()).hexdigest(),
                "LOCATION": location,
                "IDENTITY": place.identity,
                "SEEN_AT": place.at,
            }
            for location, place in seen.items()
        ]
        if not rows:
            return
        with self._database.write() as conn:
            lock_state(conn)
            for start in range(0, len(rows), _AT_ONCE):
                batch = rows[start : start + _AT_ONCE]
                keys = [row["LOCATION_KEY"] for row in batch]
                conn.execute(delete(PLACES).where(_P.METASTORE == metastore, _P.LOCATION_KEY.in_(keys)))
                conn.execute(insert(PLACES), batch)

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes places that were last seen with data longer ago than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(PLACES).where(_P.SEEN_AT < now_ms(conn) - older_than_ms)).rowcount
