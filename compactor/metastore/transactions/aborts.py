"""Writes of aborted transactions that are not yet forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, or_, select

from compactor.acid import txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entity
from compactor.database.engine import Database
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_COMPONENTS, TXNS
from compactor.metastore.transactions import components


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedWrite:
    """One component of an aborted transaction; its last heartbeat was at ``last_heartbeat`` (epoch ms)."""

    txn: TxnId
    write_id: WriteId
    last_heartbeat: int


class Aborts:
    """TXN_COMPONENTS of transactions in state ``a``."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def writes(self, entity: Entity) -> list[AbortedWrite]:
        """Returns the aborted writes of one entity that have a write ID, oldest first, under every form of its name.

        If ``are_shared``, some of them may belong to another partition.
        """
        query = (
            select(TXNS.c.TXN_ID, TXN_COMPONENTS.c.TC_WRITEID, TXNS.c.TXN_LAST_HEARTBEAT)
            .join(TXNS, TXNS.c.TXN_ID == TXN_COMPONENTS.c.TC_TXNID)
            .where(TXNS.c.TXN_STATE == txn_states.ABORTED, TXN_COMPONENTS.c.TC_WRITEID.is_not(None))
            .distinct()
            .order_by(TXNS.c.TXN_ID)
        )
        with self._database.read() as conn:
            query = query.where(components.of_entity(conn, self._dialect, entity))
            return [
                AbortedWrite(txn=TxnId(txn), write_id=WriteId(write_id), last_heartbeat=heard)
                for txn, write_id, heard in conn.execute(query)
            ]

    def written_in(self, entities: Collection[Entity]) -> dict[Entity, list[WriteId | None]]:
        """Returns the write IDs of aborted transactions in each of ``entities``, under every form of its name.

        None stands for a component without a write ID. Entities without aborted writes are left out.
        """
        columns = TXN_COMPONENTS.c
        query = select(columns.TC_DATABASE, columns.TC_TABLE, columns.TC_PARTITION, columns.TC_WRITEID).join(
            TXNS, TXNS.c.TXN_ID == columns.TC_TXNID
        )
        write_ids: defaultdict[Entity, list[WriteId | None]] = defaultdict(list)
        if not entities:
            return {}
        with self._database.read() as conn:
            entities_by_name = self._recorded(conn, entities)
            for row in conn.execute(
                query.where(TXNS.c.TXN_STATE == txn_states.ABORTED, _are_recorded(entities_by_name))
            ):
                for entity in entities_by_name.get((row.TC_DATABASE, row.TC_TABLE), {}).get(row.TC_PARTITION, ()):
                    write_ids[entity].append(None if row.TC_WRITEID is None else WriteId(row.TC_WRITEID))
        return dict(write_ids)

    def _recorded(
        self, conn: Connection, entities: Iterable[Entity]
    ) -> dict[tuple[str, str], dict[str | None, list[Entity]]]:
        """Returns the recorded names of writes into ``entities`` by table, each with the entities it may mean."""
        entities_by_name: dict[tuple[str, str], dict[str | None, list[Entity]]] = defaultdict(lambda: defaultdict(list))
        for entity in entities:
            for name in components.forms_of(conn, self._dialect, entity):
                entities_by_name[entity.database, entity.table][name].append(entity)
        return entities_by_name

    def are_shared(self, entity: Entity) -> bool:
        """Returns true if aborted writes of another partition may be recorded under a name of ``entity``.

        Then files that are not in its directory may still be elsewhere in its table.
        """
        with self._database.read() as conn:
            return components.are_shared(conn, self._dialect, entity)

    def forget(self, entity: Entity, write_ids: Collection[WriteId]) -> int:
        """Deletes the components of these aborted writes; storage must not have files of them (PROTOCOL 8).

        Returns the number of deleted rows.
        """
        with self._database.write() as conn:
            return components.forget_aborted(conn, self._dialect, entity, write_ids)


def _are_recorded(recorded: Mapping[tuple[str, str], Collection[str | None]]) -> ColumnElement[bool]:
    """Returns the condition for rows of TXN_COMPONENTS that have one of these names of each table."""
    columns = TXN_COMPONENTS.c
    conditions: list[ColumnElement[bool]] = []
    for (database, table), names in recorded.items():
        here = (columns["TC_DATABASE"] == database) & (columns["TC_TABLE"] == table)
        named = sorted(name for name in names if name is not None)
        if named:
            conditions.append(here & columns.TC_PARTITION.in_(named))
        if None in names:
            conditions.append(here & columns.TC_PARTITION.is_(None))
    return or_(*conditions)
