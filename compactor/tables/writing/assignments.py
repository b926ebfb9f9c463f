"""The new values of an update: literals, NULL, and names of other columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import BadExpression, NotFound, NotSupported, Refused
from compactor.metastore.catalog.values import Table
from compactor.tables.filters.expressions import Comparison, Literal, Name, parse
from compactor.tables.filters.partition_constants import char_length
from compactor.tables.schema import column_type
from compactor.tables.writing.conform import Door
from compactor.tables.writing.literals import build_literal_array


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The new value of each assigned column: an array of one value, or the name of another column."""

    door: Door
    values: Mapping[str, pa.Array | str]

    @classmethod
    def from_texts(cls, table: Table, texts: Mapping[str, str]) -> Assignments:
        """Parses the values that are assigned to columns of ``table``.

        Raises:
            BadExpression: a text is neither a literal nor the name of a column.
            NotFound: the table has no such column.
            NotSupported: a partition or bucketing column is assigned.
            NotConforming: a value does not fit the column's type.
            Refused: a column is assigned twice, or none is.
        """
        if not texts:
            raise Refused(f"{table}: no column is assigned; expected at least one, such as {{'status': \"'done'\"}}")
        names = [name.lower() for name in texts]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Refused(f"{table}: column {twice[0]} is assigned twice; names are the same in any case")
        columns = (*table.columns, *table.partition_keys)
        door = Door(table=str(table), columns=tuple((column.name, column.type) for column in columns))
        return cls(door=door, values={name.lower(): _value(table, name.lower(), text) for name, text in texts.items()})

    def apply(self, rows: pa.Table) -> pa.Table:
        """Returns ``rows``, with all columns of the table, with the new values.

        As in Hive, a char that is assigned to another column loses its trailing blanks.
        """
        kinds, arrays = dict(self.door.columns), []
        for name in rows.column_names:
            value = self.values.get(name.lower(), name)
            if not isinstance(value, str):
                arrays.append(pa.repeat(value[0], rows.num_rows))
            elif value == name or char_length(kinds[value]) is None:
                arrays.append(rows.column(value))
            else:
                arrays.append(pc.utf8_rtrim(rows.column(value), " "))
        return self.door.conform(pa.table(arrays, names=rows.column_names))


def must_be_assignable(table: Table, names: Iterable[str]) -> None:
    """Refuses columns that an UPDATE cannot assign.

    Raises:
        NotSupported: one is a partition or bucketing column.
        NotFound: the table has no such column.
    """
    keys = {key.name.lower() for key in table.partition_keys}
    for name in (column.lower() for column in names):
        if name in keys or name in (bucketing.lower() for bucketing in table.bucket_columns):
            raise NotSupported(
                f"{table}: {name} is a {'partition' if name in keys else 'bucketing'} column; rows with another value are "
                "stored elsewhere; delete and append them"
            )
        _must_be_known(table, name)


def _must_be_known(table: Table, name: str) -> None:
    known = [column.name.lower() for column in (*table.columns, *table.partition_keys)]
    if name not in known:
        raise NotFound(f"{table} has no column {name!r}; it has {', '.join(known)}")


def _value(table: Table, name: str, text: str) -> pa.Array | str:
    """Parses the value that is assigned to column ``name``."""
    columns = {column.name.lower(): column for column in table.columns}
    keys = {key.name.lower(): key for key in table.partition_keys}
    must_be_assignable(table, [name])
    operand = _operand(text)
    if isinstance(operand, Name):
        _must_be_known(table, operand.name)
        return {**columns, **keys}[operand.name].name
    column = columns[name]
    literal = build_literal_array(operand, column_type(table, column), f"{table}: column {column.name}")
    door = Door(table=str(table), columns=((column.name, column.type),))
    return door.conform(pa.table({column.name: literal})).column(0).combine_chunks()


def _operand(text: str) -> Name | Literal:
    """Parses a value with the grammar of filters."""
    try:
        expression = parse(f"c = {text}")
    except BadExpression as error:
        raise BadExpression(f"value {text!r}: expected a literal, NULL or the name of a column: {error}") from error
    if not isinstance(expression, Comparison) or not isinstance(expression.left, Name):
        raise BadExpression(f"value {text!r}: expected a literal, NULL or the name of a column")
    return expression.right
