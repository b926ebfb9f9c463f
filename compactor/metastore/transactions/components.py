"""Components: writes of transactions that are not compacted yet, and writes of aborted transactions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Label,
    Select,
    Table,
    and_,
    cast,
    delete,
    func,
    or_,
    select,
    tuple_,
)

from compactor.acid import partition_names, txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.decision_reuse import Writes
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database
from compactor.database.prepared import in_parts
from compactor.database.text_hash import mix_bits
from compactor.metastore.schema.dialect import Dialect, entity_is
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    DBS,
    PARTITIONS,
    TBLS,
    TXN_COMPONENTS,
    TXNS,
)
from compactor.metastore.transactions import transaction_rows as txn_rows

_TC = TXN_COMPONENTS.c
_W = COMPLETED_TXN_COMPONENTS.c


def recorded_forms(conn: Connection, entity: Entity) -> tuple[str | None, ...]:
    """Returns the names under which only writes into ``entity`` are recorded, the stored name first.

    A form that may also mean another partition is left out, because rows of that partition must stay.
    """
    stored, *others = _recorded_names(entity.partition)
    if not others:
        return (stored,)
    alike = _similar_names(conn, entity)
    return (stored, *(form for form in others if all(form not in _recorded_names(name) for name in alike)))


def in_other_case(
    conn: Connection, entities: Collection[Entity], table: Table = COMPLETED_TXN_COMPONENTS, prefix: str = "CTC"
) -> dict[Entity, list[str]]:
    """Returns the names in ``table`` that differ from an entity's only in the case of their keys."""
    by_lower: defaultdict[tuple[str, str, str], list[Entity]] = defaultdict(list)
    for entity in entities:
        if entity.partition is not None:
            by_lower[entity.database, entity.table, partition_names.in_lower_case(entity.partition)].append(entity)
    database, name, partition = (table.c[f"{prefix}_{column}"] for column in ("DATABASE", "TABLE", "PARTITION"))
    names: defaultdict[Entity, list[str]] = defaultdict(list)
    for part in in_parts(list(by_lower), txn_rows.AT_ONCE):
        here = tuple_(database, name).in_({key[:2] for key in part})
        query = select(database, name, partition).where(here, func.lower(partition).in_({key[2] for key in part}))
        for of_database, of_table, recorded in conn.execute(query.distinct()):
            for entity in by_lower.get((of_database, of_table, partition_names.in_lower_case(recorded)), ()):
                if recorded != entity.partition and partition_names.is_same_but_for_keys(recorded, entity.partition):
                    names[entity].append(recorded)
    return names


def are_shared(conn: Connection, entity: Entity) -> bool:
    """Returns true if aborted writes under a form of the name may belong to another partition.

    Hive 3.1 does not distinguish partitions whose names differ only in case.
    """
    lower = _in_lower_case(entity)
    return lower is not None and any(
        partition_names.in_lower_case(name) == lower for name in _similar_names(conn, entity)
    )


def is_of_entity(conn: Connection, dialect: Dialect, entity: Entity) -> ColumnElement[bool]:
    """Returns the condition for rows of TXN_COMPONENTS that may refer to ``entity``.

    It accepts any form of its name.
    """
    return entity_is(TXN_COMPONENTS, "TC", entity, *forms_of(conn, dialect, [entity])[entity])


def forms_of(conn: Connection, dialect: Dialect, entities: Collection[Entity]) -> dict[Entity, tuple[str | None, ...]]:
    """Returns every form of the name of each of ``entities`` in records of its writes.

    Another partition may share a form. On a later schema than Hive 3.1's, a name in lower case is of the partition that is
    stored under it.
    """
    otherwise = in_other_case(conn, entities, TXN_COMPONENTS, "TC")
    every: dict[Entity, tuple[str | None, ...]] = {}
    for entity in entities:
        forms = dict.fromkeys((*recorded_forms(conn, entity), *otherwise.get(entity, ())))
        lower = _in_lower_case(entity)
        if lower not in forms and (dialect.lowers_partitions or lower not in _similar_names(conn, entity)):
            forms[lower] = None
        every[entity] = tuple(forms)
    return every


def _in_lower_case(entity: Entity) -> str | None:
    return None if entity.partition is None else partition_names.in_lower_case(entity.partition)


def _recorded_names(partition: str | None) -> tuple[str | None, ...]:
    """Returns every form of a name in records of writes.

    Those of Hive 3.1 outlive an upgrade of the schema.
    """
    return partition_names.recorded_names(partition, lowered=True)


def _similar_names(conn: Connection, entity: Entity) -> list[str]:
    """Returns the names of all other partitions with a form in common with ``entity``.

    It may return a few more.
    """
    stored, *others = _recorded_names(entity.partition)
    name = PARTITIONS.c.PART_NAME
    alike: ColumnElement[bool] = name.in_(others)
    if (lower := _in_lower_case(entity)) is not None:
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
    """Deletes components of aborted transactions in ``entity``.

    Those with these ``write_ids``, or up to ``upto``.

    Returns the number of deleted rows. A row without a write ID, as of Hive's rebalance, is deleted with the last row of
    its transaction that has one. ``write_ids`` may be any number.
    """
    numbers = sorted(write_ids)
    gone: list[ColumnElement[bool]] = [] if upto is None else [_TC.TC_WRITEID <= upto]
    for at in range(0, len(numbers), txn_rows.AT_ONCE):
        gone.append(_TC.TC_WRITEID.in_(numbers[at : at + txn_rows.AT_ONCE]))
    here = is_of_entity(conn, dialect, entity)
    aborted = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == txn_states.ABORTED)
    mine = (here, _TC.TC_TXNID.in_(aborted))
    deleted = sum(conn.execute(delete(TXN_COMPONENTS).where(*mine, each)).rowcount for each in gone)
    with_write_id = select(_TC.TC_TXNID).where(*mine, _TC.TC_WRITEID.is_not(None)).subquery()
    numbered = select(
        with_write_id.c.TC_TXNID
    )  # MySQL cannot read the table from which it deletes, but it can read a derived one
    left_over = delete(TXN_COMPONENTS).where(*mine, _TC.TC_WRITEID.is_(None), _TC.TC_TXNID.not_in(numbered))
    return deleted + conn.execute(left_over).rowcount


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedWrite:
    """One component of an aborted transaction; its last heartbeat was at ``last_heartbeat`` (epoch ms)."""

    txn: TxnId
    write_id: WriteId
    last_heartbeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """The aborted transactions that wrote into one entity and are not yet forgotten."""

    count: int
    oldest_start: int  #: epoch ms at which the oldest of them was opened
    total: int = 0  #: the sum of their ids, which changes if one is forgotten and another one is added


class AbortFigures(NamedTuple):
    """The aborted transactions that are not yet forgotten.

    Each counts once for each entity that it wrote into.
    """

    total: int = 0
    most: int = 0  #: the largest number in one entity
    oldest_start: int | None = None  #: epoch ms


class Components:
    """Reads COMPLETED_TXN_COMPONENTS and TXN_COMPONENTS, and deletes components of aborted transactions."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def written_tables(self) -> dict[tuple[str, str], int]:
        """Returns the tables with writes since their last compaction, and the number of rows that record them.

        A table is its database and name.
        """
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE)]
        query = select(*_label_names(names), func.count().label("n")).where(_W.CTC_TABLE.is_not(None)).group_by(*names)
        with self._database.read() as conn:
            return {(row.name0, row.name1): row.n for row in conn.execute(query)}

    def writes(self, tables: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str | None, Writes]]:
        """Returns the writes into each of ``tables`` since its last compaction, by partition.

        Partition names are as recorded, so a name may also occur in Hive's twice escaped form.
        """
        writes: dict[tuple[str, str], dict[str | None, Writes]] = {table: {} for table in tables}
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE, _W.CTC_PARTITION)]
        # Exact, and not decimals.
        total, mixed = (cast(func.sum(number), BigInteger) for number in (_W.CTC_TXNID, mix_bits(_W.CTC_TXNID)))
        columns: list[Any] = [*_label_names(names), func.count(), total, mixed]
        query = select(*columns).group_by(*names)
        # Two plain lists are faster than a list of pairs, which a server compares with each row one by one.
        query = query.where(_W.CTC_DATABASE.in_({database for database, _ in tables}))
        query = query.where(_W.CTC_TABLE.in_({table for _, table in tables}))
        with self._database.read() as conn:
            for database, table, partition, *figures in conn.execute(query).all():
                if (of_table := writes.get((database, table))) is not None:
                    of_table[partition] = Writes._make(figures)
        return writes

    def written_partitions(self, database: str, table: str, write_ids: Collection[WriteId]) -> list[str]:
        """Returns the partitions into which these write IDs wrote, as recorded by the writers, sorted.

        Cleaning after a compaction removes the records.
        """
        if not write_ids:
            return []
        columns: list[Any] = [self._dialect.exactly(_W.CTC_PARTITION), _W.CTC_WRITEID]
        of_table = (_W.CTC_DATABASE == database, _W.CTC_TABLE == table, _W.CTC_PARTITION.is_not(None))
        query = select(*columns).where(*of_table, _W.CTC_WRITEID.between(min(write_ids), max(write_ids)))
        numbers = frozenset(write_ids)
        with self._database.read() as conn:
            return sorted({name for name, number in conn.execute(query).all() if number in numbers})

    def aborts(self) -> dict[Entity, Aborted]:
        """Returns every entity with aborted transactions, in one statement."""
        query, names = self._aborted()
        query = query.add_columns(
            *_label_names(names), cast(func.sum(TXNS.c.TXN_ID.distinct()), BigInteger).label("total")
        )
        with self._database.read() as conn:
            return {
                Entity(database=row.name0, table=row.name1, partition=row.name2): Aborted(
                    count=row.transactions, oldest_start=row.oldest, total=row.total
                )
                for row in conn.execute(query)
            }

    def abort_figures(self) -> AbortFigures:
        """Returns the sums of ``aborts``, counted by the database."""
        aborted = self._aborted()[0].subquery()
        query = select(func.sum(aborted.c.transactions), func.max(aborted.c.transactions), func.min(aborted.c.oldest))
        with self._database.read() as conn:
            total, most, oldest = conn.execute(query).one()
        return AbortFigures(int(total or 0), int(most or 0), oldest)

    def _aborted(self) -> tuple[Select[Any], list[ColumnElement[str]]]:
        """Returns the query for the aborted transactions of each entity, and the names that it groups by."""
        columns = TXN_COMPONENTS.c
        names = [self._dialect.exactly(name) for name in (columns.TC_DATABASE, columns.TC_TABLE, columns.TC_PARTITION)]
        figures: list[ColumnElement[Any]] = [
            func.count(TXNS.c.TXN_ID.distinct()).label("transactions"),
            func.min(TXNS.c.TXN_STARTED).label("oldest"),
        ]
        query = (
            select(*figures)
            .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
            .where(TXNS.c.TXN_STATE == txn_states.ABORTED, columns.TC_TABLE.is_not(None))
            .group_by(*names)
        )
        return query, names

    def aborted_writes(self, entity: Entity) -> list[AbortedWrite]:
        """Returns the aborted writes of one entity that have a write ID, oldest first.

        It finds every form of the entity's name.

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
            query = query.where(is_of_entity(conn, self._dialect, entity))
            return [
                AbortedWrite(txn=TxnId(txn), write_id=WriteId(write_id), last_heartbeat=heard)
                for txn, write_id, heard in conn.execute(query)
            ]

    def aborted_writes_in(self, entities: Collection[Entity]) -> dict[Entity, list[WriteId | None]]:
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
        self, conn: Connection, entities: Collection[Entity]
    ) -> dict[tuple[str, str], dict[str | None, list[Entity]]]:
        """Returns the recorded names of writes into ``entities`` by table, each with the entities it may mean."""
        entities_by_name: dict[tuple[str, str], dict[str | None, list[Entity]]] = defaultdict(lambda: defaultdict(list))
        for entity, forms in forms_of(conn, self._dialect, entities).items():
            for name in forms:
                entities_by_name[entity.database, entity.table][name].append(entity)
        return entities_by_name

    def are_shared(self, entity: Entity) -> bool:
        """Returns true if aborted writes of another partition may be recorded under a name of ``entity``.

        Then files that are not in its directory may still be elsewhere in its table.
        """
        with self._database.read() as conn:
            return are_shared(conn, entity)

    def forget_aborted(self, entity: Entity, write_ids: Collection[WriteId]) -> int:
        """Deletes the components of these aborted writes; storage must not have files of them (PROTOCOL 8).

        Returns the number of deleted rows.
        """
        with self._database.write() as conn:
            return forget_aborted(conn, self._dialect, entity, write_ids)


def _label_names(names: list[ColumnElement[str]]) -> list[Label[str]]:
    return [name.label(f"name{number}") for number, name in enumerate(names)]
