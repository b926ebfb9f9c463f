"""TXN_COMPONENTS of aborted transactions: the recorded forms of names, and the removal of rows."""

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
    """Returns the names under which only writes into ``entity`` are recorded, the stored name first.

    A form that may also mean another partition is left out, because rows of that partition must stay.
    """
    stored, *others = dialect.recorded_names(entity.partition)
    if not others:
        return (stored,)
    alike = _similar_names(conn, dialect, entity)
    return (stored, *(form for form in others if all(form not in dialect.recorded_names(name) for name in alike)))


def are_shared(conn: Connection, dialect: Dialect, entity: Entity) -> bool:
    """Returns true if aborted writes under a form of the name may belong to another partition.

    Hive 3.1 does not distinguish partitions whose names differ only in case.
    """
    lower = _in_lower_case(dialect, entity)
    return lower is not None and any(
        partition_names.in_lower_case(name) == lower for name in _similar_names(conn, dialect, entity)
    )


def of_entity(conn: Connection, dialect: Dialect, entity: Entity) -> ColumnElement[bool]:
    """Returns the condition for rows of TXN_COMPONENTS that may refer to ``entity``, under any form of its name."""
    return entity_is(TXN_COMPONENTS, "TC", entity, *forms_of(conn, dialect, entity))


def forms_of(conn: Connection, dialect: Dialect, entity: Entity) -> tuple[str | None, ...]:
    """Returns every form of the name of ``entity`` in records of its writes, even if another partition shares it."""
    forms = dict.fromkeys(recorded_forms(conn, dialect, entity))
    if (lower := _in_lower_case(dialect, entity)) is not None:
        forms[lower] = None
    return tuple(forms)


def _in_lower_case(dialect: Dialect, entity: Entity) -> str | None:
    if entity.partition is None or not dialect.lowers_partitions:
        return None
    return partition_names.in_lower_case(entity.partition)


def _similar_names(conn: Connection, dialect: Dialect, entity: Entity) -> list[str]:
    """Returns the names of all other partitions with a form in common with ``entity``, and perhaps a few more."""
    stored, *others = dialect.recorded_names(entity.partition)
    name = PARTITIONS.c.PART_NAME
    alike: ColumnElement[bool] = name.in_(others)
    if (lower := _in_lower_case(dialect, entity)) is not None:
        # Databases and Hive may lower characters beyond ASCII differently.
        parts = [part for part in re.split(r"[^\x00-\x7f]+", lower) if part]
        alike |= and_(*(func.lower(name).contains(part, autoescape=True) for part in parts))
    query = (
        select(name)
        .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(DBS.c.NAME == entity.database, TBLS.c.TBL_NAME == entity.table, alike)
    )
    return [other for other in conn.execute(query).scalars() if other != stored]


def forget_aborted(
    conn: Connection, dialect: Dialect, entity: Entity, write_ids: Collection[WriteId], upto: WriteId | None = None
) -> int:
    """Deletes components of aborted transactions in ``entity`` with these ``write_ids``, or up to ``upto``.

    Returns the number of deleted rows. A row without a write ID, as of Hive's rebalance, is deleted with the last row of
    its transaction that has one. ``write_ids`` may be any number.
    """
    numbers = sorted(write_ids)
    gone: list[ColumnElement[bool]] = [] if upto is None else [_TC.TC_WRITEID <= upto]
    for at in range(0, len(numbers), txn_rows.AT_ONCE):
        gone.append(_TC.TC_WRITEID.in_(numbers[at : at + txn_rows.AT_ONCE]))
    here = of_entity(conn, dialect, entity)
    aborted = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.ABORTED)
    mine = (here, _TC.TC_TXNID.in_(aborted))
    deleted = sum(conn.execute(delete(TXN_COMPONENTS).where(*mine, each)).rowcount for each in gone)
    with_write_id = select(_TC.TC_TXNID).where(*mine, _TC.TC_WRITEID.is_not(None)).subquery()
    numbered = select(
        with_write_id.c.TC_TXNID
    )  # MySQL cannot read the table from which it deletes, but it can read a derived one
    left_over = delete(TXN_COMPONENTS).where(*mine, _TC.TC_WRITEID.is_(None), _TC.TC_TXNID.not_in(numbered))
    return deleted + conn.execute(left_over).rowcount
