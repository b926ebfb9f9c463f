"""TXN_COMPONENTS of aborted transactions: the names under which they are recorded, and their removal."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select

from compactor.acid import partition_names, txn_states
from compactor.base.ids import WriteId
from compactor.compaction.entry import Entity
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.entity import entity_is
from compactor.metastore.schema.tables import DBS, PARTITIONS, TBLS, TXN_COMPONENTS, TXNS
from compactor.metastore.transactions import transaction_rows as txn_rows

_TC = TXN_COMPONENTS.c


def recorded_forms(conn: Connection, dialect: Dialect, entity: Entity) -> tuple[str | None, ...]:
    """Returns the names under which writes into ``entity``, and into no other partition, are recorded; the stored one first.

    A form that may also mean another partition is left out: what is recorded for that one must not go with ours.
    """
    stored, *others = dialect.recorded_names(entity.partition)
    if not others:
        return (stored,)
    alike = _alike(conn, dialect, entity)
    return (stored, *(form for form in others if all(form not in dialect.recorded_names(name) for name in alike)))


def are_shared(conn: Connection, dialect: Dialect, entity: Entity) -> bool:
    """Returns true if aborted writes under a form of the name may be in another partition: Hive 3.1 tells none from those
    whose names differ in case alone."""
    lower = _in_lower_case(dialect, entity)
    return lower is not None and any(
        partition_names.in_lower_case(name) == lower for name in _alike(conn, dialect, entity)
    )


def of_entity(conn: Connection, dialect: Dialect, entity: Entity) -> ColumnElement[bool]:
    """Returns the condition for rows of TXN_COMPONENTS that refer to ``entity``, under any form of its name; where that is
    shared, to ``entity`` or to those that share it."""
    return entity_is(TXN_COMPONENTS, "TC", entity, *forms_of(conn, dialect, entity))


def forms_of(conn: Connection, dialect: Dialect, entity: Entity) -> tuple[str | None, ...]:
    """Returns every form of the name of ``entity`` under which its writes may be recorded, shared ones too."""
    forms = dict.fromkeys(recorded_forms(conn, dialect, entity))
    if (lower := _in_lower_case(dialect, entity)) is not None:
        forms[lower] = None
    return tuple(forms)


def _in_lower_case(dialect: Dialect, entity: Entity) -> str | None:
    if entity.partition is None or not dialect.lowers_partitions:
        return None
    return partition_names.in_lower_case(entity.partition)


def _alike(conn: Connection, dialect: Dialect, entity: Entity) -> list[str]:
    """Returns the names of other partitions that may be recorded as ``entity`` is, and perhaps some more."""
    stored, *others = dialect.recorded_names(entity.partition)
    name = PARTITIONS.c.PART_NAME
    alike: ColumnElement[bool] = name.in_(others)
    if (lower := _in_lower_case(dialect, entity)) is not None:
        # what is beyond ASCII the database may turn into lower case otherwise than Hive does
        parts = [part for part in re.split(r"[^\x00-\x7f]+", lower) if part]
        alike |= and_(*(func.lower(name).contains(part, autoescape=True) for part in parts))
    query = (
        select(name)
        .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(DBS.c.NAME == entity.database, TBLS.c.TBL_NAME == entity.table, alike)
    )
    return [found for found in conn.execute(query).scalars() if found != stored]


def forget_aborted(
    conn: Connection, dialect: Dialect, entity: Entity, write_ids: Collection[WriteId], upto: WriteId | None = None
) -> int:
    """Deletes the components of aborted transactions in ``entity`` with these ``write_ids``, of which there may be any
    number, and those ``upto`` one; returns their number.

    A row without a write ID (Hive's rebalance writes one) goes with the last row of its transaction that has one.
    """
    numbers = sorted(write_ids)
    gone: list[ColumnElement[bool]] = [] if upto is None else [_TC.TC_WRITEID <= upto]
    for at in range(0, len(numbers), txn_rows.AT_ONCE):
        gone.append(_TC.TC_WRITEID.in_(numbers[at : at + txn_rows.AT_ONCE]))
    here = of_entity(conn, dialect, entity)
    aborted = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.ABORTED)
    mine = (here, _TC.TC_TXNID.in_(aborted))
    deleted = sum(conn.execute(delete(TXN_COMPONENTS).where(*mine, each)).rowcount for each in gone)
    found = select(_TC.TC_TXNID).where(*mine, _TC.TC_WRITEID.is_not(None)).subquery()
    numbered = select(found.c.TC_TXNID)  # MySQL reads no table that it deletes from, but it does read a derived one
    left_over = delete(TXN_COMPONENTS).where(*mine, _TC.TC_WRITEID.is_(None), _TC.TC_TXNID.not_in(numbered))
    return deleted + conn.execute(left_over).rowcount
