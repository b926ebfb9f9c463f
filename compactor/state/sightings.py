"""Times at which entries ready for cleaning, aborted transactions and locations were seen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from compactor.base.ids import TxnId
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import ABORTS, PLACES, SIGHTINGS, lock_state

_S = SIGHTINGS.c
_A = ABORTS.c
_P = PLACES.c
_AT_ONCE = 500  #: rows in one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The newest transaction and lock of the metastore when an entry was first seen.

    The lock is 0 if there was none.
    """

    newest: TxnId
    newest_lock: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlace:
    """A location that held data at ``at`` (epoch ms).

    ``identity`` is None where the store has no identities.
    """

    identity: str | None
    at: int


class Sightings:
    """Reads and writes COMPACTOR_SIGHTINGS, COMPACTOR_ABORTS and COMPACTOR_PLACES.

    Entries need a sighting because Hive leaves CQ_NEXT_TXN_ID of rebalances empty, and Hive 3 that of all entries. A
    row of COMPACTOR_ABORTS names a transaction by number and start (epoch ms), because a restored metastore reuses
    numbers. An empty directory with another identity than that of its location is not the one that was there before: a
    mount is missing (PROTOCOL 11.11).
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(self, metastore: str, entry_id: int) -> Sighting | None:
        """Returns the first sighting of the entry; None if it has not been seen yet."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.read() as conn:
            known = conn.execute(query).first()
        if known is None:
            return None
        return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)

    @retried
    def first(self, metastore: str, entry_id: int, now: Sighting) -> Sighting:
        """Returns the first sighting of the entry, and stores ``now`` if there is none."""
        query = select(_S.NEWEST_TXN_ID, _S.NEWEST_LOCK_ID).where(_S.METASTORE == metastore, _S.ENTRY_ID == entry_id)
        with self._database.write() as conn:
            lock_state(conn)
            known = conn.execute(query).first()
            if known is not None:
                return Sighting(newest=TxnId(known.NEWEST_TXN_ID), newest_lock=known.NEWEST_LOCK_ID or 0)
            row = {"NEWEST_TXN_ID": now.newest, "NEWEST_LOCK_ID": now.newest_lock}
            conn.execute(insert(SIGHTINGS).values(METASTORE=metastore, ENTRY_ID=entry_id, **row))
            return now

    def aborts(self, metastore: str, aborted: Mapping[TxnId, int]) -> dict[TxnId, int]:
        """Returns when each of ``aborted`` was first seen (epoch ms).

        ``aborted`` maps a transaction to its start.
        """
        with self._database.read() as conn:
            rows = conn.execute(select(ABORTS).where(_A.METASTORE == metastore)).all()
        return {TxnId(row.TXN_ID): row.SEEN_AT for row in rows if aborted.get(TxnId(row.TXN_ID)) == row.STARTED}

    @retried
    def record_aborts(self, metastore: str, aborted: Mapping[TxnId, int], now: int) -> dict[TxnId, int]:
        """Returns when each of ``aborted`` was first seen, and stores the new ones as seen ``now``.

        ``aborted`` has every aborted transaction, so all other rows are deleted.
        """
        with self._database.read() as conn:
            rows = conn.execute(select(ABORTS).where(_A.METASTORE == metastore)).all()
        stored = {TxnId(row.TXN_ID): (row.STARTED, row.SEEN_AT) for row in rows}
        seen = {txn: at for txn, (started, at) in stored.items() if aborted.get(txn) == started}
        changed = sorted((stored.keys() | aborted.keys()) - seen.keys())
        if changed:
            self._replace_aborts(metastore, changed, aborted, now)
        return {txn: seen.get(txn, now) for txn in aborted}

    def _replace_aborts(self, metastore: str, changed: list[TxnId], aborted: Mapping[TxnId, int], now: int) -> None:
        """Stores those of ``changed`` that are aborted as seen ``now``, and deletes the other ones."""
        with self._database.write() as conn:
            lock_state(conn)
            for start in range(0, len(changed), _AT_ONCE):
                batch = changed[start : start + _AT_ONCE]
                conn.execute(delete(ABORTS).where(_A.METASTORE == metastore, _A.TXN_ID.in_(batch)))
                rows = [
                    {"METASTORE": metastore, "TXN_ID": txn, "STARTED": aborted[txn], "SEEN_AT": now}
                    for txn in batch
                    if txn in aborted
                ]
                if rows:
                    conn.execute(insert(ABORTS), rows)

    def locations(self, metastore: str) -> dict[str, KnownPlace]:
        """Returns every place of a metastore, by location."""
        with self._database.read() as conn:
            rows = conn.execute(select(PLACES).where(_P.METASTORE == metastore)).all()
        return {row.LOCATION: KnownPlace(identity=row.IDENTITY, at=row.SEEN_AT) for row in rows}

    @retried
    def record_locations(self, metastore: str, seen: Mapping[str, KnownPlace]) -> None:
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
    def purge_locations(self, older_than_ms: int) -> int:
        """Deletes places that were last seen with data longer ago than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(PLACES).where(_P.SEEN_AT < now_ms(conn) - older_than_ms)).rowcount
