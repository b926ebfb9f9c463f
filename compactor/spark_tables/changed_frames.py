"""The changed rows of a statement as one DataFrame, arranged for those who write them; see ``changed_rows``.

A row that is updated stays one row until it is written, and rows are shuffled by the place of the row that they change: its
partition, file number and range of ROW__IDs, which are the same however often Spark evaluates what they come from. So a task
that is tried again, or whose input is, writes changes that fit to those of the others. Rows that are added go by the numbers
that ``stored`` gave the source's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructType

from compactor.errors import NotFound
from compactor.spark_tables.clauses import Clause, Expression, by_column, is_plain
from compactor.spark_tables.messages import BegunChange
from compactor.spark_tables.pushdown import quoted
from compactor.tables.schema import ROW_ID
from compactor.tables.writing.row_change import EXACT, FILE, KIND, Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_ROW = "row__source"  #: the number of a row of the source
_CLAUSE = "row__clause"  #: the number of the clause that counts for a row
_RANGE = 22  #: bits of row IDs and numbers that are written by one task
_CHECKPOINTS = "spark.checkpoint.dir"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The rows of the table that is changed, with ROW__ID and file, under the table's alias."""

    rows: DataFrame
    begun: BegunChange
    table: str


def stored(source: DataFrame) -> DataFrame:
    """Evaluates the rows of a merge's source once, keeps and numbers them: at ``spark.checkpoint.dir`` if there is one, else
    on executors, and then the loss of one fails the merge."""
    numbered = source.select("*", F.monotonically_increasing_id().alias(SOURCE_ROW))
    if source.sparkSession.conf.get(_CHECKPOINTS, None):
        return numbered.checkpoint()
    return numbered.localCheckpoint()


def deleted_rows(target: Target, condition: Expression | None) -> DataFrame:
    """Returns the rows that a DELETE deletes."""
    found = _meeting(target.rows, condition)
    return _arranged(found.select(F.lit(int(Kind.DELETE)).alias(KIND), F.col(ROW_ID), F.col(FILE)), [])


def updated_rows(target: Target, condition: Expression | None, values: Mapping[str, Expression]) -> DataFrame:
    """Returns the rows of an UPDATE with their new values."""
    found = _meeting(target.rows, condition)
    names = {column: f"row__value_{place}" for place, column in enumerate(values)}
    raw = found.select("*", *(_expression(value).alias(names[column]) for column, value in values.items()))
    types = target.rows.schema
    columns = [
        (_made(target, types, column, F.col(names[column])) if column in values else F.col(quoted(column))).alias(
            column
        )
        for column in target.begun.columns
    ]
    columns += _exact(types, lambda column: F.lit(column not in values))
    return _arranged(raw.select(F.lit(int(Kind.UPDATE)).alias(KIND), F.col(ROW_ID), F.col(FILE), *columns), [])


def merged_rows(target: Target, source: DataFrame, on: Expression, clauses: Sequence[Clause]) -> DataFrame:
    """Returns the rows of a MERGE: those that match and are changed, or count for the check, and those that are added.

    Raises:
        NotFound: a clause names a column that the table does not have, or takes one that the source does not have.
    """
    values = [_values(target, source, clause) for clause in clauses]
    types = target.rows.schema
    inserts = any(not clause.is_matched for clause in clauses)
    joined = source.join(target.rows, _expression(on), "left_outer" if inserts else "inner")
    matched = target.rows[ROW_ID].isNotNull()
    chosen = joined.select("*", _chosen(clauses, matched).alias(_CLAUSE))
    counts = F.col(_CLAUSE).isNotNull()
    chosen = chosen.filter(counts | matched if target.begun.is_checked else counts)
    own = {column: f"row__own_{place}" for place, column in enumerate(target.begun.columns)}
    names = {
        (at, column): f"row__value_{at}_{own[column]}" for at, of_clause in enumerate(values) for column in of_clause
    }
    raw = chosen.select(
        F.col(_CLAUSE),
        source[SOURCE_ROW].alias(SOURCE_ROW),
        *(target.rows[name].alias(name) for name in (ROW_ID, FILE, EXACT) if name in types.names),
        *(target.rows[quoted(column)].alias(name) for column, name in own.items()),
        *(
            F.when(F.col(_CLAUSE) == at, values[at][column]).alias(
                name
            )  # of no other row: an expression may fail there
            for (at, column), name in names.items()
        ),
    )
    columns = [_column(target, types, clauses, column, own, names).alias(column) for column in target.begun.columns]
    columns += _exact(types, lambda column: F.col(_CLAUSE).isin(_leaving(target, clauses, column)))
    kinds = [int(clause.kind) for clause in clauses]
    kind = _by_clause([F.lit(one) for one in kinds], F.lit(int(Kind.NOTHING)))
    made = raw.select(kind.alias(KIND), F.col(ROW_ID), F.col(FILE), *columns, F.col(SOURCE_ROW))
    return _arranged(made, _place_of_added(target, clauses)).drop(SOURCE_ROW)


def _exact(types: StructType, stays: Callable[[str], Column]) -> list[Column]:
    """Returns the column of exact values, of the rows in which a column stays as it is; none for a table without any."""
    if EXACT not in types.names:
        return []
    fields = types[EXACT].dataType.names
    return [F.struct(*(F.when(stays(name), F.col(EXACT)[name]).alias(name) for name in fields)).alias(EXACT)]


def _leaving(target: Target, clauses: Sequence[Clause], column: str) -> list[int]:
    """Returns the numbers of the clauses that update a row and leave this column of it as it is."""
    fixed = column.lower() in {one.lower() for one in (*target.begun.partition_keys, *target.begun.bucket_columns)}
    return [
        at
        for at, clause in enumerate(clauses)
        if clause.kind is Kind.UPDATE
        and (fixed if clause.values is None else column.lower() not in {name.lower() for name in clause.values})
    ]


def _values(target: Target, source: DataFrame, clause: Clause) -> dict[str, Column]:
    """Returns the values of a clause by column, of the source's types."""
    if clause.values is not None:
        named = by_column(clause.values, target.begun.columns, target.table)
        return {column: _expression(value) for column, value in named.items()}
    found = {column.lower() for column in source.columns}
    if missing := [column for column in target.begun.columns if column.lower() not in found]:
        raise NotFound(
            f"{target.table}: the source has no column {missing[0]!r}, which a clause that takes all columns needs; name "
            "the columns in set or values instead"
        )
    if clause.kind is Kind.INSERT:
        return {column: source[quoted(column)] for column in target.begun.columns}
    fixed = {column.lower() for column in (*target.begun.partition_keys, *target.begun.bucket_columns)}
    return {
        column: _unmoved(target, column, value) if column.lower() in fixed else value
        for column in target.begun.columns
        for value in (source[quoted(column)],)
    }


def _unmoved(target: Target, column: str, value: Column) -> Column:
    """Returns the row's own value; fails for a row whose source has another one."""
    own = target.rows[quoted(column)]
    why = (
        f"compactor: NotConforming: {target.table}: column {column} says in which partition or bucket a row is, and the "
        "source has another value for it; delete such a row and insert the new one"
    )
    return F.when(value.eqNullSafe(own), own).otherwise(F.raise_error(F.lit(why)))


def _chosen(clauses: Sequence[Clause], matched: Column) -> Column:
    """Returns the number of the first clause that a row meets, NULL without one."""
    found: Any = F
    for at, clause in enumerate(clauses):
        meets = matched if clause.is_matched else ~matched
        if clause.condition is not None:
            meets = meets & _expression(clause.condition)
        found = found.when(meets, F.lit(at))
    return found


def _column(
    target: Target,
    types: StructType,
    clauses: Sequence[Clause],
    column: str,
    own: Mapping[str, str],
    names: Mapping[tuple[int, str], str],
) -> Column:
    """Returns the new values of one column."""
    kind = types[column].dataType
    nothing = F.lit(None).cast(kind)
    branches = []
    for at, clause in enumerate(clauses):
        if (at, column) in names:
            branches.append(_made(target, types, column, F.col(names[at, column])))
        else:
            branches.append(F.col(own[column]) if clause.kind is Kind.UPDATE else nothing)
    return _by_clause(branches, nothing)


def _by_clause(branches: Sequence[Column], otherwise: Column) -> Column:
    found: Any = F
    for at, branch in enumerate(branches):
        found = found.when(F.col(_CLAUSE) == at, branch)
    return found.otherwise(otherwise)


def _made(target: Target, types: StructType, column: str, value: Column) -> Column:
    """Returns a value made its column's type, as Spark's INSERT makes it; one that cannot be fails the statement, also in a
    session whose casts give NULL for it."""
    kind = types[column].dataType
    made = value.try_cast(kind)
    why = f"compactor: NotConforming: {target.table}: column {column}: a value is no {kind.simpleString()}: "
    refused = F.raise_error(F.concat(F.lit(why), F.coalesce(value.try_cast("string"), F.lit("?"))))
    return F.when(value.isNotNull() & made.isNull(), refused).otherwise(made)


def _place_of_added(target: Target, clauses: Sequence[Clause]) -> list[Column]:
    """Returns what rows that are added are shuffled by: their partition, so that it has few files, if each evaluation is
    sure to give the same; else the numbers of the source's rows."""
    keys = target.begun.partition_keys
    inserts = [clause for clause in clauses if clause.kind is Kind.INSERT]
    texts = [
        value
        for clause in inserts
        for name, value in (clause.values or {}).items()
        if name.lower() in {key.lower() for key in keys}
    ]
    is_added = F.col(KIND) == int(Kind.INSERT)
    if keys and all(map(is_plain, texts)):
        return [F.when(is_added, F.col(quoted(key))) for key in keys]
    return [F.when(is_added, F.shiftright(F.col(SOURCE_ROW), _RANGE - 2))]


def _arranged(rows: DataFrame, added: Sequence[Column]) -> DataFrame:
    """Returns ``rows`` shuffled and sorted: those of one file and range of ROW__IDs together, in the order of ROW__IDs."""
    row_id, file = F.col(ROW_ID), F.col(FILE)
    places = [file["partition"], file["number"]]
    ids = [row_id["writeid"], row_id["bucketid"], row_id["rowid"]]
    return rows.repartition(*places, F.shiftright(ids[2], _RANGE), *added).sortWithinPartitions(*places, *ids)


def _meeting(rows: DataFrame, condition: Expression | None) -> DataFrame:
    return rows if condition is None else rows.filter(condition)


def _expression(value: Expression) -> Column:
    """Returns a Column for SQL text."""
    read: Callable[[str], Column] = F.expr
    return read(value) if isinstance(value, str) else value
