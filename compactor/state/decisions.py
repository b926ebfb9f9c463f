"""Decisions of a pass about each entity, with their reasons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import RowMapping, delete, insert, select

from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.state.state_tables import CONDITIONS, DECISIONS

_D, _C = DECISIONS.c, CONDITIONS.c
LOOK = "look"  #: the role of decisions between two passes of the initiator, which request nothing
PASS = "pass"  #: the role of rows that say when the initiator's passes were


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One decision.

    ``at`` is the pass's time in epoch ms, the same for all of a pass, set when it is stored.
    """

    entity: Entity
    outcome: str
    because: str
    numbers: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    role: str = "initiator"
    at: int | None = None


class Decisions:
    """Reads and writes COMPACTOR_DECISIONS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @retried
    def record(self, metastore: str, decisions: Iterable[Decided], *, at: int | None = None) -> int:
        """Stores decisions of one pass and returns its time.

        A pass that stores in several steps passes ``at`` on.
        """
        with self._database.write() as conn:
            at = now_ms(conn) if at is None else at
            rows = [
                {
                    "METASTORE": metastore,
                    "ROLE": decided.role,
                    "PASS_AT": at,
                    "DB_NAME": decided.entity.database,
                    "TABLE_NAME": decided.entity.table,
                    "PART_NAME": decided.entity.partition,
                    "OUTCOME": decided.outcome,
                    "BECAUSE": decided.because,
                    "NUMBERS": json.dumps(dict(decided.numbers), sort_keys=True),
                }
                for decided in decisions
            ]
            if rows:
                conn.execute(insert(DECISIONS), rows)
            return at

    def latest(self, metastore: str, entity: Entity) -> Decided | None:
        """Returns the newest decision about one entity."""
        part = _D.PART_NAME.is_not_distinct_from(entity.partition)
        query = select(DECISIONS).where(_D.METASTORE == metastore, part)
        query = query.where(_D.DB_NAME == entity.database, _D.TABLE_NAME == entity.table)
        with self._database.read() as conn:
            row = conn.execute(query.order_by(_D.DECISION_ID.desc()).limit(1)).mappings().first()
        return None if row is None else _decided(row)

    def in_force(self, metastore: str) -> list[Decided]:
        """Returns the decision of the last look at each entity, within a pass or between two; sorted by name."""
        of_entity = (_C.METASTORE == _D.METASTORE) & (_C.DB_NAME == _D.DB_NAME) & (_C.TABLE_NAME == _D.TABLE_NAME)
        last_look = of_entity & _C.PART_NAME.is_not_distinct_from(_D.PART_NAME) & (_C.SEEN_AT == _D.PASS_AT)
        query = select(DECISIONS).join(CONDITIONS, last_look)
        query = query.where(_D.METASTORE == metastore, _D.ROLE.in_(("initiator", LOOK)))
        with self._database.read() as conn:
            rows = conn.execute(query.order_by(_D.DB_NAME, _D.TABLE_NAME, _D.PART_NAME)).mappings()
            return [_decided(row) for row in rows]

    def since(self, metastore: str, at: int) -> list[Decided]:
        """Returns the decisions of looks at ``at`` (epoch ms) or later, oldest first.

        Looks happen within a pass or between two.
        """
        query = select(DECISIONS).where(_D.METASTORE == metastore, _D.PASS_AT >= at)
        query = query.where(_D.ROLE.in_(("initiator", LOOK))).order_by(_D.PASS_AT, _D.DECISION_ID)
        with self._database.read() as conn:
            return [_decided(row) for row in conn.execute(query).mappings()]

    def passes(self, metastore: str, since: int) -> list[int]:
        """Returns the times of the initiator's passes at ``since`` (epoch ms) or later, in order."""
        query = select(_D.PASS_AT).where(_D.METASTORE == metastore, _D.ROLE == PASS, _D.PASS_AT >= since)
        with self._database.read() as conn:
            return list(conn.execute(query.distinct().order_by(_D.PASS_AT)).scalars())

    def newest(self, metastore: str, role: str) -> int | None:
        """Returns the time of the newest pass of ``role``; None if there was none."""
        query = select(_D.PASS_AT).where(_D.METASTORE == metastore, _D.ROLE == role)
        query = query.order_by(_D.PASS_AT.desc()).limit(1)  # the newest rows are read, unlike for a maximum
        with self._database.read() as conn:
            return conn.execute(query).scalar()

    def cursor(self, metastore: str, role: str = "initiator") -> Entity | None:
        """Returns the entity of the last decision, where a pass that was cut short stopped."""
        query = select(DECISIONS).where(_D.METASTORE == metastore, _D.ROLE == role)
        with self._database.read() as conn:
            row = conn.execute(query.order_by(_D.DECISION_ID.desc()).limit(1)).mappings().first()
        return None if row is None else _decided(row).entity

    @retried
    def purge(self, older_than_ms: int) -> int:
        """Deletes the decisions of passes longer ago than this; returns their number."""
        with self._database.write() as conn:
            return conn.execute(delete(DECISIONS).where(_D.PASS_AT < now_ms(conn) - older_than_ms)).rowcount


def _decided(row: RowMapping) -> Decided:
    return Decided(
        entity=Entity(database=row["DB_NAME"], table=row["TABLE_NAME"], partition=row["PART_NAME"]),
        outcome=row["OUTCOME"],
        because=row["BECAUSE"],
        numbers=MappingProxyType(json.loads(row["NUMBERS"])),
        role=row["ROLE"],
        at=row["PASS_AT"],
    )
